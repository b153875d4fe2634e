"""Quotas for tests: given to a tenant, asked of many at once, and watched at every commit."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.quota import Limit, Limits, Quota, QuotaRecord
from ares.model.state import TERMINAL, ArrayRecord, JobState
from ares.ports.store import Put, StoreChange
from tests.world import ALICE, World, spec

Answers = list[AcceptedJob | Refusal]


def limits(**hard: float) -> Limits:
    """`cpu=10`, `gpu_hours=5`."""
    return Limits(amounts={name.replace("_", "-"): Limit(hard=most) for name, most in hard.items()})


def quota(threshold: float = 1.0, **hard: float) -> Quota:
    return Quota(own=limits(**hard), threshold=threshold)


async def give(world: World, what: Quota, tenant: str = "alpha") -> None:
    record = QuotaRecord(tenant=tenant, quota=what)
    await world.store.txn([], [Put(keys.quota(tenant), msgspec.json.encode(record))])
    await world.settle()


async def ask(
    world: World, count: int, who: Principal | Sequence[Principal] = ALICE, *, tag: str = "", **changes: Any
) -> Answers:
    """As many single submissions at once, through the replicas and by the principals in turn."""
    people = [who] if isinstance(who, Principal) else who
    asked = [
        world.replicas[n % len(world.replicas)].submit.submit(
            people[n % len(people)], [SubmitRequest(spec=spec(**changes), request_id=f"{tag}{n}")]
        )
        for n in range(count)
    ]
    return [answer for (answer,) in await asyncio.gather(*asked)]


def admitted(answers: Answers) -> int:
    return sum(isinstance(one, AcceptedJob) for one in answers)


def refused(answers: Answers) -> list[Refusal]:
    return [one for one in answers if isinstance(one, Refusal)]


class Ceiling:
    """Counts jobs of a tenant that have not ended, tasks to come included, after every commit to the store."""

    def __init__(self, world: World, tenant: str = "alpha") -> None:
        self.most = 0
        self._live: dict[str, JobState] = {}
        self._arrays: dict[str, ArrayRecord] = {}
        self._created: dict[str, int] = {}
        self._tenant = tenant
        self._inner = world.audit.take
        world.audit.take = self.take  # type: ignore[method-assign]

    def take(self, changes: Sequence[StoreChange]) -> None:
        self._inner(changes)
        for change in changes:
            kind = keys.kind_of(change.kv.key)
            if change.deleted or not change.kv.key.startswith(f"{kind}{self._tenant}/"):
                continue
            if kind == keys.STATE:
                state = msgspec.json.decode(change.kv.value, type=JobState)
                if state.array is not None and state.seq == 1:
                    self._created[state.array] = self._created.get(state.array, 0) + 1
                self._live[state.id] = state
            elif kind == keys.ARRAYS:
                array = msgspec.json.decode(change.kv.value, type=ArrayRecord)
                self._arrays[array.id] = array
        self.most = max(self.most, self.now)

    @property
    def now(self) -> int:
        to_come = sum(one.tasks - self._created.get(one.id, 0) for one in self._arrays.values())
        return to_come + sum(state.phase not in TERMINAL for state in self._live.values())
