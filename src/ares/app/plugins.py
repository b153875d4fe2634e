"""Plugins: filters, scorers, order factors and actions of other distributions, found by their entry points.

Loaded once, when a control plane starts. A plugin that cannot be loaded is left out, by name. One that fails later
has no opinion then, or as a filter lets nothing pass: the cycle goes on, and people are told.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np
import structlog

from ares.core.queue.factors import FACTORS
from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.filters import FILTERS
from ares.core.schedule.filters.filter import Filter, Miss
from ares.core.schedule.reasons import Reason
from ares.core.schedule.round import Round
from ares.core.schedule.rows import Rows
from ares.core.schedule.scorers import SCORERS
from ares.services.plugins import Kind, Loaded, RefusedPlugin

log = structlog.get_logger()

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class Unusable(Exception):
    """What an entry point gives is not what its group is for."""


@cache
def load() -> Loaded:
    """Puts every plugin that is installed into the tables that profiles are read by. Once in a process."""
    return add(entry_points)


def add(found: Callable[..., Any]) -> Loaded:
    """Puts what `found` gives for each group into the tables."""
    origins: dict[tuple[Kind, str], str] = {}
    refused: list[RefusedPlugin] = []
    for group, (kind, table, prepare) in _GROUPS.items():
        for entry in sorted(found(group=group), key=lambda entry: entry.name):
            origin = _origin(entry)
            if origins.get((kind, entry.name)) == origin:
                continue
            try:
                table[entry.name] = prepare(entry.name, _value(entry, table))
            except Exception as error:
                why = str(error) if isinstance(error, Unusable) else f"{type(error).__name__}: {error}"
                refused.append(RefusedPlugin(kind=kind, name=entry.name, origin=origin, error=why))
                log.error("plugin.refused", kind=kind, name=entry.name, origin=origin, error=why)
                continue
            origins[kind, entry.name] = origin
            log.info("plugin.loaded", kind=kind, name=entry.name, origin=origin)
    return Loaded(origins, tuple(refused))


def _origin(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _value(entry: EntryPoint, table: dict[str, Any]) -> Any:
    if not _NAME.fullmatch(entry.name):
        raise Unusable("a name has 1 to 63 of a-z, 0-9 and '-', and no '-' at its ends")
    if entry.name in table:
        raise Unusable("the name is taken; rename the entry point")
    return entry.load()


# ---- one for each kind: what it must be, and what it is when it fails


def _filter(name: str, value: Any) -> Filter:
    if not isinstance(value, Filter):
        raise Unusable(f"the entry point gives {type(value).__name__}, not ares.core.schedule.filters.filter.Filter")
    failures = _Failures("filter", name)

    def ask(rows: Rows) -> Any:
        said = value.passes(rows)
        return said if said is None else _checked(said, len(rows), np.bool_)

    def passes(rows: Rows) -> Any:
        try:
            return ask(rows)
        except Exception as error:
            failures.note(error)
            # What it was to keep out must not come in.
            return np.zeros(len(rows), np.bool_)

    def explain(miss: Miss) -> Reason:
        try:
            ask(miss.seen)
            return value.explain(miss)
        except Exception as error:
            message = f"the filter {name!r} failed: {type(error).__name__}: {error}; repair it, or take it out"
            return Reason(code="REFUSED_BY_PLUGIN", message=message, numbers={"nodes": len(miss.reached)})

    return value._replace(passes=passes, explain=explain)


def _scorer(name: str, value: Any) -> Callable[[Rows], Any]:
    score, failures = _callable(value), _Failures("scorer", name)

    def scored(rows: Rows) -> Any:
        try:
            said = score(rows)
            return said if said is None else _checked(said, len(rows), np.float64)
        except Exception as error:
            failures.note(error)
            return None

    return scored


def _factor(name: str, value: Any) -> Callable[..., float]:
    factor, failures = _callable(value), _Failures("order", name)

    def counted(*facts: Any) -> float:
        try:
            return float(_checked(np.array([factor(*facts)]), 1, np.float64)[0])
        except Exception as error:
            failures.note(error)
            return 0.0

    return counted


def _action(name: str, value: Any) -> Callable[[Round], None]:
    action, failures = _callable(value), _Failures("action", name)

    def acted(round_: Round) -> None:
        checkpoint = round_.txn.checkpoint()
        lists: tuple[list[Any], ...] = (round_.placed, round_.evictions, round_.resized, round_.unheld)
        before = [len(one) for one in lists]
        try:
            action(round_)
        except Exception as error:
            failures.note(error)
            # Nothing of what it had begun is proposed.
            round_.txn.rollback(checkpoint)
            for one, count in zip(lists, before, strict=True):
                del one[count:]

    return acted


def _callable(value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise Unusable(f"the entry point gives {type(value).__name__}, which cannot be called")
    return value


def _checked(said: Any, rows: int, kind: type[np.generic]) -> Any:
    """One value for each row, of the right kind: anything else would be taken for an answer."""
    array = np.asarray(said)
    if array.shape != (rows,):
        raise Unusable(f"it answered with shape {array.shape} for {rows} rows")
    if kind is np.bool_ and array.dtype != np.bool_:
        raise Unusable(f"it answered with {array.dtype}, not with bool")
    if kind is np.float64 and not np.isfinite(array.astype(np.float64)).all():
        raise Unusable("it answered with a number that is not finite")
    return array


class _Failures:
    """Says each failure once: a cycle may fail a hundred times a second."""

    def __init__(self, kind: Kind, name: str) -> None:
        self._kind = kind
        self._name = name
        self._last = ""

    def note(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if text != self._last:
            self._last = text
            log.error("plugin.failed", kind=self._kind, name=self._name, error=text)


_GROUPS: dict[str, tuple[Kind, dict[str, Any], Callable[[str, Any], Any]]] = {
    "ares.filters": ("filter", FILTERS, _filter),
    "ares.scorers": ("scorer", SCORERS, _scorer),
    "ares.order": ("order", FACTORS, _factor),
    "ares.actions": ("action", ACTIONS, _action),
}
