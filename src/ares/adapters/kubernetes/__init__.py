"""Kubernetes' API by lightkube's connections: credentials, certificates and their renewal are its part."""
