"""Traces over several regions: the router's choices against those of an oracle."""
