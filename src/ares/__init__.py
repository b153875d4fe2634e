"""Ares: a job platform for GPU and batch work. Start reading at ARCHITECTURE.md."""

__version__ = "0.1.0"
