"""Queries: jobs, nodes, pools, usage and events as people see them."""
