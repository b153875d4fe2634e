"""What hardware this machine has, or pretends to have."""
