"""Checkers: whether Ares did what it promises. They know its records, never its code."""
