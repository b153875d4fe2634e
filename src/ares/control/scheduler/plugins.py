"""What a profile can name: built in, or installed by third parties, and whether the profile uses it."""

from dataclasses import dataclass

from ares.api.plugins import Plugin, PluginKind, PluginList, RefusedPlugin
from ares.control.scheduler.proposer import Proposer
from ares.control.state.view import View
from ares.core.queue.factors import FACTORS
from ares.core.runtime.kinds import RUNTIMES
from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.filters import FILTERS
from ares.core.schedule.scorers import SCORERS
from ares.model.profile import Profile

BUILT_IN = "ares"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found when the process started: origins by kind and name, and what was refused."""

    origins: dict[tuple[PluginKind, str], str]
    refused: tuple[RefusedPlugin, ...] = ()


NO_PLUGINS = Loaded({})


class Plugins:
    def __init__(self, view: View, loaded: Loaded, proposer: Proposer) -> None:
        self._view = view
        self._loaded = loaded
        self._proposer = proposer

    @property
    def refused(self) -> tuple[RefusedPlugin, ...]:
        return self._loaded.refused

    async def list(self) -> PluginList:
        await self._view.catch_up()
        profile = self._view.profile.profile
        used, tables = _used(profile), _tables()
        plugins = tuple(
            Plugin(
                kind=kind,
                name=name,
                origin=self._loaded.origins.get((kind, name), BUILT_IN),
                used=name in used[kind],
                cut_off=self._proposer.cut.get(f"{kind} {name}", ""),
            )
            for kind, table in tables.items()
            for name in sorted(table)
        )
        missing = sorted({name for kind, names in used.items() for name in names if name not in tables[kind]})
        return PluginList(plugins=plugins, refused=self._loaded.refused, missing=tuple(missing))


def _tables() -> dict[PluginKind, set[str]]:
    return {
        "filter": set(FILTERS), "scorer": set(SCORERS), "order": set(FACTORS), "action": set(ACTIONS),
        "runtime": set(RUNTIMES),
    }  # fmt: skip


def _used(profile: Profile) -> dict[PluginKind, set[str]]:
    order = (*profile.order.primary, *profile.order.secondary)
    return {
        "filter": set(profile.filters),
        "scorer": {scorer.name for scorer in profile.scorers},
        "order": {factor.name for factor in order},
        "action": set(profile.actions),
        # Jobs name them, not the profile.
        "runtime": set(RUNTIMES),
    }
