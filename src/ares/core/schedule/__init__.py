"""Scheduling: from a snapshot of nodes and waiting jobs to a plan."""
