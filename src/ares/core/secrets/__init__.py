"""Secrets: what of them must not be seen."""
