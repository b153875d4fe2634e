"""Nouns: frozen structs with units in their names. No verbs, no I/O."""
