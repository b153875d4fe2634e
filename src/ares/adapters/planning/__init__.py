"""Where plans are made: in this process, or in one of its own."""
