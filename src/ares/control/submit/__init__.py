"""Submission: a request is checked, drafted and committed."""
