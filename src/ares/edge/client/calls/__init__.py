"""Every request of the API as a value, by subject, and how its answer is read. No I/O."""
