"""Vaults: where secrets are sealed."""
