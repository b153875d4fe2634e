"""The scheduler's loops: jobs are placed, moved, retried, and taken from lost nodes."""
