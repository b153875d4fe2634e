"""Seeded bugs: each breaks a rule of the protocol on purpose, and the checkers must notice. The product has none."""
