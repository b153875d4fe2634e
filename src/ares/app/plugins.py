"""Plugins: filters, scorers, order factors, actions and runtimes of other distributions, found by their entry points.

Loaded once, when a process starts. A plugin that cannot be loaded is left out, by name. Only the planning process
enters them: in a server a stand-in without opinion has each one's name. One that fails has no opinion then, or as a
filter lets nothing pass; the planner says so, and is told to do without it.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

import numpy as np
import structlog

from ares.api.plugins import PluginKind, RefusedPlugin
from ares.api.reasons import Reason
from ares.app.providers import PROVIDERS_GROUP
from ares.app.runtimes import GROUP as RUNTIMES_GROUP
from ares.app.runtimes import Unusable, load_runtimes, origin_of, value_of
from ares.control.scheduler.plugins import Loaded
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.rule import Filter, Miss
from ares.core.queue.factors import FACTORS
from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.filters import FILTERS
from ares.core.schedule.plugins import refusing
from ares.core.schedule.scorers import SCORERS
from ares.core.schedule.trial import Trial

log = structlog.get_logger()

T = TypeVar("T")


class Watch:
    """Told when a plugin is entered and left, and when it failed."""

    def enter(self, plugin: str) -> None: ...
    def leave(self) -> None: ...
    def failed(self, plugin: str, error: str) -> None: ...


@cache
def load(watch: Watch | None = None, *, apart: bool = False) -> Loaded:
    """Puts every plugin that is installed into the tables that profiles are read by. Once in a process.

    `apart`: another process enters them, and here their names are known and nothing more."""
    return add(entry_points, watch or Watch(), apart=apart, groups=entry_points().groups)


def add(
    found: Callable[..., Any], watch: Watch | None = None, *, apart: bool = False, groups: Iterable[str] = ()
) -> Loaded:
    """Puts what `found` gives for each group into the tables. `groups` are all that are installed: what is in one that
    begins like those of Ares and is none of them is refused, not passed over."""
    watch = watch or Watch()
    origins: dict[tuple[PluginKind, str], str] = {}
    refused: list[RefusedPlugin] = []
    for group, (kind, table, prepare) in _GROUPS.items():
        for entry in sorted(found(group=group), key=lambda entry: entry.name):
            origin = origin_of(entry)
            if origins.get((kind, entry.name)) == origin:
                continue
            try:
                ready = prepare(_Guard(kind, entry.name, watch), value_of(entry, table))
                table[entry.name] = _STAND_INS[kind] if apart else ready
            except Exception as error:
                why = str(error) if isinstance(error, Unusable) else f"{type(error).__name__}: {error}"
                refused.append(RefusedPlugin(kind=kind, name=entry.name, origin=origin, error=why))
                log.error("plugin.refused", kind=kind, name=entry.name, origin=origin, error=why)
                continue
            origins[kind, entry.name] = origin
            log.info("plugin.loaded", kind=kind, name=entry.name, origin=origin)
    started, left_out = load_runtimes(found)
    origins |= {("runtime", name): origin for name, origin in started.items()}
    return Loaded(origins, (*refused, *left_out, *_strange(found, groups)))


def _strange(found: Callable[..., Any], groups: Iterable[str]) -> Iterator[RefusedPlugin]:
    """Plugins of kinds that Ares does not have, such as collectors. Providers are loaded where a pool names them."""
    known = sorted((*_GROUPS, RUNTIMES_GROUP, PROVIDERS_GROUP))
    for group in sorted(group for group in groups if group.startswith("ares.") and group not in known):
        for entry in sorted(found(group=group), key=lambda entry: entry.name):
            why = f"Ares has no plugins of the group {group!r}, only of {', '.join(known)}"
            log.error("plugin.refused", kind="unknown", name=entry.name, origin=origin_of(entry), error=why)
            yield RefusedPlugin(kind="unknown", name=entry.name, origin=origin_of(entry), error=why)


# ---- one for each kind: what it must be, and what it is when it fails


class _Guard:
    """Around every call of a plugin. Says each failure once: a cycle may fail a hundred times a second."""

    def __init__(self, kind: PluginKind, name: str, watch: Watch) -> None:
        self.name = name
        self._plugin = f"{kind} {name}"
        self._watch = watch
        self._last = ""

    def call(self, work: Callable[..., T], *given: Any) -> T:
        """Raises what the plugin raises, after telling of it."""
        self._watch.enter(self._plugin)
        try:
            return work(*given)
        except Exception as error:
            self._note(error)
            raise
        finally:
            self._watch.leave()

    def _note(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self._watch.failed(self._plugin, text)
        if text != self._last:
            self._last = text
            log.error("plugin.failed", plugin=self._plugin, error=text)


def _filter(guard: _Guard, value: Any) -> Filter:
    if not isinstance(value, Filter):
        raise Unusable(f"the entry point gives {type(value).__name__}, not ares.core.capacity.rule.Filter")

    def ask(rows: NodeSlice) -> Any:
        said = value.passes(rows)
        return said if said is None else _checked(said, len(rows), np.bool_)

    def passes(rows: NodeSlice) -> Any:
        try:
            return guard.call(ask, rows)
        except Exception:
            # What it was to keep out must not come in.
            return np.zeros(len(rows), np.bool_)

    def explain(miss: Miss) -> Reason:
        try:
            guard.call(ask, miss.seen)
            return guard.call(value.explain, miss)
        except Exception as error:
            message = f"the filter {guard.name!r} failed: {type(error).__name__}: {error}; repair it, or take it out"
            return Reason(code="REFUSED_BY_PLUGIN", message=message, numbers={"nodes": len(miss.reached)})

    return value._replace(passes=passes, explain=explain)


def _scorer(guard: _Guard, value: Any) -> Callable[[NodeSlice], Any]:
    score = _callable(value)

    def ask(rows: NodeSlice) -> Any:
        said = score(rows)
        return said if said is None else _checked(said, len(rows), np.float64)

    def scored(rows: NodeSlice) -> Any:
        try:
            return guard.call(ask, rows)
        except Exception:
            return None

    return scored


def _factor(guard: _Guard, value: Any) -> Callable[..., float]:
    factor = _callable(value)

    def ask(*facts: Any) -> float:
        return float(_checked(np.array([factor(*facts)]), 1, np.float64)[0])

    def counted(*facts: Any) -> float:
        try:
            return guard.call(ask, *facts)
        except Exception:
            return 0.0

    return counted


def _action(guard: _Guard, value: Any) -> Callable[[Trial], None]:
    action = _callable(value)

    def acted(trial: Trial) -> None:
        checkpoint = trial.txn.checkpoint()
        lists: tuple[list[Any], ...] = (trial.placed, trial.evictions, trial.resized, trial.unheld)
        before = [len(listed) for listed in lists]
        try:
            guard.call(action, trial)
        except Exception:
            # Nothing of what it had begun is proposed.
            trial.txn.rollback(checkpoint)
            for listed, count in zip(lists, before, strict=True):
                del listed[count:]

    return acted


def _no_opinion(*given: Any) -> None: ...


def _nothing(*given: Any) -> float:
    return 0.0


# In the place of a plugin where it is not entered.
_STAND_INS: dict[PluginKind, Any] = {
    "filter": refusing("")._replace(passes=_no_opinion),
    "scorer": _no_opinion,
    "order": _nothing,
    "action": _no_opinion,
}


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


_GROUPS: dict[str, tuple[PluginKind, dict[str, Any], Callable[[_Guard, Any], Any]]] = {
    "ares.filters": ("filter", FILTERS, _filter),
    "ares.scorers": ("scorer", SCORERS, _scorer),
    "ares.order": ("order", FACTORS, _factor),
    "ares.actions": ("action", ACTIONS, _action),
}
