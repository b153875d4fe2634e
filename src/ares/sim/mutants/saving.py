"""Bugs with files: of checkpoints, their order, the right to save, and those not there; of data that jobs read,
those that are not checked; and whose turn it is on the link."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace as changed

from ares.agent.attempts.attempt import Attempt
from ares.agent.files.checkpoints import AttemptCheckpoints
from ares.agent.files.saving import CheckpointNote, RankSaving
from ares.agent.files.upload import Upload
from ares.agent.staging import inputs
from ares.agent.staging.dataset_shelf import DatasetDraft
from ares.agent.transfer.transfers import Transfers
from ares.agent.transfer.upload_pace import UploadPace
from ares.control.execution import rights
from ares.control.execution.checkpoint_intake import CheckpointIntake
from ares.control.execution.session import AgentSession
from ares.control.execution.transitions import Outcome
from ares.core.checkpoint import digest_of, encode_manifest
from ares.core.lifecycle import checkpoints
from ares.core.lifecycle.graph import TRANSITIONS, Transition
from ares.core.lifecycle.inputs import CheckpointSealed, Context, Stepped
from ares.core.lifecycle.ranks import held, place_of
from ares.core.refusal import Refusal
from ares.core.transfer.turns import PieceGrant, TurnWait
from ares.model.base import CheckpointRef, Fence
from ares.model.checkpoint import Checkpointed, CheckpointPart, CheckpointRecord
from ares.model.link import FetchPiece
from ares.model.state import Job, JobState, Phase, Placement
from ares.ports.clock import happens
from ares.ports.store import Compare
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import Patch, entry, replace, together

# pyright: reportPrivateUsage=false


def _in_any_order(job: Job, what: CheckpointSealed, context: Context) -> Stepped | Refusal:
    """As if there was none before."""
    return checkpoints.sealed(changed(job, state=changed(job.state, checkpoint=None)), what, context)


def _everywhere(phase: Phase) -> Patch:
    return entry(TRANSITIONS, (phase, CheckpointSealed), Transition(_in_any_order, frozenset({phase})))


def _of_any_attempt(state: JobState, fence: Fence, rank: int) -> Placement | None:
    return place_of(held(state), rank)


async def _told_at_once(
    self: AttemptCheckpoints, attempt: Attempt, saving: RankSaving, seq: int, note: CheckpointNote
) -> None:
    """Reported when its files are found, not when they are kept."""
    found = await self._collect(f"{saving.root}/{seq}", self.bytes_max, lambda: True)
    ref = attempt.start.ref
    saving.note = changed(note, stall_s=0.1)
    pace = UploadPace(self._transfers, ref.tenant, ref.job, lambda: None)
    attempt.upload = Upload(f"{saving.root}/{seq}", found.found, partial(self._failed, attempt, seq), pace, seq)
    self._report(attempt, saving, attempt.upload)


async def _believed(self: CheckpointIntake, session: AgentSession, said: Checkpointed) -> CheckpointPart | None:
    """What an agent says is kept, is kept."""
    size = sum(file.size for file in said.files)
    return CheckpointPart(rank=said.rank, manifest=digest_of(encode_manifest(said.files)), size=size)


_apply = CheckpointIntake._apply


async def _removes_first(
    self: CheckpointIntake, said: Checkpointed, record: CheckpointRecord, guards: tuple[Compare, ...] = ()
) -> Outcome:
    for there in await self._blobs.checkpoints(said.ref.tenant, said.ref.job):
        if there < record.pointer.id:
            ref = CheckpointRef(job=said.ref.job, tenant=said.ref.tenant, fence=there.fence, seq=there.seq)
            await self._blobs.remove(ref)
    return await _apply(self, said, record, guards)


def _taken_as_it_comes(draft: DatasetDraft, piece: FetchPiece) -> None:
    """What came is what was asked for."""
    draft.write(piece.sha256, piece.data)


def _all_there(self: DatasetDraft, wanted: Callable[[], bool]) -> None:
    """What an earlier fetch left is complete."""
    self.lacking.clear()


async def _pumped_by_wall_clock(self: Transfers) -> None:
    try:
        while (found := self._turns.pick(self._clock.wall())) is not None:
            match found:
                case PieceGrant(tenant=tenant, size=size, asker=asker):
                    self.count(tenant, asker.kind, size)
                    asker.granted(size)
                case TurnWait(seconds=seconds):
                    self._asked.clear()
                    await happens(self._asked, self._clock, seconds)
    finally:
        self._pumping = None


def _rate_by_wall_clock(self: Transfers, tenant: str, rate: float | None, weight: int = 1) -> None:
    self._turns.set_rate(tenant, rate, self._clock.wall(), weight)
    self._asked.set()


MUTANTS = {
    "checkpoint-without-number": Mutant(
        "a checkpoint is accepted whatever was saved before it",
        ("E6",),
        together(*(_everywhere(phase) for phase in ("STAGING", "RUNNING", "PREEMPTED"))),
        case="checkpoint-doubled",
    ),
    "checkpoint-of-any-attempt": Mutant(
        "a checkpoint is accepted of any attempt, as long as the job runs",
        ("E6",),
        together(
            replace(checkpoints, "saving_place", _of_any_attempt), replace(rights, "saving_place", _of_any_attempt)
        ),
        case="checkpoint-zombie",
    ),
    "checkpoint-before-its-files": Mutant(
        "a checkpoint becomes the newest before its files are kept",
        ("E6",),
        together(replace(AttemptCheckpoints, "_send", _told_at_once), replace(CheckpointIntake, "_sealed", _believed)),
        case="checkpoint-resumed",
    ),
    "checkpoint-removed-first": Mutant(
        "older checkpoints are removed before the newer one is committed",
        ("E6",),
        replace(CheckpointIntake, "_apply", _removes_first),
        case="checkpoint-crashed",
    ),
    "input-unchecked": Mutant(
        "data is used as it comes, whatever its digest is",
        ("E27",),
        replace(inputs, "_take", _taken_as_it_comes),
        case="input-lied",
    ),
    "input-half-fetched": Mutant(
        "what an interrupted fetch left of a dataset is taken for the whole",
        ("E27",),
        replace(DatasetDraft, "_look", _all_there),
        case="input-interrupted",
    ),
    "throttle-by-wall-clock": Mutant(
        "a tenant's rate on the link goes by the wall clock",
        ("E11",),
        together(
            replace(Transfers, "_pump", _pumped_by_wall_clock), replace(Transfers, "set_rate", _rate_by_wall_clock)
        ),
        case="input-clock",
    ),
}
