"""Many small runs: a few of them in `make test`, chosen by the seed that is printed, all in `make chaos`."""

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 2


@dataclass(frozen=True)
class Few:
    """How many cases of each kind `make test` has."""

    kills: int = 0
    errors: int = 0


def sample(cases: Sequence[T], count: int | None, seed: int) -> list[T]:
    """`count` of them, or all, in their order."""
    if count is None or count >= len(cases):
        return list(cases)
    chosen = random.Random(seed).sample(range(len(cases)), count)
    return [cases[index] for index in sorted(chosen)]


def each(cases: Sequence[T], do: Callable[[int, T], R]) -> list[R]:
    """Two at a time. The first that fails ends it: later ones are not begun."""
    failed = threading.Event()

    def one(number: int, case: T) -> R:
        if failed.is_set():
            raise RuntimeError("not run: an earlier case failed")
        try:
            return do(number, case)
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(one, range(len(cases)), cases))
