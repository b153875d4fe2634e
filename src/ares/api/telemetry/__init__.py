"""What is told of the platform itself: traces, series, health."""
