"""Writes transitions: the only path by which a job's state of record changes after submission.

Each change is stepped by the pure core and written in a transaction that compares the revision the
decision was made from, so check and write are one act. Many changes share a transaction; when one
of them lost a race the others are tried again alone.
"""

from collections.abc import Callable, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.state.commit import PART, WriteDraft, Writer, every, landed, overlapped, packs
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import StateEntry, View
from ares.core import keys
from ares.core.alerts import NOTICES_MAX, notice_of_end
from ares.core.books.days import day_of
from ares.core.energy import newly_spent
from ares.core.lifecycle.deadline import outcome
from ares.core.lifecycle.graph import step
from ares.core.lifecycle.inputs import Context, Input, Stepped
from ares.core.lifecycle.updates import in_force
from ares.core.refusal import Refusal
from ares.core.trace.ids import trace_id_of
from ares.model.job import JobSpec
from ares.model.state import TERMINAL, Job, JobState
from ares.ports.clock import Clock, Rng
from ares.ports.store import Committed, Compare, Delete, Op, Put, Store, Unknown
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_USES = {"kept": "useful", "lost": "lost"}
_DEADLINES = {"met": "ares_deadlines_met_total", "missed": "ares_deadlines_missed_total"}


class JobChange(msgspec.Struct, frozen=True, gc=False):
    """Inputs for one job, in order. `guards` must hold in the same transaction."""

    job: str
    tenant: str
    inputs: tuple[Input, ...]
    guards: tuple[Compare, ...] = ()


class Written(msgspec.Struct, frozen=True, gc=False):
    """The change is durable. `refused` holds the inputs that no longer applied."""

    before: JobState
    state: JobState
    refused: tuple[Refusal, ...] = ()


class MissingJob(msgspec.Struct, frozen=True, gc=False):
    """The job's record does not exist."""


class GuardFailed(msgspec.Struct, frozen=True, gc=False):
    """A guard no longer holds, such as the leadership of the caller: it has lost the right to make the change."""


Outcome = Written | Refusal | MissingJob | GuardFailed


class SteppedDraft(WriteDraft, frozen=True, gc=False):
    """A stepped change, encoded and ready to be compared and written."""

    change: JobChange
    entry: StateEntry
    state: JobState
    value: bytes
    refused: tuple[Refusal, ...]

    @property
    def subject(self) -> str:
        return self.change.job

    @property
    def ends(self) -> bool:
        """Whether the job ends by it."""
        return self.state.phase in TERMINAL and self.entry.state.phase not in TERMINAL

    @property
    def written(self) -> Written:
        return Written(self.entry.state, self.state, self.refused)


class Transitions:
    """Writes transitions. `apply` may be called concurrently, also for the same job."""

    def __init__(self, store: Store, view: View, clock: Clock, rng: Rng, telemetry: Telemetry, epoch: int) -> None:
        self._store = store
        self._writer = Writer(store, clock, telemetry, "txn")
        self._view = view
        self._clock = clock
        self._rng = rng
        self._telemetry = telemetry
        self._encode = msgspec.json.Encoder().encode
        self.epoch = epoch
        # Told of jobs that have just ended, where there is use for it.
        self.heed_ends: Callable[[Sequence[JobState]], None] | None = None

    async def apply(self, changes: Sequence[JobChange]) -> list[Outcome]:
        """Returns when every change is durable or refused."""
        if len(changes) <= PART:
            return await self._apply_part(changes)
        return [outcome for part in await overlapped(self._apply_part, changes) for outcome in part]

    async def _apply_part(self, changes: Sequence[JobChange]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        drafts: list[tuple[int, SteppedDraft]] = []
        now = self._clock.wall()
        for place, change in enumerate(changes):
            if place and place % WORKED_ON == 0:
                # A storm changes hundreds of jobs at once; renewals must not wait for the last of them.
                await breathe()
                now = self._clock.wall()
            drafted = self._draft(change, self._view.entries.get(change.job), now=now)
            if isinstance(drafted, SteppedDraft):
                drafts.append((place, drafted))
            else:
                # The view may lag: a "no" is only final when read from the store.
                outcomes[place] = await self._apply_alone(change)
                now = self._clock.wall()
        for settled in await every(self._apply_pack(pack) for pack in packs(drafts)):
            outcomes.update(settled)
        written = sum(isinstance(outcome, Written) for outcome in outcomes.values())
        self._telemetry.count("ares_transitions_total", written, "written")
        self._telemetry.count("ares_transitions_total", len(outcomes) - written, "refused")
        return [outcomes[place] for place in range(len(changes))]

    def drafted(self, change: JobChange) -> SteppedDraft | Refusal | None:
        """A change for a caller that writes it together with something else. None when the job is not known here."""
        return self._draft(change, self._view.entries.get(change.job))

    # ---- deciding

    def _draft(
        self, change: JobChange, entry: StateEntry | None, spec: JobSpec | None = None, now: float | None = None
    ) -> SteppedDraft | Refusal | None:
        """None when the job is not known here. `now`: of a wave, which is decided at one moment."""
        spec = spec or (self._view.spec(entry.state) if entry is not None else None)
        if entry is None or spec is None:
            return None
        state = entry.state
        ops: list[Op] = []
        refused: list[Refusal] = []
        now = self._clock.wall() if now is None else now
        context = Context(now=now, jitter=self._rng.uniform(), epoch=self.epoch)
        for what in change.inputs:
            stepped = step(Job(spec=spec, state=state), what, context)
            if isinstance(stepped, Refusal):
                refused.append(stepped)
                continue
            state = stepped.state
            ops += self._ops(stepped)
            if state.phase in TERMINAL and not state.lingering:
                # It holds nothing and is final: whatever else was said of it no longer applies.
                break
        if state is entry.state:
            return refused[0]
        if state.phase in TERMINAL and entry.state.phase not in TERMINAL:
            state = dated(state, self._view.kept.closed_until)
        value, key = self._encode(state), keys.state(state.tenant, state.id)
        ops.append(Put(key, value))
        compares = (Compare(key, "mod_revision", entry.mod_revision), *change.guards)
        if state.phase in TERMINAL and state.id in self._view.progress:
            ops.append(Delete(keys.progress(state.tenant, state.id)))
        if spec.notify and state.phase in TERMINAL and entry.state.phase not in TERMINAL:
            ops += self._notice(spec, state)
        return SteppedDraft(tuple(ops), compares, change, entry, state, value, tuple(refused))

    def _notice(self, spec: JobSpec, state: JobState) -> list[Op]:
        """Written with the end itself, so that none is lost; sent by the leader when it has time."""
        notice = notice_of_end(spec, state, self._clock.wall())
        if notice is None:
            return []
        prefix = keys.scoped(state.tenant, "")
        if sum(name.startswith(prefix) for name in self._view.kept.notices) >= NOTICES_MAX:
            log.warning("notice.dropped", job=state.id, tenant=state.tenant, waiting=NOTICES_MAX)
            return []
        return [Put(keys.notice(state.tenant, state.id), self._encode(notice))]

    def _ops(self, stepped: Stepped) -> list[Op]:
        ops: list[Op] = [Put(keys.event(e.tenant, e.job, e.seq), self._encode(e)) for e in stepped.events]
        if stepped.result is not None:
            ops.append(Put(keys.result(stepped.state.tenant, stepped.state.id), self._encode(stepped.result)))
        if (kept := stepped.checkpoint) is not None:
            key = keys.checkpoint(stepped.state.tenant, stepped.state.id, kept.pointer.id)
            ops.append(Put(key, self._encode(kept)))
        return ops

    # ---- writing

    async def _apply_pack(self, pack: list[tuple[int, SteppedDraft]]) -> dict[int, Outcome]:
        written = await self._write([draft for _, draft in pack])
        if landed(written):
            return {place: draft.written for place, draft in pack}
        unknown = isinstance(written, Unknown)
        alone = await every(self._apply_alone(draft.change, draft if unknown else None) for _, draft in pack)
        return {place: outcome for (place, _), outcome in zip(pack, alone, strict=True)}

    async def _write(self, drafts: Sequence[SteppedDraft]) -> Committed | Unknown:
        compares, decoded = tuple(dict.fromkeys([c for draft in drafts for c in draft.compares])), self._view.decoded
        # Most often the watch brings them before the answer is here.
        for draft in drafts:
            decoded.expect_state(draft.state, draft.value)
        written = await self._writer.once(compares, [op for draft in drafts for op in draft.ops])
        if isinstance(written, Committed):
            for draft in drafts:
                decoded.expect_no_more(draft.value)
        if isinstance(written, Committed) and written.succeeded:
            self._view.learn(StateEntry(d.state, written.revision, d.entry.create_revision) for d in drafts)
            self._count(drafts)
            if self.heed_ends is not None:
                self.heed_ends([draft.state for draft in drafts if draft.ends])
        return written

    def _count(self, drafts: Sequence[SteppedDraft]) -> None:
        moved = [draft for draft in drafts if draft.state.phase != draft.entry.state.phase]
        phases = [draft.state.phase for draft in moved]
        for phase in dict.fromkeys(phases):
            self._telemetry.count("ares_jobs_total", phases.count(phase), phase.lower())
        started = [draft.state for draft in moved if draft.state.phase == "RUNNING"]
        if started:
            waits = [max(0.0, (state.started_at or state.queued_at) - state.queued_at) for state in started]
            longest = started[waits.index(max(waits))]
            self._telemetry.observe_all("ares_start_latency_seconds", waits, trace=trace_id_of(longest))
        for draft in moved:
            if draft.state.phase == "RETRYING":
                failure = None if draft.state.exit is None else draft.state.exit.failure
                self._telemetry.count("ares_retries_total", 1, failure or "restart")
        self._count_spent(drafts)
        for draft in drafts:
            if draft.state.deadline_at is None and draft.state.start_by_at is None:
                continue
            kept = outcome(draft.state)
            if kept is not None and outcome(draft.entry.state) is None:
                # Both, so that the share of either is known from the first on.
                for verdict, name in _DEADLINES.items():
                    self._telemetry.count(name, verdict == kept, draft.state.sla or "own")

    def _count_spent(self, drafts: Sequence[SteppedDraft]) -> None:
        """What attempts that ended have used. A gang that changed its size counts when it ends."""
        changed = [
            (before, after)
            for draft in drafts
            if (before := draft.entry.state.spent) is not (after := draft.state.spent) and after
        ]
        for used in newly_spent(changed):
            self._telemetry.count("ares_energy_joules_total", used.energy_j, used.pool, "modelled")
            self._telemetry.count("ares_cost_total", used.cost, used.pool)
            if used.gpu_s:
                self._telemetry.count("ares_gpu_seconds_total", used.gpu_s, used.pool, _USES[used.fate])

    async def _apply_alone(self, change: JobChange, offered: SteppedDraft | None = None) -> Outcome:
        """Reads the record, steps again and writes, until it is written or refused. `offered` may have landed."""

        async def propose(offered: SteppedDraft | None) -> SteppedDraft | Outcome:
            entry, spec = await self._read(change)
            if entry is None or spec is None:
                return MissingJob()
            if offered is not None and self._encode(entry.state) == offered.value:
                return offered.written
            if not await self._guards_hold(change):
                return GuardFailed()
            if offered is not None and entry.mod_revision == offered.entry.mod_revision:
                return offered
            drafted = self._draft(change, entry, spec)
            return drafted if drafted is not None else MissingJob()

        decided = await self._writer.decide(
            f"job {change.job}", SteppedDraft, propose, lambda draft: self._write([draft]), offered
        )
        return decided.written if isinstance(decided, SteppedDraft) else decided

    async def _read(self, change: JobChange) -> tuple[StateEntry | None, JobSpec | None]:
        kv = await self._store.get(keys.state(change.tenant, change.job))
        if kv is None:
            return None, None
        state = msgspec.json.decode(kv.value, type=JobState)
        spec = self._view.spec(state)
        if spec is None:
            stored = await self._store.get(keys.job(state.tenant, state.array or state.id))
            spec = None if stored is None else in_force(self._view.decode_spec(stored.value), state)
        entry = StateEntry(state, kv.mod_revision, kv.create_revision)
        # The next decision must see this change.
        self._view.learn((entry,))
        return entry, spec

    async def _guards_hold(self, change: JobChange) -> bool:
        for guard in change.guards:
            kv = await self._store.get(guard.key)
            found = 0 if kv is None else getattr(kv, guard.target)
            if found != guard.equals:
                return False
        return True


def dated(state: JobState, closed_until: float) -> JobState:
    """A job does not end on a day whose book is closed, whether a clock lags or its end is heard of late."""
    if state.phase not in TERMINAL or state.ended_at is None or state.ended_at >= closed_until:
        return state
    return replace(state, book_day=day_of(closed_until))
