"""Uploads the checkpoints of attempts while they run, each as soon as it is there; and says when one is due."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
from msgspec.structs import replace

from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.ending import saved
from ares.agent.files.outputs import Collect, Collected, GivenUp
from ares.agent.files.saving import (
    CheckpointNote,
    RankSaving,
    numbers_in,
    open_directory,
    read_note,
    remove,
    set_due,
    tell,
    written_in_s,
)
from ares.agent.files.upload import Upload
from ares.agent.link.mailbox import Mailbox
from ares.agent.transfer.transfers import Transfers
from ares.agent.transfer.upload_pace import UploadPace
from ares.core.checkpoint import due_before_s, interval_s
from ares.model.checkpoint import Checkpointed
from ares.model.link import OutputAck
from ares.ports.clock import Clock

_log = structlog.get_logger(__name__)

# Between two checkpoints of one rank: each takes a transaction of the store.
_APART_S: Final = 1.0
# Of one rank that wait to be removed.
_GOING_MAX: Final = 1000


class AttemptCheckpoints:
    """`part` is called for an attempt that has ended, when none of its checkpoints is on its way any more."""

    def __init__(
        self, mailbox: Mailbox, clock: Clock, collect: Collect, part: Callable[[Attempt], None], transfers: Transfers
    ) -> None:
        self._transfers = transfers
        self._mailbox = mailbox
        self._clock = clock
        self._collect = collect
        self._part = part
        self._tasks: set[asyncio.Task[None]] = set()
        # Of one rank, as the control plane said at the welcome.
        self.bytes_max = 0

    def open(self, attempt: Attempt) -> None:
        """Before the process starts. Raises OSError."""
        start = attempt.start
        if start.spec.checkpoint is None:
            return
        fd = open_directory(attempt.folder.checkpoints)
        attempt.checkpoints = RankSaving(fd, start.checkpoint_every_s, since=self._clock.monotonic())

    # ---- noticing

    def look(self, attempt: Attempt) -> None:
        """Finds new checkpoints, and says whether one is due."""
        saving, now = attempt.checkpoints, self._clock.monotonic()
        if saving is None or saving.fd < 0:
            return
        self._find(attempt, saving)
        if saving.busy is None and saving.waiting and (now - saving.began >= _APART_S or attempt.running is None):
            self._begin(attempt, saving, saving.waiting.pop(0))
        if attempt.saving and saving.told_at is not None and saving.newest > saving.told_at:
            saved(attempt)
        if not saving.due and attempt.running is not None and saving.every_s and now - saving.since >= saving.every_s:
            self.ask(attempt)

    def _find(self, attempt: Attempt, saving: RankSaving) -> None:
        new = [seq for seq in numbers_in(saving.fd) if seq > saving.newest]
        if not new:
            return
        saving.newest, saving.since = new[-1], self._clock.monotonic()
        if attempt.start.spec.gang is None:
            # Only the newest matters. The ranks of a gang have to agree, so each of them sends all.
            for seq in (*saving.waiting, *new[:-1]):
                self._discard(saving, seq)
            saving.waiting.clear()
            new = new[-1:]
        saving.waiting += new
        if saving.due:
            saving.due = False
            set_due(saving.fd, due=False)

    def ask(self, attempt: Attempt) -> None:
        """A checkpoint is due now."""
        saving = attempt.checkpoints
        if saving is not None and saving.fd >= 0 and not saving.due:
            saving.due = True
            set_due(saving.fd, due=True)

    def told_to_end(self, attempt: Attempt, *, saves: bool) -> bool:
        """Its next checkpoint is its last, if it may save one. True: its processes are gone, and that one is on its
        way."""
        saving, attempt.may_save = attempt.checkpoints, saves
        if saving is None or saving.fd < 0 or not saves:
            return False
        self._find(attempt, saving)
        saving.told_at = saving.newest if saving.told_at is None else saving.told_at
        if saving.busy is not None and attempt.upload is not None:
            attempt.upload.hurry()
        self.ask(attempt)
        return attempt.parting

    def lead_s(self, attempt: Attempt) -> float:
        """How long before its end the attempt has to begin to save."""
        saving = attempt.checkpoints
        return 0.0 if saving is None else due_before_s(saving.stall_s, saving.upload_s)

    def pending(self, attempt: Attempt) -> bool:
        """Whether a checkpoint is there that is not kept yet."""
        saving = attempt.checkpoints
        if saving is None or saving.fd < 0 or not self.bytes_max:
            return False
        self._find(attempt, saving)
        return saving.pending

    def see_out(self, attempt: Attempt, wait_s: float) -> None:
        """The attempt's processes are gone: its end comes after its last checkpoint, or when it has waited so long."""
        attempt.parting = True
        attempt.later(wait_s, partial(self._part, attempt))
        self.look(attempt)

    # ---- one checkpoint on its way

    def _begin(self, attempt: Attempt, saving: RankSaving, seq: int) -> None:
        saving.busy, saving.began, saving.report = seq, self._clock.monotonic(), None
        if not self.bytes_max:
            self._failed(attempt, seq, "this control plane keeps no checkpoints; update it")
            return
        note = read_note(saving.root, seq)
        note = replace(note, taken_at=self._clock.wall() if note.taken_at is None else note.taken_at)
        task = asyncio.create_task(self._send(attempt, saving, seq, note))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, attempt: Attempt, saving: RankSaving, seq: int, note: CheckpointNote) -> None:
        try:
            found = await self._collect(f"{saving.root}/{seq}", self.bytes_max, lambda: saving.busy == seq)
        except GivenUp:
            return
        if saving.busy != seq:
            return
        if found.trouble or not found.found:
            self._failed(attempt, seq, found.trouble or "there are no files in it")
            return
        saving.note = self._measured(note, found)
        ref, wake = attempt.start.ref, partial(self._mailbox.upload, attempt)
        pace = UploadPace(self._transfers, ref.tenant, ref.job, wake, "checkpoint")
        upload = Upload(f"{saving.root}/{seq}", found.found, partial(self._failed, attempt, seq), pace, seq)
        if saving.told_at is not None:
            # Its place is kept until this one is there.
            upload.hurry()
        attempt.upload = upload
        self._mailbox.upload(attempt)

    @staticmethod
    def _measured(note: CheckpointNote, found: Collected) -> CheckpointNote:
        return note if note.stall_s is not None else replace(note, stall_s=written_in_s(found.found))

    def kept(self, attempt: Attempt, ack: OutputAck) -> None:
        """The control plane's answer to a piece, or to a report that names a file it does not have."""
        saving, upload = attempt.checkpoints, attempt.upload
        if saving is None or upload is None or saving.busy is None or not upload.seq == ack.seq == saving.busy:
            return
        if ack.refused:
            self._failed(attempt, saving.busy, ack.refused)
            return
        if (pause_s := upload.acked(ack)) is not None:
            asyncio.get_running_loop().call_later(pause_s, self._again, attempt, upload, ack.sha256)
        if attempt.upload is not upload:
            return
        if upload.settled:
            self._report(attempt, saving, upload)
        self._mailbox.upload(attempt)

    def _again(self, attempt: Attempt, upload: Upload, sha256: str) -> None:
        if attempt.upload is upload:
            upload.again(sha256)
            self._mailbox.upload(attempt)

    def _report(self, attempt: Attempt, saving: RankSaving, upload: Upload) -> None:
        if saving.report is not None:
            self._mailbox.again(saving.report)
            return
        (ref, rank), note, seq = attempt.key, saving.note, saving.busy
        assert seq is not None and note.taken_at is not None and note.stall_s is not None, "it is on its way"
        saving.report = self._mailbox.outbox.number()
        saving.stall_s, saving.upload_s = note.stall_s, self._clock.monotonic() - saving.began
        self._mailbox.report(
            Checkpointed(
                number=saving.report,
                ref=ref,
                rank=rank,
                seq=seq,
                step=seq if note.step is None else note.step,
                files=upload.files,
                taken_at=note.taken_at,
                stall_s=note.stall_s,
                upload_s=saving.upload_s,
                metrics=note.metrics,
            )
        )

    def settled(self, attempt: Attempt, report: Checkpointed) -> None:
        """It is committed, or it was refused for good."""
        saving = attempt.checkpoints
        if saving is None or saving.report != report.number:
            return
        if attempt.start.interrupted_every_s:
            saving.every_s = interval_s(saving.stall_s, attempt.start.interrupted_every_s)
        saving.saved = report.seq
        tell(saving.fd, {"saved": report.seq})
        self._over(attempt, saving)

    def _failed(self, attempt: Attempt, seq: int, why: str) -> None:
        saving = attempt.checkpoints
        if saving is None or saving.busy != seq:
            return
        _log.warning("checkpoint.not_kept", job=attempt.start.ref.job, seq=seq, why=why)
        # With the one that is kept: a job that waits for that may not have looked yet.
        tell(saving.fd, {"saved": saving.saved, "failed": seq, "why": why})
        self._over(attempt, saving)

    def _over(self, attempt: Attempt, saving: RankSaving) -> None:
        """The next one has its turn. Without one, an attempt that waited for it goes on."""
        assert saving.busy is not None
        self._discard(saving, saving.busy)
        if saving.report is not None:
            self._mailbox.outbox.settle((saving.report,))
        saving.busy = saving.report = None
        if attempt.upload is not None and attempt.upload.seq is not None:
            attempt.upload.close()
            attempt.upload = None
        self.look(attempt)
        if attempt.parting and not saving.pending:
            self._part(attempt)

    def _discard(self, saving: RankSaving, seq: int) -> None:
        """What is not removed by then goes with the attempt's directory."""
        if saving.fd < 0 or len(saving.going) >= _GOING_MAX:
            return
        saving.going.append(seq)
        if not saving.removing:
            self._remove(saving)

    def _remove(self, saving: RankSaving) -> None:
        """In one thread, however many a job leaves at once. By a descriptor of its own: the attempt may be forgotten
        meanwhile."""
        going, saving.going, saving.removing = saving.going, [], True
        task = asyncio.create_task(asyncio.to_thread(_removed, saving.duplicate(), going))
        self._tasks.add(task)
        task.add_done_callback(partial(self._removed, saving))

    def _removed(self, saving: RankSaving, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        saving.removing = False
        if saving.going and saving.fd >= 0:
            self._remove(saving)

    def drop(self, attempt: Attempt) -> None:
        """What is not kept by now is given up."""
        saving, attempt.parting = attempt.checkpoints, False
        if saving is None:
            return
        if saving.report is not None:
            self._mailbox.outbox.settle((saving.report,))
        saving.busy = saving.report = None
        saving.waiting.clear()
        if attempt.upload is not None and attempt.upload.seq is not None:
            attempt.upload.close()
            attempt.upload = None
        saving.close()


def _removed(saving_fd: int, going: list[int]) -> None:
    try:
        for seq in going:
            remove(saving_fd, seq)
    finally:
        os.close(saving_fd)
