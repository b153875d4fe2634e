"""Many small runs: a few of them in `make test`, chosen by the seed that is printed, all in `make chaos`."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ares.ports.store import StoreUnavailable

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 2
_HELD_S = 60.0
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Few:
    """How many cases of each kind `make test` has."""

    kills: int = 0
    errors: int = 0


def unless_held(do: Callable[[], R]) -> R:
    """A program that another thread is just starting holds this process's locks for a moment: until its exec."""
    deadline = time.monotonic() + _HELD_S
    while True:
        try:
            return do()
        except StoreUnavailable as error:
            if "in use" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)


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
