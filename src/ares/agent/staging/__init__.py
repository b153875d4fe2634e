"""What an attempt needs on its node before it starts."""
