"""Output files of pods: taken from their helpers onto the agent's disk, and from there sent as every node's are.

What was kept is written down before the helper is let go: an agent that starts anew reports it, too.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from ares.agent.attempts.exits import unkept
from ares.agent.files.outputs import GivenUp, collect
from ares.agent.files.upload import Upload
from ares.agent.kube.pod_attempt import PodAttempt
from ares.agent.link.mailbox import Mailbox
from ares.agent.transfer.transfers import Transfers
from ares.agent.transfer.upload_pace import UploadPace
from ares.core.kube.ending import PodEnd
from ares.core.lifecycle.outputs import FILES_MAX, path_flaw
from ares.model.link import OutputAck
from ares.model.state import OutputFile
from ares.ports.kubernetes import PodFile

_files = msgspec.json.Decoder(tuple[OutputFile, ...])


class _UnfitFiles(Exception):
    """They cannot be kept, in words."""


class PodOutputs:
    def __init__(self, folder: Path, mailbox: Mailbox, transfers: Transfers) -> None:
        self._folder, self._mailbox, self._transfers = folder, mailbox, transfers
        # The limit that the control plane gave at the welcome. 0: none is known yet.
        self.bytes_max = 0

    def _root(self, attempt: PodAttempt) -> Path:
        return self._folder / attempt.name

    def _list(self, attempt: PodAttempt) -> Path:
        return self._folder / f"{attempt.name}.json"

    async def take(self, attempt: PodAttempt, files: AsyncIterator[PodFile]) -> None:
        root = self._root(attempt)
        await asyncio.to_thread(_emptied, root)
        try:
            await self._write(root, files)
            found = await collect(str(root), self.bytes_max, lambda: not attempt.fenced)
        except (_UnfitFiles, OSError) as error:
            self._over(attempt, str(error))
            return
        except GivenUp:
            return
        if found.trouble:
            self._over(attempt, found.trouble)
        elif not found.found:
            self._settled(attempt, ())
        else:
            ref = attempt.claim.ref
            pace = UploadPace(self._transfers, ref.tenant, ref.job, partial(self._mailbox.upload, attempt))
            attempt.upload = Upload(str(root), found.found, partial(self._over, attempt), pace)
            self._mailbox.upload(attempt)

    async def _write(self, root: Path, files: AsyncIterator[PodFile]) -> None:
        written = count = 0
        open_file: BinaryIO | None = None
        try:
            async for piece in files:
                written, count = written + len(piece.data), count + piece.first
                if piece.trouble:
                    raise _UnfitFiles(piece.trouble)
                if flaw := path_flaw(piece.path):
                    raise _UnfitFiles(f"{piece.path[:200]!r}: {flaw}")
                if written > self.bytes_max or count > FILES_MAX:
                    raise _UnfitFiles(f"they take more than {self.bytes_max:,} bytes, or are more than {FILES_MAX:,}")
                if piece.first:
                    if open_file is not None:
                        open_file.close()
                    open_file = _begun(root / piece.path)
                if open_file is None:
                    raise _UnfitFiles("a piece came before its file")
                await asyncio.to_thread(open_file.write, piece.data)
        finally:
            if open_file is not None:
                open_file.close()

    # ---- answers of the control plane

    def kept(self, attempt: PodAttempt, ack: OutputAck) -> None:
        upload = attempt.upload
        if upload is None:
            return
        was_settled = upload.settled
        pause_s = upload.acked(ack)
        if pause_s is not None:
            asyncio.get_running_loop().call_later(pause_s, self._again, attempt, upload, ack.sha256)
        if upload.settled and attempt.kept_files is None:
            self._settled(attempt, upload.files)
        elif attempt.final is not None and was_settled != upload.settled:
            self._mailbox.again(attempt.final)
        if attempt.upload is upload:
            self._mailbox.upload(attempt)

    def _again(self, attempt: PodAttempt, upload: Upload, sha256: str) -> None:
        if attempt.upload is upload:
            upload.again(sha256)
            self._mailbox.upload(attempt)

    def _over(self, attempt: PodAttempt, trouble: str) -> None:
        attempt.unkept = trouble or "no reason was given"
        attempt.turn()

    def _settled(self, attempt: PodAttempt, files: tuple[OutputFile, ...]) -> None:
        draft = self._list(attempt).with_suffix(".new")
        draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(files))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._list(attempt))
        attempt.kept_files = files
        attempt.turn()

    def judged(self, attempt: PodAttempt, end: PodEnd) -> PodEnd:
        """A success whose files are not all kept is none."""
        if not attempt.claim.token_sha256 or end.kind != "exited" or end.exit.failure is not None or attempt.fenced:
            return end
        attempt.kept_files = self._known(attempt)
        if attempt.kept_files is not None:
            return end
        why = attempt.unkept or "its helper ended before it handed them over"
        return msgspec.structs.replace(end, exit=unkept(end.exit, f"its outputs cannot be kept: {why}"))

    def _known(self, attempt: PodAttempt) -> tuple[OutputFile, ...] | None:
        """What was handed over, by this agent or an earlier one; None: nothing, as far as is known."""
        if attempt.kept_files is not None:
            return attempt.kept_files
        try:
            return _files.decode(self._list(attempt).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None

    def drop(self, attempt: PodAttempt) -> None:
        if attempt.upload is not None:
            attempt.upload.close()
            attempt.upload = None
        if attempt.claim.token_sha256:
            shutil.rmtree(self._root(attempt), ignore_errors=True)
            self._list(attempt).unlink(missing_ok=True)


def _emptied(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(mode=0o700, parents=True)


def _begun(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
