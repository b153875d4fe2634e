"""Copies of a file as a failing disk, a power failure or a wrong restore might leave it."""

import random
from collections.abc import Iterator
from typing import NamedTuple

PAGE = 4096
RATES = (1e-3, 1e-4, 1e-5)


class Spoilt(NamedTuple):
    what: str
    data: bytes


def cut(data: bytes, at: int) -> Spoilt:
    return Spoilt(f"cut at {at}", data[:at])


def cuts(data: bytes, count: int, rng: random.Random) -> Iterator[Spoilt]:
    """At every byte where there are few, else around the ends of pages and anywhere."""
    if len(data) <= count:
        places = list(range(len(data)))
    else:
        edges = {at + step for at in range(0, len(data), PAGE) for step in (-1, 0, 1)} & set(range(len(data)))
        chosen = rng.sample(sorted(edges), min(len(edges), count // 2))
        places = sorted({*chosen, *rng.sample(range(len(data)), count - len(chosen))})
    for at in places:
        yield cut(data, at)


def flips(data: bytes, count: int, rng: random.Random) -> Iterator[Spoilt]:
    """So many bits of all, but one at least."""
    for number in range(count):
        rate = RATES[number % len(RATES)]
        spoilt = bytearray(data)
        times = max(1, round(len(data) * 8 * rate))
        for bit in rng.sample(range(len(data) * 8), min(times, len(data) * 8)):
            spoilt[bit // 8] ^= 1 << bit % 8
        yield Spoilt(f"{times} bits, the {number}th", bytes(spoilt))


def single_flips(data: bytes, count: int, rng: random.Random) -> Iterator[Spoilt]:
    """The hardest to notice."""
    for bit in rng.sample(range(len(data) * 8), min(count, len(data) * 8)):
        spoilt = bytearray(data)
        spoilt[bit // 8] ^= 1 << bit % 8
        yield Spoilt(f"bit {bit % 8} of byte {bit // 8}", bytes(spoilt))


def pages(data: bytes, count: int, rng: random.Random, page: int = PAGE, start: int = 0) -> Iterator[Spoilt]:
    """Zeroed, written in the place of another, there twice, or gone."""
    total = (len(data) - start) // page
    for number in range(count if total > 1 else 0):
        one, other = (start + page * index for index in rng.sample(range(total), 2))
        held = data[one : one + page]
        kind = ("zeroed", "in the place of another", "there twice", "gone", "swapped")[number % 5]
        spoilt = bytearray(data)
        match kind:
            case "zeroed":
                spoilt[one : one + page] = bytes(page)
            case "in the place of another":
                spoilt[other : other + page] = held
            case "there twice":
                spoilt[one:one] = held
            case "gone":
                del spoilt[one : one + page]
            case _:
                spoilt[one : one + page], spoilt[other : other + page] = data[other : other + page], held
        yield Spoilt(f"the page at {one} {kind} ({other})", bytes(spoilt))
