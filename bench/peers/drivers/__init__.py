"""Scripts that run inside a cage with the peer's own Python; each prints one JSON line."""
