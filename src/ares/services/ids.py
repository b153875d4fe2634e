"""Identifiers: short enough to type, too many to guess."""

import base64

from ares.ports.clock import Rng

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_JOB_CHARS = 16


def base32(rng: Rng, chars: int) -> str:
    """Five random bits a character, no look-alike letters."""
    number = int.from_bytes(rng.token((chars * 5 + 7) // 8), "big")
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in range(chars))


def job_id(rng: Rng) -> str:
    """80 random bits in 16 characters."""
    return base32(rng, _JOB_CHARS)


def base64url(data: bytes) -> str:
    """Without padding, safe in headers and files."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
