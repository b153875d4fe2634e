"""Audit chains: in files, in memory; keys that sign their heads."""
