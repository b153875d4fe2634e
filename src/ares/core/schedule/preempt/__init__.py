"""Preemption: which running jobs may be evicted for a waiting one, at what cost, and which are chosen."""
