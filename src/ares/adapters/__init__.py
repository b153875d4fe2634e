"""Adapters: each implements a port by a real thing, such as a file, a process or a network service."""
