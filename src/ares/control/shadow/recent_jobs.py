"""The jobs that came of late, as a shadow profile is judged by them."""

from collections.abc import AsyncIterator
from itertools import islice

import msgspec

from ares.control.shadow.messages import PastJob
from ares.control.state.pacing import LOOKED_AT, WORKED_ON, breathe
from ares.control.state.view import View
from ares.core import keys
from ares.model.state import JobState
from ares.ports.store import Store

# Jobs that came so long before also hold room in the replay, if they were there when those came that count.
_BEFORE_S = 86_400.0
_ENDED = ("SUCCEEDED", "FAILED")
_ENCODE = msgspec.json.Encoder().encode


class RecentJobs:
    """Specifications that were read from the store are kept while jobs of the latest question need them."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view
        self._specs: dict[str, bytes] = {}

    async def fresh(self, since: float, most: int) -> int:
        """How many jobs that came since then have ended by themselves, counted up to `most` of each tenant."""
        return sum(counts(state, since) for state in await self._latest(since, most))

    async def question(self, since: float, most: int) -> tuple[PastJob, ...]:
        """The latest of those that came since, and what held room meanwhile: at most so many, by submission."""
        states = {state.id: state for state in await self._latest(since - _BEFORE_S, most) if _matters(state, since)}
        for job in {job for jobs in self._view.by_node.values() for job in jobs}:
            state = self._view.entries[job].state
            if _matters(state, since):
                states[job] = state
        chosen = sorted(states.values(), key=lambda state: (state.submitted_at, state.id))[-most:]
        return tuple([past async for past in self._with_specs(chosen)])

    def forget(self) -> None:
        self._specs = {}

    async def _latest(self, since: float, most: int) -> list[JobState]:
        found: list[JobState] = []
        for tenant in list(self._view.order):
            # A copy of the end: other tasks change the list in between.
            for at, (_, job) in enumerate(list(islice(reversed(self._view.order.get(tenant, ())), most))):
                if at % LOOKED_AT == LOOKED_AT - 1:
                    await breathe()
                entry = self._view.entries.get(job)
                if entry is None:
                    continue
                if entry.state.submitted_at < since:
                    break
                found.append(entry.state)
        return found

    async def _with_specs(self, states: list[JobState]) -> AsyncIterator[PastJob]:
        known, self._specs = self._specs, {}
        for at, state in enumerate(states):
            if at % WORKED_ON == WORKED_ON - 1:
                await breathe()
            whose = state.array or state.id
            raw = self._specs.get(whose) or known.get(whose) or self._view.specs.get(whose)
            if raw is None:
                kv = await self._store.get(keys.job(state.tenant, whose))
                raw = None if kv is None else kv.value
            if raw is not None:
                self._specs[whose] = raw
                yield PastJob(msgspec.Raw(raw), msgspec.Raw(_ENCODE(state)))


def counts(state: JobState, since: float) -> bool:
    """Whether it is known how long the job takes, and it was submitted when only chance knew how it would fare."""
    return state.phase in _ENDED and state.submitted_at >= since and state.started_at is not None


def _matters(state: JobState, since: float) -> bool:
    """Counts, or held room meanwhile."""
    return state.started_at is not None and (state.ended_at is None or state.ended_at >= since)
