"""Simulation: the product's own code on a clock that jumps."""
