"""Identifiers: short enough to type, too many to guess."""

import base64

from ares.core import keys
from ares.ports.clock import Rng

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# The start of 2026, from which seven characters last for 34 years.
_TIME_ZERO_S = 1_767_225_600


def base32(rng: Rng, chars: int) -> str:
    """Five random bits a character, no look-alike letters."""
    number = int.from_bytes(rng.token((chars * 5 + 7) // 8), "big")
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in range(chars))


def job_id(rng: Rng, wall_s: float) -> str:
    """45 random bits, then the time to a 32nd of a second; `core.keys` says why in this order."""
    moment = int((wall_s - _TIME_ZERO_S) * 32)
    time = "".join(_ALPHABET[(moment >> (5 * place)) & 31] for place in reversed(range(keys.ID_TIME_CHARS)))
    return base32(rng, keys.ID_RANDOM_CHARS) + time


def base64url(data: bytes) -> str:
    """Without padding, safe in headers and files."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
