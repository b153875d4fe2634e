"""Job output in files."""
