"""Adapters that keep everything in this process: for tests, and for data that may be lost."""
