"""Execution: agents' sessions, and the transitions that their reports bring about."""
