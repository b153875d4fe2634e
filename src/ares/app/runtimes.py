"""Runtimes of other distributions, found by their entry points: for servers, which admit jobs by them, and for agents,
which start jobs by them. Loaded once, when a process starts; one that cannot be loaded is left out, by name."""

import re
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import structlog

from ares.api.plugins import RefusedPlugin
from ares.core.refusal import Refusal
from ares.core.runtime.kind import Runtime, RuntimePlan, refused
from ares.core.runtime.kinds import RUNTIMES
from ares.core.runtime.verdict import root_of
from ares.model.job import JobSpec, RuntimeWish
from ares.model.link import Start
from ares.model.state import RankEnd

log = structlog.get_logger()

GROUP = "ares.runtimes"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


_LOADED: dict[str, str] = {}


class Unusable(Exception):
    """What an entry point gives is not what its group is for."""


def origin_of(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def value_of(entry: EntryPoint, table: dict[str, Any]) -> Any:
    if not _NAME.fullmatch(entry.name):
        raise Unusable("a name has 1 to 63 of a-z, 0-9 and '-', and no '-' at its ends")
    if entry.name in table:
        raise Unusable("the name is taken; rename the entry point")
    return entry.load()


def load_runtimes(found: Callable[..., Any] = entry_points) -> tuple[dict[str, str], list[RefusedPlugin]]:
    """Puts them into the table that jobs are admitted and started by. Answers with their origins, by name."""
    origins, out = dict[str, str](), list[RefusedPlugin]()
    for entry in sorted(found(group=GROUP), key=lambda entry: entry.name):
        origin = origin_of(entry)
        if _LOADED.get(entry.name) == origin:
            # A process may be a server and an agent.
            origins[entry.name] = origin
            continue
        try:
            value = value_of(entry, RUNTIMES)
            if not isinstance(value, Runtime):
                raise Unusable(f"the entry point gives {type(value).__name__}, not ares.core.runtime.kind.Runtime")
            RUNTIMES[entry.name] = _guarded(entry.name, value)
        except Exception as error:
            why = str(error) if isinstance(error, Unusable) else f"{type(error).__name__}: {error}"
            out.append(RefusedPlugin(kind="runtime", name=entry.name, origin=origin, error=why))
            log.error("plugin.refused", kind="runtime", name=entry.name, origin=origin, error=why)
            continue
        origins[entry.name] = _LOADED[entry.name] = origin
        log.info("plugin.loaded", kind="runtime", name=entry.name, origin=origin)
    return origins, out


def _guarded(name: str, runtime: Runtime) -> Runtime:
    """One that raises refuses the job, fails its start, or has no opinion on which rank failed first."""

    def failed(error: Exception) -> str:
        text = f"the runtime plugin {name!r} failed: {type(error).__name__}: {error}"
        log.error("plugin.failed", plugin=f"runtime {name}", error=text)
        return text

    def admit(spec: JobSpec, wish: RuntimeWish) -> Refusal | None:
        try:
            return runtime.admit(spec, wish)
        except Exception as error:
            return refused(failed(error), "tell the operator, or choose another runtime")

    def plan(start: Start, wish: RuntimeWish) -> RuntimePlan | str | None:
        try:
            made: Any = runtime.plan(start, wish)
        except Exception as error:
            return failed(error)
        if made is None or isinstance(made, RuntimePlan | str):
            return made
        return failed(TypeError(f"its plan is a {type(made).__name__}, not a RuntimePlan, a text or None"))

    def classify(ends: Sequence[RankEnd]) -> RankEnd:
        try:
            root = runtime.classify(ends)
        except Exception as error:
            failed(error)
            return root_of(ends)
        return root if root in ends else root_of(ends)

    return Runtime(admit, plan, classify)
