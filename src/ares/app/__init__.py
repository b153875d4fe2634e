"""Configuration, wiring and the processes people start."""
