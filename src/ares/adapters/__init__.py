"""The ports, connected to the world."""
