"""State: the view of the store, its tables, and the one way to write to it."""
