"""Faces of Ares: HTTP, gRPC, command line, Python client."""
