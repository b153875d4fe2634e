"""Traces on machines that are bought and given back: cost and wait."""
