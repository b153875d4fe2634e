"""The language policies are written in."""
