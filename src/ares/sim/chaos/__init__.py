"""Faults for real processes: what the chaos tests and `ares chaos` do to them."""
