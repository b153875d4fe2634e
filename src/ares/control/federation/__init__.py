"""Clusters of a federation: the global plane's side, and a cluster's own."""
