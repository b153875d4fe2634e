"""What is kept of each day when its jobs are forgotten."""
