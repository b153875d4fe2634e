"""Machines by need: what is worth buying, and what becomes of each that was bought."""
