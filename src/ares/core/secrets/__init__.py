"""Secrets: keeping their values out of what is shown."""
