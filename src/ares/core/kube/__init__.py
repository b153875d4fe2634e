"""Kubernetes: pods for attempts, how they ended, and what nodes have."""
