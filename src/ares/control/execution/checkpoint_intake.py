"""Checkpoints as agents report them: looked at, put together where a gang saved one, and committed in one transaction.

A file of a checkpoint may come from an attempt that was revoked meanwhile: it ends under that attempt's fence, where no
pointer leads. The transaction that moves the pointer decides.
"""

from collections.abc import Sequence

import msgspec
import structlog

from ares.control.execution.reports import Report
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.control.execution.transitions import GuardFailed, JobChange, Outcome, Transitions, Written
from ares.control.state.checkpoint_cleanup import CheckpointCleanup
from ares.control.state.records import Records, unchanged
from ares.control.state.view import View
from ares.core import keys
from ares.core.checkpoint import StepMismatch, digest_of, encode_manifest, joined, sealed_by, whole
from ares.core.lifecycle.inputs import CheckpointDamaged, CheckpointSealed
from ares.core.lifecycle.outputs import list_flaw
from ares.core.refusal import Refusal
from ares.model.base import CheckpointRef
from ares.model.checkpoint import Checkpointed, CheckpointPart, CheckpointRecord, DamageFound, RankSeal, SealingRecord
from ares.model.link import OutputAck
from ares.model.state import OutputFile
from ares.ports.blobs import Blobs
from ares.ports.store import Compare, Put, Store
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_WORDS_MAX = 500
_encode = msgspec.json.Encoder().encode


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

    async def commit(self, session: AgentSession, reports: Sequence[Report]) -> tuple[list[Report], list[Report]]:
        """Of some reports, those that are settled by this, and those that are about something else. A checkpoint whose
        files are not all kept is in neither: its agent sends them again. Raises StoreError."""
        settled, others = list[Report](), list[Report]()
        for report in reports:
            match report.message:
                case Checkpointed() as said:
                    if await self._take(session, said):
                        settled.append(report)
                case DamageFound() as said:
                    await self._damaged(session, said)
                    settled.append(report)
                case _:
                    others.append(report)
        return settled, others

    # ---- a checkpoint

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
        key = keys.sealing(said.ref.tenant, said.ref.job)
        made = await self._gathered(key, said, seal)
        if isinstance(made, StepMismatch):
            message = f"ranks gave number {made.seq} to step {made.other} and to step {made.step}"
            return Refusal(code="not-allowed", message=message)
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

    async def _gathered(self, key: str, said: Checkpointed, seal: RankSeal) -> SealingRecord | StepMismatch:
        """Adds the rank's part to those of its gang, by compare-and-swap."""

        async def attempt() -> SealingRecord | StepMismatch | None:
            found = await self._records.read(key, SealingRecord)
            before = None if found is None else found[1]
            after = sealed_by(before, said.ref.job, said.ref.fence, said.seq, said.step, seal)
            if isinstance(after, StepMismatch) or after == before:
                return after
            put = Put(key, _encode(after))
            written = await self._records.write(
                [unchanged(key, None if found is None else found[0])], [put], seen=False
            )
            return after if written else None

        return await self._records.settle("that a checkpoint was saved", attempt, seen=False)

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


def _ref(said: Checkpointed) -> CheckpointRef:
    return CheckpointRef(job=said.ref.job, tenant=said.ref.tenant, fence=said.ref.fence, seq=said.seq)
