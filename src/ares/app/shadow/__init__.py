"""The process that judges a shadow profile."""
