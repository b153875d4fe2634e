"""Judges: whether what Ares did is what it promised. They know its records, never its code."""
