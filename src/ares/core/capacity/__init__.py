"""Capacity: what is free on every node now, and what will be free when."""
