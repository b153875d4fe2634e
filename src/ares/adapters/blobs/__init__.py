"""Files that jobs hand over."""
