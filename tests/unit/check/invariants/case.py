"""For every rule: histories that break it and nothing else, each beside the nearest one that does not."""

from collections.abc import Callable
from typing import NamedTuple

from ares.check.invariants.history import Event
from tests.unit.check.invariants.forge import Forge


class Case(NamedTuple):
    rule: str
    name: str
    # Made wrong or, but for that one thing, right.
    make: Callable[[bool], list[Event]]


CASES: list[Case] = []
Act = Callable[[Forge, bool], None]


def case(rule: str, *, quiet: bool | None = None, **settings: float) -> Callable[[Act], Act]:
    def register(act: Act) -> Act:
        def make(wrong: bool) -> list[Event]:
            forge = Forge(**settings)
            act(forge, wrong)
            return forge.close(quiet=quiet)

        CASES.append(Case(rule, act.__name__, make))
        return act

    return register


def running(forge: Forge, job: str = "j1", node: str = "n1", **spec: object) -> None:
    forge.submit(job, **spec)
    forge.bind(job, node)
    forge.run(job)
