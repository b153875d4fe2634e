"""What tuning may change: settings in the words of `ares profile set`, each a place between 0 and 1."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ares.model.profile import Profile

Point = NDArray[np.float64]
Kind = Literal["weight", "log", "whole", "choice"]

_DAY = 86_400.0
# Below this a weight is 0: what does not help should be found to be superfluous.
_OFF = 0.15
# Orders that do not change while jobs wait do not mix with those that do; "ranked" is the order of the base profile.
_ORDERS = ("ranked", "fifo", "shortest", "f1")
_STRATEGIES = ("none", "greedy", "easy", "conservative", "aggressive")


class Parameter(NamedTuple):
    """`low` and `high` are the ends of a range of equal ratios."""

    key: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    choices: tuple[str, ...] = ()

    def value(self, part: float) -> str:
        """As a setting; the same place gives the same text."""
        if self.kind == "choice":
            return self.choices[min(int(part * len(self.choices)), len(self.choices) - 1)]
        if self.kind == "weight":
            if part < _OFF:
                return "0"
            part = (part - _OFF) / (1.0 - _OFF)
        found = self.low * (self.high / self.low) ** part
        # Three digits: more would only look exact.
        return str(round(found)) if self.kind == "whole" else f"{float(f'{found:.3g}'):.12g}"

    def part(self, value: float | str) -> float:
        """Where a value lies, about."""
        if self.kind == "choice":
            return (self.choices.index(str(value)) + 0.5) / len(self.choices) if value in self.choices else 0.0
        number = float(value)
        if self.kind == "weight" and number < self.low:
            return 0.0
        place = math.log(min(max(number, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return _OFF + (1.0 - _OFF) * place if self.kind == "weight" else place


class Space(NamedTuple):
    """Everything that can be changed of one profile, for one kind of cluster."""

    base: Profile
    parameters: tuple[Parameter, ...]

    @property
    def start(self) -> Point:
        """Where the base profile lies."""
        known = _known(self.base)
        return np.array([parameter.part(known.get(parameter.key, parameter.low)) for parameter in self.parameters])

    def settings(self, point: Point) -> dict[str, str]:
        """Only what differs from the base profile, and only what has an effect."""
        raw = {
            parameter.key: parameter.value(float(part)) for parameter, part in zip(self.parameters, point, strict=True)
        }
        # The strategy is a setting also where no action uses it.
        known = {**_known(self.base), "backfill.strategy": self.base.backfill.strategy}
        found = dict(_said(self.base, raw))
        return {key: value for key, value in found.items() if _plain(known.get(key)) != value}


def space(base: Profile, *, nodes: int) -> Space:
    """On one node there is nothing to choose between."""
    parameters: list[Parameter] = []
    if nodes > 1:
        parameters += [Parameter(f"weight.{scorer.name}", "weight", 0.1, 300.0) for scorer in base.scorers]
    parameters.append(Parameter("order", "choice", choices=_ORDERS))
    parameters += [Parameter(f"order.primary.{factor.name}", "weight", 10.0, 5000.0) for factor in base.order.primary]
    parameters += [
        Parameter("order.ageing_s", "log", 600.0, 7 * _DAY),
        Parameter("order.half_life_s", "log", 3600.0, 30 * _DAY),
        Parameter("backfill.strategy", "choice", choices=_STRATEGIES),
        Parameter("backfill.order", "choice", choices=("rank", "shortest")),
        Parameter("backfill.reservations", "whole", 1.0, 64.0),
        Parameter("backfill.depth", "whole", 20.0, 2000.0),
        Parameter("backfill.delay_max_s", "log", 60.0, 6 * 3600.0),
    ]
    return Space(base, tuple(parameters))


def _said(base: Profile, raw: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings that count: a reservation more means nothing without backfill."""
    yield from ((key, value) for key, value in raw.items() if key.startswith("weight."))
    yield from _order(base, raw)
    strategy = raw["backfill.strategy"]
    yield "actions", ",".join(_actions(base.actions, filling=strategy != "none"))
    if strategy == "none":
        return
    fields = ["strategy", "order", "depth"]
    fields += ["reservations"] if strategy in ("easy", "aggressive") else []
    fields += ["delay_max_s"] if strategy == "aggressive" else []
    yield from ((f"backfill.{field}", raw[f"backfill.{field}"]) for field in fields)


def _order(base: Profile, raw: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if raw["order"] == "ranked":
        yield from ((key, value) for key, value in raw.items() if key.startswith("order."))
        return
    names = [factor.name for factor in base.order.primary]
    # An empty value takes a factor away.
    yield from ((f"order.primary.{name}", "") for name in names if name != raw["order"])
    yield from ((f"order.secondary.{factor.name}", "") for factor in base.order.secondary)
    yield f"order.primary.{raw['order']}", "1"


def _actions(actions: Sequence[str], *, filling: bool) -> list[str]:
    without = [action for action in actions if action != "backfill"]
    if not filling:
        return without
    if "backfill" in actions:
        return list(actions)
    # Right after those that start in turn.
    at = without.index("allocate") + 1
    return [*without[:at], "backfill", *without[at:]]


def _known(base: Profile) -> dict[str, float | str]:
    """What the base profile says, by the keys of the parameters and of the settings they make."""
    order, filling = base.order, base.backfill
    factors = [factor.name for factor in order.primary]
    return {
        **{f"weight.{scorer.name}": scorer.weight for scorer in base.scorers},
        **{f"order.primary.{factor.name}": factor.weight for factor in order.primary},
        "order": factors[0] if len(factors) == 1 and factors[0] in _ORDERS else "ranked",
        "order.ageing_s": order.ageing_s,
        "order.half_life_s": order.half_life_s,
        "actions": ",".join(base.actions),
        "backfill.strategy": filling.strategy if "backfill" in base.actions else "none",
        "backfill.order": filling.order,
        "backfill.reservations": filling.reservations,
        "backfill.depth": filling.depth,
        "backfill.delay_max_s": filling.delay_max_s,
    }


def _plain(value: float | str | None) -> str | None:
    return f"{value:.12g}" if isinstance(value, float | int) else value
