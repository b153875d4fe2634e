"""The agent of a Kubernetes cluster: each of its nodes is a node of Ares, and attempts on it are pods."""
