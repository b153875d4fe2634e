"""The node agent: runs attempts while its lease lasts, and repeats each report until it is acknowledged."""
