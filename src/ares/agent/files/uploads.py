"""Uploads the files of attempts that succeeded, before their end is reported. The attempt needs its lease meanwhile:
a lost lease ends the upload."""

import asyncio
from collections.abc import Callable
from functools import partial

from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.workspace import Folder
from ares.agent.files.outputs import Collect, GivenUp
from ares.agent.files.upload import Upload
from ares.agent.link.mailbox import Mailbox
from ares.agent.transfer.transfers import Transfers
from ares.agent.transfer.upload_pace import UploadPace
from ares.model.link import OutputAck
from ares.model.state import OutputFile

# The attempt, why its files cannot be stored (or ""), and the stored files.
HandedOver = Callable[[Attempt, str, tuple[OutputFile, ...]], None]


class AttemptUploads:
    def __init__(
        self,
        mailbox: Mailbox,
        collect: Collect,
        handed_over: HandedOver,
        has_outputs: Callable[[Folder], bool],
        transfers: Transfers,
    ) -> None:
        self._transfers = transfers
        self._mailbox = mailbox
        self._collect = collect
        self._handed_over = handed_over
        self._has_outputs = has_outputs
        self._collecting: set[asyncio.Task[None]] = set()
        # The limit that the control plane gave at the welcome. 0: it stores no outputs.
        self.bytes_max = 0

    def wanted(self, attempt: Attempt) -> bool:
        """Whether the attempt left output files, and its job will have a result that they belong to."""
        spec = attempt.start.spec
        repeats = spec.restart == "always" and spec.effects != "unsafe"
        return not repeats and self._has_outputs(attempt.folder)

    def begin(self, attempt: Attempt) -> None:
        task = asyncio.create_task(self._begin(attempt))
        self._collecting.add(task)
        task.add_done_callback(self._collecting.discard)

    async def _begin(self, attempt: Attempt) -> None:
        if not self.bytes_max:
            self._handed_over(attempt, "this control plane keeps no outputs; update it", ())
            return
        try:
            collected = await self._collect(attempt.folder.outputs, self.bytes_max, lambda: not attempt.fenced)
        except GivenUp:
            return
        if attempt.ended:
            return
        if collected.trouble or not collected.found:
            self._handed_over(attempt, collected.trouble, ())
            return
        failed = partial(self._over, attempt)
        ref = attempt.start.ref
        pace = UploadPace(self._transfers, ref.tenant, ref.job, partial(self._mailbox.upload, attempt))
        attempt.upload = Upload(attempt.folder.outputs, collected.found, failed, pace)
        self._mailbox.upload(attempt)

    def kept(self, attempt: Attempt, ack: OutputAck) -> None:
        """The control plane's answer to a piece, or to a report that names a file it does not have."""
        upload = attempt.upload
        if upload is None:
            return
        was_settled = upload.settled
        pause_s = upload.acked(ack)
        if pause_s is not None:
            attempt.later(pause_s, partial(self._again, attempt, upload, ack.sha256))
        if upload.settled and not attempt.ended:
            self._handed_over(attempt, "", upload.files)
        elif attempt.final is not None and was_settled != upload.settled:
            # The final report is sent again once every file it names is stored again.
            self._mailbox.again(attempt.final)
        if attempt.upload is upload:
            self._mailbox.upload(attempt)

    def _again(self, attempt: Attempt, upload: Upload, sha256: str) -> None:
        if attempt.upload is upload:
            upload.again(sha256)
            self._mailbox.upload(attempt)

    def _over(self, attempt: Attempt, trouble: str) -> None:
        self._handed_over(attempt, trouble, ())

    @staticmethod
    def drop(attempt: Attempt) -> None:
        if attempt.upload is not None:
            attempt.upload.close()
            attempt.upload = None
