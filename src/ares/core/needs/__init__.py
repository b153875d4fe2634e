"""What a job waits for: whether it has happened, can still happen, or cannot."""
