"""Policies: what a rule may speak of, what may be written in one, and what it makes of a job. Pure."""
