"""How far jobs have come in this cluster: what its global plane is to be told, and what it has noted."""

import asyncio
from collections.abc import Sequence

from ares.control.federation.held_jobs import is_over
from ares.control.federation.membership import Membership
from ares.control.federation.standings import Standings
from ares.control.federation.taking import Taking
from ares.control.state.view import Delta, View
from ares.core.federation.buckets import bucket_of
from ares.core.federation.clusters import code_in
from ares.core.federation.epochs import LOCAL_EPOCH
from ares.model.cluster_link import ClusterMessage, Declined, StandingNoted, Tell
from ares.model.state import JobState
from ares.model.uplink import TakenJob

# Jobs that one frame tells of.
_TOLD_AT_ONCE = 200


class StandingNews:
    """Of one session at a time: what an earlier one has not heard noted follows from records."""

    def __init__(self, view: View, membership: Membership, taking: Taking, standings: Standings) -> None:
        self._view, self._membership, self._taking, self._standings = view, membership, taking, standings
        self._wake = asyncio.Event()
        # Jobs to tell of, in the order in which they changed; those under way with their number; what is noted.
        self._dirty: dict[str, None] = {}
        self._awaited: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        self._open = False
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if not self._open:
            return
        for _, entry in delta.states:
            if self._concerns(entry.state):
                self._dirty[entry.state.id] = None
        if self._dirty:
            self._wake.set()

    def _concerns(self, state: JobState) -> bool:
        taken = self._view.kept.taken.get(state.id)
        if taken is not None:
            return _is_told(taken)
        return self._is_mine(state.id)

    def _is_mine(self, job: str) -> bool:
        """Whether it was submitted in this cluster."""
        record, code = self._membership.record, code_in(job)
        return record is not None and bool(code) and code == record.code

    def is_untold(self, job: str) -> bool:
        """Whether the global plane may not have heard of the job's end: until then its records are kept."""
        if self._membership.record is None:
            return False
        record = self._view.kept.taken.get(job)
        if record is not None:
            return record.possession.taken is not None and not record.settled
        return self._is_mine(job)

    def begin(self) -> None:
        self._dirty, self._awaited, self._noted = {}, {}, {}
        self._open = True

    def end(self) -> None:
        self._open = False

    def tell_differing(self, places: Sequence[int]) -> None:
        """Jobs whose state the global plane does not have, and local ones that it may not know."""
        wanted = set(places)
        for job, record in self._view.kept.taken.items():
            if bucket_of(job) in wanted and not record.settled and job in self._view.entries:
                self._dirty[job] = None
        for job in self._view.entries:
            if job not in self._view.kept.taken and self._is_mine(job):
                self._dirty[job] = None
        self._wake.set()

    # ---- what is told

    async def next(self) -> list[ClusterMessage]:
        """As soon as there is something. Of a job that is told of, the answer is awaited first."""
        while not (jobs := [job for job in self._dirty if job not in self._awaited][:_TOLD_AT_ONCE]):
            self._wake.clear()
            await self._wake.wait()
        messages: list[ClusterMessage] = []
        for job in jobs:
            del self._dirty[job]
            if (message := await self._standing(job)) is not None:
                messages.append(message)
        return messages

    async def _standing(self, job: str) -> ClusterMessage | None:
        entry, record = self._view.entries.get(job), self._view.kept.taken.get(job)
        if entry is None:
            return None
        state = entry.state
        taken = None if record is None else record.possession.taken
        if record is not None and not _is_told(record):
            return None
        if taken is not None and state.seq <= 1:
            # Only that it is here, which its global plane knows.
            return None
        self._awaited[job] = state.seq
        if taken is None:
            return await self._standings.local(state, LOCAL_EPOCH)
        return await self._standings.of(state, taken.epoch, self._noted.get(job, 0))

    async def whole(self, asked: Tell) -> ClusterMessage:
        """A job that the global plane does not know, with all of its ledger."""
        entry, record = self._view.entries.get(asked.job), self._view.kept.taken.get(asked.job)
        taken = None if record is None else record.possession.taken
        epoch = LOCAL_EPOCH if taken is None else taken.epoch
        told = None if entry is None else await self._standings.local(entry.state, epoch)
        return Declined(job=asked.job, epoch=epoch, code="unknown") if told is None else told

    # ---- what is answered

    async def noted(self, notes: Sequence[StandingNoted]) -> None:
        """What is durable at the global plane. The end of a job that is known there is not told again."""
        ends: list[tuple[str, str]] = []
        for noted in notes:
            self._awaited.pop(noted.job, None)
            self._noted[noted.job] = max(noted.seq, self._noted.get(noted.job, 0))
            entry = self._view.entries.get(noted.job)
            if entry is None:
                continue
            state = entry.state
            if noted.job not in self._view.kept.taken and self._is_mine(noted.job):
                await self._taking.owned(noted, state.tenant)
            if is_over(state) and noted.seq >= state.seq:
                ends.append((state.id, state.tenant))
            elif state.seq > noted.seq:
                self._dirty[noted.job] = None
        if ends:
            await self._taking.settled(ends)
        self._wake.set()

    def stopped(self, job: str) -> None:
        """The job is to stop. Where it has already, nothing else changes it any more; and what changed while the answer
        was awaited is told now."""
        self._awaited.pop(job, None)
        entry, record = self._view.entries.get(job), self._view.kept.taken.get(job)
        if entry is not None and record is not None and not record.settled and is_over(entry.state):
            self._dirty[job] = None
        self._wake.set()


def _is_told(record: TakenJob) -> bool:
    """Whether the global plane is to hear how far it is. The end of a job that was fenced is no end of it, and what is
    here of one that was only accepted is from when the cluster had it before."""
    taken = record.possession.taken
    return taken is not None and taken.stage != "ACCEPTED" and not taken.fenced and not record.settled
