"""The table of mutants, and how one is switched on for a while."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """`patch` changes the real code while it is entered. One of `caught_by` must notice within `seeds` seeds."""

    what: str
    caught_by: tuple[str, ...]
    patch: Callable[[], AbstractContextManager[None]]
    seeds: int = 2000


MUTANTS: dict[str, Mutant] = {}


@contextmanager
def switched_on(name: str) -> Iterator[None]:
    """No name: the product as it is."""
    if not name:
        yield
        return
    if name not in MUTANTS:
        raise ValueError(f"there is no mutant {name!r}; there are: {', '.join(MUTANTS)}")
    with MUTANTS[name].patch():
        yield
