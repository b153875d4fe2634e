"""Sessions in running attempts."""
