"""Adapters that keep everything in this process: for tests, and for what may be lost."""
