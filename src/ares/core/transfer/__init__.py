"""Bulk bytes on their way: whose turn it is, at which rate, and when an endpoint is left alone."""
