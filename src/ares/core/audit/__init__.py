"""Audit: a chain of entries in which nothing can be changed, left out or put in unnoticed."""
