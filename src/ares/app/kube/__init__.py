"""The agent of a Kubernetes cluster as a program, and what it needs there."""
