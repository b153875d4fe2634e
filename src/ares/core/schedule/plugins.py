"""The plugins that a profile's names stand for. Installed plugins are added to these tables at start."""

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from ares.api.reasons import Reason
from ares.core.capacity.fit import ProfileRules
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss
from ares.core.queue.factors import FACTORS
from ares.core.schedule.filters import FILTERS, isolation, pods, power, spot
from ares.core.schedule.scorers import SCORERS
from ares.core.schedule.scorers.row_score import RowScores
from ares.model.profile import Profile, Weight

T = TypeVar("T")


class UnknownName(ValueError):
    """A profile names something that is not installed."""


def rules_of(profile: Profile, cut: Mapping[str, str] = MappingProxyType({})) -> ProfileRules:
    """The plugins of a profile. A filter that is not installed here, or was `cut` off, refuses every node: what it was
    to keep out must not come in."""
    pools = profile.pools
    caps = {name: pool.power_cap_watts for name, pool in pools.items() if pool.power_cap_watts}
    # What pools declare holds under every profile, whatever filters it names.
    spots = (("spot", spot.FILTER),) if any(pool.spot for pool in pools.values()) else ()
    # So does the isolation that tenants ask for, also under profiles stored before there was such a filter.
    before = (("isolation", isolation.FILTER), ("pods", pods.FILTER), *spots)
    after = (("power", power.FILTER),) if caps else ()
    filters = (*before, *((name, _filter(name, cut)) for name in profile.filters), *after)
    scorers = tuple(
        (scorer.name, scorer.weight, SCORERS[scorer.name]) for scorer in profile.scorers if scorer.name in SCORERS
    )
    by_row = RowScores(
        [filter_ for _, filter_ in filters], [(weight, scorer) for _, weight, scorer in scorers if weight]
    )
    return ProfileRules(filters, scorers, profile.energy, caps, by_row.of)


def _filter(name: str, cut: Mapping[str, str]) -> Filter:
    why = cut.get(f"filter {name}")
    if why is not None:
        return refusing(f"the filter {name!r} was cut off: {why}; repair it, or take it out of the profile")
    return FILTERS.get(name) or _missing(name)


def without_cut(profile: Profile, cut: Container[str]) -> Profile:
    """The profile without plugins that were cut off, "kind name". Filters stay: cut off, they refuse every node."""
    order = profile.order

    def kept(kind: str, weights: tuple[Weight, ...]) -> tuple[Weight, ...]:
        return tuple(weight for weight in weights if f"{kind} {weight.name}" not in cut)

    return replace(
        profile,
        scorers=kept("scorer", profile.scorers),
        actions=tuple(name for name in profile.actions if f"action {name}" not in cut),
        order=replace(order, primary=kept("order", order.primary), secondary=kept("order", order.secondary)),
    )


def _find(kind: str, name: str, table: dict[str, T]) -> None:
    if name not in table:
        raise UnknownName(f"no {kind} is called {name!r}; there are {', '.join(sorted(table))}")


def check(profile: Profile, actions: dict[str, object]) -> None:
    """Raises UnknownName for the first name that nothing installed answers to."""
    for name in profile.filters:
        _find("filter", name, FILTERS)
    for scorer in profile.scorers:
        _find("scorer", scorer.name, SCORERS)
    for factor in (*profile.order.primary, *profile.order.secondary):
        _find("order factor", factor.name, FACTORS)
    for name in profile.actions:
        _find("action", name, actions)


def without_unknown(profile: Profile, actions: Container[str]) -> tuple[Profile, tuple[str, ...]]:
    """The profile as this process can apply it, and the names that nothing installed answers to.

    A profile may outlive a plugin: scheduling goes on without it rather than not at all."""
    order = profile.order
    lists = (profile.scorers, order.primary, order.secondary)
    tables: tuple[Container[str], ...] = (SCORERS, FACTORS, FACTORS)
    unknown = [name for name in profile.filters if name not in FILTERS]
    unknown += [
        weight.name
        for weights, table in zip(lists, tables, strict=True)
        for weight in weights
        if weight.name not in table
    ]
    unknown += [name for name in profile.actions if name not in actions]
    if not unknown:
        return profile, ()
    usable = replace(
        profile,
        scorers=_known(profile.scorers, SCORERS),
        actions=tuple(name for name in profile.actions if name in actions),
        order=replace(order, primary=_known(order.primary, FACTORS), secondary=_known(order.secondary, FACTORS)),
    )
    return usable, tuple(dict.fromkeys(unknown))


def _known(weights: tuple[Weight, ...], table: Container[str]) -> tuple[Weight, ...]:
    return tuple(weight for weight in weights if weight.name in table)


def refusing(words: str) -> Filter:
    """A filter that refuses every node, with these words as the reason."""

    def passes(rows: NodeSlice) -> Bools:
        return np.zeros(len(rows), np.bool_)

    def explain(miss: Miss) -> Reason:
        return Reason(code="REFUSED_BY_PLUGIN", message=words, numbers={"nodes": len(miss.reached)})

    return Filter(passes, explain, ("profile changes",))


def _missing(name: str) -> Filter:
    return refusing(
        f"the profile has the filter {name!r}, which is not installed on this server: install it or change the profile"
    )
