"""Where projects are kept."""
