"""W3C trace context, version 00: the text kept in a job's record."""

import re

from ares.ports.clock import Rng

_FORMAT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def new_traceparent(rng: Rng, parent: str = "") -> str:
    """`parent` itself when it is valid, so that the job's spans become its children; else a new, sampled trace."""
    if _FORMAT.fullmatch(parent):
        return parent
    return f"00-{_nonzero(rng, 16)}-{_nonzero(rng, 8)}-01"


def _nonzero(rng: Rng, n_bytes: int) -> str:
    """All zeros means "invalid" in the format."""
    drawn = rng.token(n_bytes)
    return drawn.hex() if any(drawn) else "1".zfill(2 * n_bytes)
