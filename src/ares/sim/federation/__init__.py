"""Worlds with a global plane and several clusters, driven by `core/federation` on a clock that jumps."""
