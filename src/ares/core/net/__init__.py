"""Addresses of the network, as values. Pure."""
