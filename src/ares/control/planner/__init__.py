"""The planning process: what it is told, what it answers, and the cluster as it knows it."""
