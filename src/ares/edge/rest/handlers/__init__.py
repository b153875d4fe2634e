"""Handlers: what each route does with a request, one file for each subject."""
