"""Judges a replay by its log of decisions, with arithmetic of its own: nothing here knows the scheduler."""
