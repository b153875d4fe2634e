"""Restoring: the checkpoint that an attempt goes on from is fetched and verified before the attempt starts."""

import hashlib
import os
import shutil
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from ares.agent.attempts.attempt import Attempt
from ares.agent.link.mailbox import Mailbox
from ares.agent.staging.stager import Fetch, StagingFailed, in_thread
from ares.agent.staging.unpack import NotWanted
from ares.agent.transfer.transfers import CONTROL_PLANE, Transfers
from ares.core.checkpoint import decode_manifest, digest_of, whole_digest
from ares.core.lifecycle.outputs import list_flaw
from ares.model.checkpoint import RESTORE_BYTES_MAX, CheckpointAsk, CheckpointPart, DamageFound, RestorableCheckpoint
from ares.model.link import FetchRequest, Start
from ares.model.state import OutputFile
from ares.ports.clock import Clock
from ares.ports.executor import Launch
from ares.ports.link import LinkBroken, LinkRefused

_log = structlog.get_logger(__name__)

_AGAIN_S: Final = (0.1, 0.3, 1.0, 2.0)
_MANIFEST_BYTES_MAX: Final = 4 << 20
# Of one request of a tenant whose bytes wait for their turn.
_TURN_BYTES: Final = 8 << 20
# Left free on the disk.
_RESERVE_BYTES: Final = 256 << 20
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_listed = msgspec.json.Decoder(tuple[RestorableCheckpoint, ...]).decode


class _Damaged(Exception):
    """The checkpoint is not what was saved, in words."""


class Restorer:
    """One for all attempts of a node."""

    def __init__(self, fetch: Fetch, mailbox: Mailbox, clock: Clock, transfers: Transfers | None = None) -> None:
        self._fetch = fetch
        self._transfers = transfers or Transfers(clock)
        self._mailbox = mailbox
        self._clock = clock

    async def restore(self, attempt: Attempt, launch: Launch) -> Launch:
        """The launch of an attempt that goes on from the newest checkpoint that is whole. Raises StagingFailed, and
        NotWanted when it is to end."""
        start, root = attempt.start, attempt.folder.restore
        try:
            known = await self._known(start)
            for checkpoint in known:
                try:
                    await self._fill(attempt, checkpoint, root, launch.uid)
                except _Damaged as damage:
                    self._tell(attempt, checkpoint, str(damage))
                    await in_thread(lambda: shutil.rmtree(root, ignore_errors=True))
                    if start.spec.gang is not None:
                        # Its ranks must go on from the same: the next attempt leaves this one out.
                        what = f"checkpoint {checkpoint.pointer.seq} is damaged: {damage}"
                        raise StagingFailed(f"{what}; the next attempt goes on from an older one") from None
                else:
                    return _going_on(launch, checkpoint, root)
        except LinkRefused as refused:
            raise StagingFailed(f"its checkpoint cannot be fetched: {refused}") from None
        except OSError as error:
            raise StagingFailed(f"its checkpoint cannot be kept here: {error.strerror or error}") from None
        return self._without(attempt, launch, len(known))

    async def _known(self, start: Start) -> tuple[RestorableCheckpoint, ...]:
        """A list that cannot be read says nothing about the checkpoints: another attempt asks again."""
        try:
            return _listed(await self._all(start, CheckpointAsk(), _MANIFEST_BYTES_MAX))
        except (_Damaged, ValueError) as error:
            raise StagingFailed(f"the list of its checkpoints cannot be read: {error}") from None

    @staticmethod
    def _without(attempt: Attempt, launch: Launch, tried: int) -> Launch:
        policy = attempt.start.spec.checkpoint
        what = "none of its checkpoints is whole any more" if tried else "it has no checkpoint that is whole"
        if policy is not None and policy.required:
            raise StagingFailed(f"{what}, and it requires one (checkpoint.required)", lasting=True)
        attempt.remark = "; ".join(text for text in (attempt.remark, f"{what}: it begins anew") if text)
        return launch

    def _tell(self, attempt: Attempt, checkpoint: RestorableCheckpoint, why: str) -> None:
        (ref, rank), found = attempt.key, checkpoint.pointer
        _log.warning("checkpoint.damaged", job=ref.job, seq=found.seq, fence=str(found.fence), why=why)
        number = self._mailbox.outbox.number()
        self._mailbox.report(DamageFound(number=number, ref=ref, rank=rank, checkpoint=found.id, reason=why))

    # ---- one checkpoint

    async def _fill(self, attempt: Attempt, checkpoint: RestorableCheckpoint, root: str, uid: int | None) -> None:
        """Makes its files below `root`; those of several ranks in `rank-N/` each."""
        start, parts = attempt.start, checkpoint.parts
        pointer = checkpoint.pointer
        if not parts or (checkpoint.ranks == 1 and whole_digest(parts) != pointer.manifest):
            raise _Damaged("its list of files is not the one that was saved")
        size = sum(part.size for part in parts)
        free = shutil.disk_usage(attempt.folder.path).free
        if free - size < _RESERVE_BYTES:
            raise StagingFailed(
                f"its checkpoint needs {size >> 20:,} MiB of this node's disk, and {free >> 20:,} MiB are free"
            )
        os.mkdir(root, 0o700)
        many = len(parts) > 1
        for part in parts:
            files = await self._manifest(start, checkpoint, part)
            folder = f"{root}/rank-{part.rank}" if many else root
            for file in files:
                if attempt.fenced:
                    raise NotWanted
                await self._file(attempt, checkpoint, file, f"{folder}/{file.path}")
        if uid is not None:
            await in_thread(lambda: _give_to(root, uid))

    async def _manifest(
        self, start: Start, checkpoint: RestorableCheckpoint, part: CheckpointPart
    ) -> tuple[OutputFile, ...]:
        ask = CheckpointAsk(checkpoint=checkpoint.pointer.id, sha256=part.manifest, length=_MANIFEST_BYTES_MAX)
        data = await self._all(start, ask, _MANIFEST_BYTES_MAX)
        if digest_of(data) != part.manifest:
            raise _Damaged(f"the list of the files of rank {part.rank} has the digest {digest_of(data)[:12]}")
        try:
            files = decode_manifest(data)
        except ValueError as error:
            raise _Damaged(f"the list of its files cannot be read: {error}") from None
        if flaw := list_flaw(files):
            raise _Damaged(flaw)
        return files

    async def _file(self, attempt: Attempt, checkpoint: RestorableCheckpoint, file: OutputFile, path: str) -> None:
        await in_thread(lambda: os.makedirs(os.path.dirname(path), 0o700, exist_ok=True))
        target, digest, at = os.open(path, _NEW, 0o600), hashlib.sha256(), 0
        tenant = attempt.start.ref.tenant

        def take(data: bytes) -> None:
            digest.update(data)
            left = memoryview(data)
            while left:
                left = left[os.write(target, left) :]

        try:
            while at < file.size:
                most = _TURN_BYTES if self._transfers.limited(tenant) else RESTORE_BYTES_MAX
                length = min(most, file.size - at)
                await self._transfers.take(tenant, "checkpoint", length)
                ask = CheckpointAsk(checkpoint=checkpoint.pointer.id, sha256=file.sha256, offset=at, length=length)
                came = await self._pieces(attempt.start, ask, length, take, lambda: not attempt.fenced)
                if came < length:
                    raise _Damaged(f"{file.path!r} has {at + came:,} bytes, not {file.size:,}")
                at += came
        finally:
            os.close(target)
        if digest.hexdigest() != file.sha256:
            raise _Damaged(f"{file.path!r} has the digest {digest.hexdigest()[:12]}, not {file.sha256[:12]}")

    # ---- asking

    async def _all(self, start: Start, ask: CheckpointAsk, limit: int) -> bytes:
        found = bytearray()
        await self._pieces(start, ask, limit, found.extend, lambda: True)
        return bytes(found)

    async def _pieces(
        self, start: Start, ask: CheckpointAsk, limit: int, take: Callable[[bytes], None], wanted: Callable[[], bool]
    ) -> int:
        """Hands over what comes, in order, and asks for the rest again while the connection breaks. Returns how many
        bytes came."""
        came, pauses = 0, list(_AGAIN_S)
        while True:
            rest = msgspec.structs.replace(ask, offset=ask.offset + came, length=min(ask.length, limit) - came)
            request = FetchRequest(ref=start.ref, rank=start.placement.rank, checkpoint=rest)
            turn = self._transfers.turn(start.ref.tenant, CONTROL_PLANE, job=start.ref.job, failures=(LinkBroken,))
            try:
                async with turn:
                    async for piece in self._fetch(request):
                        if not wanted():
                            raise NotWanted
                        if piece.trouble:
                            raise _Damaged(f"a file of it cannot be had: {piece.trouble}")
                        came += len(piece.data)
                        if came > limit:
                            raise _Damaged("more came than was asked for")
                        await in_thread(lambda data=piece.data: take(data))
            except LinkBroken as error:
                _log.warning("restore.again", job=start.ref.job, why=str(error))
                if not pauses:
                    raise StagingFailed(f"its checkpoint cannot be fetched: {error}") from None
                await self._clock.sleep(pauses.pop(0))
            else:
                return came


def _going_on(launch: Launch, checkpoint: RestorableCheckpoint, root: str) -> Launch:
    pointer = checkpoint.pointer
    told = {
        "ARES_RESTORE_DIR": root,
        "ARES_RESTORE_SEQ": str(pointer.seq),
        "ARES_RESTORE_STEP": str(pointer.step),
        "ARES_RESTORE_RANKS": str(checkpoint.ranks),
        "ARES_RESTORE_ID": f"{pointer.id}/{pointer.manifest}",
    }
    return msgspec.structs.replace(launch, env={**launch.env, **told})


def _give_to(root: str, uid: int) -> None:
    for folder, _, names in os.walk(root):
        os.chown(folder, uid, uid, follow_symlinks=False)
        for name in names:
            os.chown(f"{folder}/{name}", uid, uid, follow_symlinks=False)
