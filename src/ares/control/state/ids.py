"""Identifiers: short enough to type, too many to guess."""

import base64
from functools import lru_cache

from ares.core import keys
from ares.ports.clock import Rng

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# The start of 2026, from which seven characters last for 34 years.
_TIME_ZERO_S = 1_767_225_600
_ODD = 0x13198A2E0371
# Ten bits at a time, the lower ones first.
_PAIRS = tuple(_ALPHABET[pair & 31] + _ALPHABET[pair >> 5] for pair in range(1024))
# The higher ones first, of all but the first of nine characters.
_PAIRS_DOWN = tuple(_ALPHABET[pair >> 5] + _ALPHABET[pair & 31] for pair in range(1024))
_SHIFTS = (30, 20, 10, 0)


def base32(rng: Rng, chars: int) -> str:
    """Five random bits a character, no look-alike letters."""
    number = int.from_bytes(rng.token((chars * 5 + 7) // 8), "big")
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(0, 5 * chars, 10)])[:chars]


def job_id(rng: Rng, wall_s: float, number: int = 0, of: int = 1) -> str:
    """45 random bits, then the time to a 32nd of a second; `core.keys` says why in this order.

    The job with this number of a batch has its random bits from that part of all there are. Jobs of a batch are bound
    and end in its order: side by side in the store, a wave of them shares a few pages and not one page each."""
    if of == 1:
        return base32(rng, keys.ID_RANDOM_CHARS) + _moment(wall_s)
    bits = 5 * keys.ID_RANDOM_CHARS
    drawn = int.from_bytes(rng.token((bits + 7) // 8), "big") & ((1 << bits) - 1)
    value = ((number << bits) + drawn) // of
    return (
        _ALPHABET[value >> 40] + "".join([_PAIRS_DOWN[(value >> shift) & 1023] for shift in _SHIFTS]) + _moment(wall_s)
    )


def _moment(wall_s: float) -> str:
    return _time(int((wall_s - _TIME_ZERO_S) * 32))


@lru_cache(maxsize=1)
def _time(moment: int) -> str:
    """Jobs of one batch share it."""
    return "".join(_ALPHABET[(moment >> (5 * place)) & 31] for place in reversed(range(keys.ID_TIME_CHARS)))


def numbered_id(base: str, number: int) -> str:
    """The id of the job with this number in a workflow: the same whenever it is asked for, and unlike its neighbours'.

    An odd factor gives every number its own id."""
    chars = keys.ID_RANDOM_CHARS
    mixed = (_value(base[:chars]) + (number + 1) * _ODD) & ((1 << (5 * chars)) - 1)
    return "".join([_PAIRS[(mixed >> shift) & 1023] for shift in range(0, 5 * chars, 10)])[:chars] + base[chars:]


@lru_cache(maxsize=1)
def _value(random: str) -> int:
    """Jobs of one workflow share it."""
    return sum(_ALPHABET.index(char) << (5 * place) for place, char in enumerate(random))


def base64url(data: bytes) -> str:
    """Without padding, safe in headers and files."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
