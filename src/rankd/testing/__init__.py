"""What tests need and programs may use for theirs: real servers, started and stopped."""
