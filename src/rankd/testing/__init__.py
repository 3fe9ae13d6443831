"""Real servers, faults and contracts for tests, also for the tests of programs that use rankd."""
