"""The version of this program, for all layers."""

__version__ = "0.1.0"
