"""Actions: what a cycle may do for waiting jobs, the least disruptive first."""
