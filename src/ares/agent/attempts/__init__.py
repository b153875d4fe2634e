"""Attempts on this node: prepared, launched, watched and ended. Their states: `attempt.Attempt`."""
