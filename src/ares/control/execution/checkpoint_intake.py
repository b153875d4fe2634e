"""Checkpoints as agents report them: looked at, put together where a gang saved one, and committed in one transaction.

A file of a checkpoint may come from an attempt that was revoked meanwhile: it ends under that attempt's fence, where no
pointer leads. The transaction that moves the pointer decides.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from ares.control.execution.reports import Report
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.control.execution.transitions import GuardFailed, JobChange, Outcome, Transitions, Written
from ares.control.state.checkpoint_cleanup import CheckpointCleanup
from ares.control.state.commit import every
from ares.control.state.records import Records, unchanged
from ares.control.state.view import View
from ares.core import keys
from ares.core.checkpoint import StepMismatch, digest_of, encode_manifest, joined, sealed_by, whole
from ares.core.lifecycle.inputs import CheckpointDamaged, CheckpointSealed
from ares.core.lifecycle.outputs import list_flaw
from ares.core.refusal import Refusal
from ares.model.base import AttemptRef, CheckpointRef
from ares.model.checkpoint import Checkpointed, CheckpointPart, CheckpointRecord, DamageFound, RankSeal, SealingRecord
from ares.model.link import OutputAck
from ares.model.state import OutputFile
from ares.ports.blobs import Blobs
from ares.ports.store import Compare, Put, Store, StoreRefused
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_WORDS_MAX = 500
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True, eq=False)
class _WaitingSeal:
    """The part of one rank that waits to be written down. `outcome`, once it is done: None while others are missing."""

    said: Checkpointed
    seal: RankSeal
    is_done: bool = False
    outcome: Outcome | None = None


class CheckpointIntake:
    """One for all sessions of a replica. `bytes_max` is for one rank."""

    def __init__(
        self,
        *,
        store: Store,
        view: View,
        rights: Rights,
        blobs: Blobs,
        transitions: Transitions,
        cleanup: CheckpointCleanup,
        telemetry: Telemetry,
        bytes_max: int,
    ) -> None:
        self._view = view
        self._records = Records(store, view)
        self._rights = rights
        self._blobs = blobs
        self._transitions = transitions
        self._cleanup = cleanup
        self._telemetry = telemetry
        self._bytes_max = bytes_max
        # Parts of gangs that wait for the write before them, by the key of the record, and the lock of that record.
        self._parts: dict[str, tuple[asyncio.Lock, list[_WaitingSeal]]] = {}

    async def commit(self, session: AgentSession, reports: Sequence[Report]) -> tuple[list[Report], list[Report]]:
        """Of some reports, those that are settled by this, and those that are about something else. A checkpoint whose
        files are not all kept is in neither: its agent sends them again. Raises StoreError."""
        settled, others = list[Report](), list[Report]()
        for group in _together(reports):
            match group[0].message:
                case Checkpointed():
                    taken = await every(self._taken(session, report) for report in group)
                    settled += [report for report, is_settled in zip(group, taken, strict=True) if is_settled]
                case DamageFound() as said:
                    await self._damaged(session, said)
                    settled += group
                case _:
                    others += group
        return settled, others

    # ---- a checkpoint

    async def _taken(self, session: AgentSession, report: Report) -> bool:
        said = report.message
        assert isinstance(said, Checkpointed), "only checkpoints are taken"
        try:
            return await self._take(session, said)
        except StoreRefused as error:
            # The store works, and will never take it: the job goes on without this one.
            self._refused(session, said, f"its record cannot be written: {error}")
            return True

    async def _take(self, session: AgentSession, said: Checkpointed) -> bool:
        """False when its agent has to send files again."""
        if not self._rights.may_save(session, (said.ref, said.rank)):
            self._refused(session, said, "the attempt is no longer the current one")
            self._rights.note(session, "saveCheckpoint", said.ref, said.rank)
            return True
        if flaw := list_flaw(said.files, self._bytes_max) or ("" if said.files else "it has no files"):
            self._refused(session, said, flaw)
            return True
        part = await self._sealed(session, said)
        if part is None:
            return False
        outcome = await self._committed(said, part)
        if isinstance(outcome, Written):
            self._telemetry.count("ares_checkpoints_total", 1)
            self._telemetry.count("ares_checkpoint_bytes_total", part.size)
            self._cleanup.saved(said.ref.tenant, said.ref.job)
        elif outcome is not None and not self._known(said):
            self._refused(session, said, getattr(outcome, "message", "the job is not kept any more"))
        return True

    def _known(self, said: Checkpointed) -> bool:
        """Whether it was committed before, and the answer was lost; or a newer one of the attempt was."""
        entry = self._view.entries.get(said.ref.job)
        newest = None if entry is None else entry.state.checkpoint
        return newest is not None and newest.fence == said.ref.fence and newest.seq >= said.seq

    async def _sealed(self, session: AgentSession, said: Checkpointed) -> CheckpointPart | None:
        """What the rank saved, once every file of it is kept for good, with their list beside them."""
        ref = _ref(said)
        manifest = encode_manifest(said.files)
        digest = digest_of(manifest)
        try:
            missing: Sequence[OutputFile] = await self._blobs.unsealed(ref, said.files)
            trouble = "it was not kept"
            if not missing:
                await self._blobs.append(ref, digest, 0, manifest)
                if await self._blobs.seal(ref, digest, len(manifest)) is not None:
                    missing, trouble = said.files[:1], "the list of its files could not be kept"
        except (OSError, ValueError) as error:
            missing, trouble = said.files[:1], f"the control plane cannot keep it: {error}"
        for file in missing:
            session.send(
                OutputAck(ref=said.ref, rank=said.rank, sha256=file.sha256, offset=0, trouble=trouble, seq=said.seq)
            )
        size = sum(file.size for file in said.files)
        return None if missing else CheckpointPart(rank=said.rank, manifest=digest, size=size)

    async def _committed(self, said: Checkpointed, part: CheckpointPart) -> Outcome | None:
        """None while ranks of its gang have not saved theirs."""
        seal = RankSeal(
            part=part, taken_at=said.taken_at, stall_s=said.stall_s, upload_s=said.upload_s, metrics=said.metrics
        )
        entry = self._view.entries.get(said.ref.job)
        spec = None if entry is None else self._view.spec(entry.state)
        if spec is None or spec.gang is None:
            record = joined(said.ref.job, said.ref.fence, said.seq, said.step, (seal,))
            return await self._apply(said, record)
        return await self._joined(keys.sealing(said.ref.tenant, said.ref.job), _WaitingSeal(said, seal))

    async def _joined(self, key: str, mine: _WaitingSeal) -> Outcome | None:
        """Adds a rank's part to those of its gang, and commits what is whole by that. Parts that come while a write is
        under way share the next one: a gang of thousands does not write its record thousands of times."""
        lock, waiting = self._parts.setdefault(key, (asyncio.Lock(), []))
        waiting.append(mine)
        try:
            async with lock:
                if not mine.is_done:
                    await self._join(key, tuple(waiting))
        finally:
            waiting.remove(mine)
            if not waiting:
                self._parts.pop(key, None)
        return mine.outcome

    async def _join(self, key: str, parts: Sequence[_WaitingSeal]) -> None:
        mismatches = await self._records.settle(
            "that a checkpoint was saved", lambda: self._add(key, parts), seen=False
        )
        committed: dict[tuple[AttemptRef, int], Outcome | None] = {}
        for part in parts:
            said, wrong = part.said, mismatches.get(part)
            if wrong is not None:
                message = f"ranks gave number {wrong.seq} to step {wrong.other} and to step {wrong.step}"
                part.outcome = Refusal(code="not-allowed", message=message)
            else:
                number = (said.ref, said.seq)
                if number not in committed:
                    committed[number] = await self._commit_whole(key, said)
                part.outcome = committed[number]
            part.is_done = True

    async def _add(self, key: str, parts: Sequence[_WaitingSeal]) -> dict[_WaitingSeal, StepMismatch] | None:
        """By compare-and-swap; None when another replica wrote meanwhile. Returns those that do not belong."""
        found = await self._records.read(key, SealingRecord)
        before = after = None if found is None else found[1]
        refused: dict[_WaitingSeal, StepMismatch] = {}
        for part in parts:
            said = part.said
            made = sealed_by(after, said.ref.job, said.ref.fence, said.seq, said.step, part.seal)
            if isinstance(made, StepMismatch):
                refused[part] = made
            else:
                after = made
        if after is None or after == before:
            return refused
        compares = [unchanged(key, None if found is None else found[0])]
        return refused if await self._records.write(compares, [Put(key, _encode(after))], seen=False) else None

    async def _commit_whole(self, key: str, said: Checkpointed) -> Outcome | None:
        """None while ranks of its gang have not saved theirs."""
        while True:
            found = await self._records.read(key, SealingRecord)
            state = self._view.entries[said.ref.job].state if said.ref.job in self._view.entries else None
            if found is None or state is None:
                return None
            complete = whole(found[1], said.seq, (place.rank for place in state.placements))
            if complete is None:
                return None
            guard = Compare(key, "mod_revision", found[0].mod_revision)
            outcome = await self._apply(said, complete, (guard,))
            if not isinstance(outcome, GuardFailed):
                return outcome
            # A rank added its part of another number meanwhile. No other report would commit this one.

    async def _apply(self, said: Checkpointed, record: CheckpointRecord, guards: tuple[Compare, ...] = ()) -> Outcome:
        what = CheckpointSealed(fence=said.ref.fence, rank=said.rank, record=record)
        (outcome,) = await self._transitions.apply([JobChange(said.ref.job, said.ref.tenant, (what,), guards)])
        return outcome

    def _refused(self, session: AgentSession, said: Checkpointed, why: str) -> None:
        ref = said.ref
        log.warning("checkpoint.refused", job=ref.job, fence=str(ref.fence), seq=said.seq, node=session.node, why=why)
        self._telemetry.count("ares_checkpoints_refused_total", 1)
        # Before the report is acknowledged: a job that waits for the checkpoint must not take it for saved.
        sha256 = said.files[0].sha256 if said.files else ""
        session.send(OutputAck(ref=ref, rank=said.rank, sha256=sha256, offset=0, refused=why, seq=said.seq))

    # ---- one that is damaged

    async def _damaged(self, session: AgentSession, said: DamageFound) -> None:
        if not self._rights.may_report(session, said.ref, said.rank):
            self._rights.note(session, "reportDamage", said.ref, said.rank)
            return
        if (
            await self._records.read(keys.checkpoint(said.ref.tenant, said.ref.job, said.checkpoint), CheckpointRecord)
            is None
        ):
            # Each that is kept can be damaged once; there is no end to those that are not.
            return
        reason = "".join(letter if letter.isprintable() else " " for letter in said.reason[:_WORDS_MAX])
        what = CheckpointDamaged(fence=said.ref.fence, rank=said.rank, checkpoint=said.checkpoint, reason=reason)
        await self._transitions.apply([JobChange(said.ref.job, said.ref.tenant, (what,))])


def _together(reports: Sequence[Report]) -> Iterator[list[Report]]:
    """Parts of one gang's checkpoint that came one after the other are taken at once, all else by itself."""
    group, of = list[Report](), None
    for report in reports:
        said = report.message
        whose = (said.ref, said.seq) if isinstance(said, Checkpointed) else None
        if group and (whose is None or whose != of):
            yield group
            group = []
        group.append(report)
        of = whose
    if group:
        yield group


def _ref(said: Checkpointed) -> CheckpointRef:
    return CheckpointRef(job=said.ref.job, tenant=said.ref.tenant, fence=said.ref.fence, seq=said.seq)
