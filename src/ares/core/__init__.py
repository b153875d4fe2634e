"""Decisions. Pure: no I/O, clock, randomness, async, logging or environment."""
