"""What is kept of what was seen in numbers."""
