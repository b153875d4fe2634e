"""What a profile's names stand for. Third parties add theirs to these tables when the process starts."""

from typing import TypeVar

from ares.core.queue.factors import FACTORS
from ares.core.schedule.evaluate import Rules
from ares.core.schedule.filters import FILTERS
from ares.core.schedule.scorers import SCORERS
from ares.model.profile import Profile

T = TypeVar("T")


class UnknownName(ValueError):
    """A profile names something that is not installed."""


def rules_of(profile: Profile) -> Rules:
    return Rules(
        tuple((name, _find("filter", name, FILTERS)) for name in profile.filters),
        tuple((one.name, one.weight, _find("scorer", one.name, SCORERS)) for one in profile.scorers),
    )


def _find(kind: str, name: str, table: dict[str, T]) -> T:
    if name not in table:
        raise UnknownName(f"no {kind} is called {name!r}; there are {', '.join(sorted(table))}")
    return table[name]


def check(profile: Profile, actions: dict[str, object]) -> None:
    """Raises UnknownName for the first name that nothing installed answers to."""
    rules_of(profile)
    for one in (*profile.order.primary, *profile.order.secondary):
        _find("order factor", one.name, FACTORS)
    for name in profile.actions:
        _find("action", name, actions)
