"""Runs attempts as local processes, each contained so that nothing outlives it."""
