"""The queue: which job comes first."""
