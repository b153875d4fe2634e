"""Writes transitions: the only path by which a job's state of record changes after submission.

Each change is stepped by the pure core and written in a transaction that compares the revision the
decision was made from, so check and write are one act. Many changes share a transaction; when one
of them lost a race the others are tried again alone.
"""

from collections.abc import Sequence

import msgspec
import structlog

from ares.control.state.commit import WriteDraft, Writer, every, landed, packs
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import StateEntry, View
from ares.core import keys
from ares.core.alerts import NOTICES_MAX, notice_of_end
from ares.core.energy import newly_spent
from ares.core.lifecycle.deadline import outcome
from ares.core.lifecycle.graph import step
from ares.core.lifecycle.inputs import Context, Input, Stepped
from ares.core.lifecycle.updates import in_force
from ares.core.refusal import Refusal
from ares.core.trace.ids import TracePlace
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

    async def apply(self, changes: Sequence[JobChange]) -> list[Outcome]:
        """Returns when every change is durable or refused."""
        outcomes: dict[int, Outcome] = {}
        drafts: list[tuple[int, SteppedDraft]] = []
        for place, change in enumerate(changes):
            if place and place % WORKED_ON == 0:
                # A storm changes hundreds of jobs at once; renewals must not wait for the last of them.
                await breathe()
            drafted = self._draft(change, self._view.entries.get(change.job))
            if isinstance(drafted, SteppedDraft):
                drafts.append((place, drafted))
            else:
                # The view may lag: a "no" is only final when read from the store.
                outcomes[place] = await self._apply_alone(change)
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
        self, change: JobChange, entry: StateEntry | None, spec: JobSpec | None = None
    ) -> SteppedDraft | Refusal | None:
        """None when the job is not known here."""
        spec = spec or (self._view.spec(entry.state) if entry is not None else None)
        if entry is None or spec is None:
            return None
        state = entry.state
        ops: list[Op] = []
        refused: list[Refusal] = []
        context = Context(now=self._clock.wall(), jitter=self._rng.uniform(), epoch=self.epoch)
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
        compares = tuple(dict.fromkeys(compare for draft in drafts for compare in draft.compares))
        written = await self._writer.once(compares, [op for draft in drafts for op in draft.ops])
        if isinstance(written, Committed) and written.succeeded:
            self._view.learn(StateEntry(d.state, written.revision, d.entry.create_revision) for d in drafts)
            self._count(drafts)
            if self._telemetry.traced:
                self._trace(drafts)
        return written

    def _trace(self, drafts: Sequence[SteppedDraft]) -> None:
        for draft in drafts:
            for name, began, ended in _stretches(draft.entry.state, draft.state, self._clock.wall()):
                attributes = {"job": draft.state.id, "attempt": draft.state.attempt, "phase": draft.state.phase}
                self._telemetry.span(name, draft.state.trace, began, ended, attributes)

    def _count(self, drafts: Sequence[SteppedDraft]) -> None:
        moved = [draft for draft in drafts if draft.state.phase != draft.entry.state.phase]
        phases = [draft.state.phase for draft in moved]
        for phase in dict.fromkeys(phases):
            self._telemetry.count("ares_jobs_total", phases.count(phase), phase.lower())
        started = [draft.state for draft in moved if draft.state.phase == "RUNNING"]
        if started:
            waits = [max(0.0, (state.started_at or state.queued_at) - state.queued_at) for state in started]
            longest = TracePlace(started[waits.index(max(waits))])
            self._telemetry.observe_all("ares_start_latency_seconds", waits, trace=longest.trace_id)
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


def _stretches(before: JobState, after: JobState, now: float) -> list[tuple[str, float, float]]:
    """The spans of a trace that a transition completes, each with its begin and end.

    Waiting ends with the grant, staging with the start, running with the end; the commit is now.
    """
    found: list[tuple[str, float, float]] = []
    if after.bound_at is not None and after.attempt > before.attempt:
        found.append(("job.queue", after.queued_at, after.bound_at))
    if after.bound_at is not None and after.started_at is not None and before.started_at != after.started_at:
        found.append(("job.stage", after.bound_at, after.started_at))
    if after.phase in TERMINAL and before.phase not in TERMINAL and after.ended_at is not None:
        found.append(("job.run", after.started_at or after.ended_at, after.ended_at))
        found.append(("job.commit", after.ended_at, now))
    return [(name, began, max(began, ended)) for name, began, ended in found]
