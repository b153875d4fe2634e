"""A simulated operator: sets the profile, drains and cordons nodes, and undoes it all at the end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from ares.control.replica import Replica
from ares.model.access import Principal
from ares.model.profile import BackfillPolicy, PreemptionPolicy, Profile, Share
from ares.model.quota import Limit, Limits, Quota
from ares.ports.store import StoreError
from ares.sim.world.clocks import Chance
from ares.sim.world.people import TIMEOUT_S, NoAnswer, SimulatedCalls
from ares.sim.world.plane import Plane

NAME = "operator"
# Quotas of every second tenant. None: no limits.
QUOTAS: tuple[Quota | None, ...] = (
    None,
    None,
    Quota(own=Limits(amounts={"jobs": Limit(hard=4.0)}), threshold=1.0),
    Quota(own=Limits(amounts={"jobs": Limit(hard=3.0), "cpu": Limit(hard=64.0)})),
)
# Of worlds with datasets: so slow that fetching one takes seconds.
SLOW_LINK = Quota(own=Limits(amounts={"transfer": Limit(hard=0.3)}))
DATA_QUOTAS: tuple[Quota | None, ...] = (None, SLOW_LINK, SLOW_LINK)
_WHO = Principal(token_id="token-operator", tenant="alpha", role="admin")
_EAGER = PreemptionPolicy(gap=1, min_runtime_s=0.0, cooldown_s=0.0, cap=2, disruption_max=4.0)
_BASE = Profile(preemption=_EAGER)
# None: the built-in profile.
PROFILES: tuple[Profile | None, ...] = (
    None,
    _BASE,
    replace(_BASE, shares={"alpha": Share(hard={"cpu": 3000})}),
    replace(_BASE, shares={"alpha": Share(soft={"cpu": 1000}), "beta": Share(soft={"cpu": 1000})}),
    replace(_BASE, backfill=BackfillPolicy(strategy="conservative"), max_placements_per_cycle=1),
    replace(_BASE, actions=("claim", "allocate", "grow")),
)


class Operator:
    def __init__(
        self, calls: SimulatedCalls, planes: list[Plane], nodes: list[str], chance: Chance, quota: Quota | None = None
    ) -> None:
        self._quota = quota
        self._calls = calls
        self._planes = planes
        self._nodes = nodes
        self._chance = chance
        self._touched: list[str] = []

    async def live(self, deeds: int, over: Callable[[], bool]) -> None:
        profile = self._chance.pick(PROFILES)
        if profile is not None:
            await self._do(lambda replica: replica.profiles.put(_WHO, profile))
        if (quota := self._quota) is not None:
            await self._do(lambda replica: replica.quotas.put(_WHO, _WHO.tenant, quota))
        for _ in range(deeds):
            await asyncio.sleep(self._chance.after(8.0))
            if over():
                break
            await self._steer(self._chance.pick(self._nodes))
        # A restored store may have forgotten what was put back before.
        while not over():
            await asyncio.sleep(1.0)
        if self._touched:
            await self._put_back()

    async def _steer(self, node: str) -> None:
        self._touched.append(node)
        deeds: tuple[Callable[[Replica], Coroutine[Any, Any, object]], ...] = (
            lambda replica: replica.nodes.drain(_WHO, node),
            lambda replica: replica.nodes.cordon(_WHO, node, True),
            lambda replica: replica.nodes.undrain(_WHO, node),
        )
        await self._do(self._chance.pick(deeds))

    async def _put_back(self) -> None:
        """Undoes all changes, until that has worked. A change still on its way must not arrive after it."""
        await asyncio.sleep(TIMEOUT_S)
        for node in dict.fromkeys(self._touched):
            while not await self._do(lambda replica, node=node: replica.nodes.undrain(_WHO, node)):
                await asyncio.sleep(0.5)

    async def _do(self, work: Callable[[Replica], Coroutine[Any, Any, object]]) -> bool:
        try:
            await self._calls.call(NAME, self._chance.pick(self._planes), work)
        except (NoAnswer, StoreError):
            return False
        return True
