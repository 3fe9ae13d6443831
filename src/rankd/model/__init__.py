"""Nouns and arithmetic: no I/O, no clock, no randomness, no asyncio."""
