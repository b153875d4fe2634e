"""Inputs of attempts: the datasets that a job reads, fetched once for all attempts of the node, and shown read-only or
copied."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from ares.agent.attempts.attempt import Attempt
from ares.agent.link.mailbox import Mailbox
from ares.agent.staging.dataset_shelf import DatasetDraft, DatasetShelf, NoRoomHere
from ares.agent.staging.node_environment import folder_at
from ares.agent.staging.stager import Stager, StagingFailed, in_thread
from ares.agent.staging.unpack import NotWanted
from ares.core.dataset import cached_name, variable
from ares.model.job import DataInput, staged_of
from ares.model.link import FetchPiece, Progress, Start
from ares.model.node import CACHED_MAX
from ares.ports.clock import Clock
from ares.ports.executor import Launch, NodeFolder
from ares.ports.link import LinkRefused

# Requests of one dataset under way at once: while one is written, the next is on its way.
_AT_ONCE: Final = 2
_TURNS_MAX: Final = 1000
_SAY_EVERY_BYTES: Final = 256 << 20
# A version that is smaller is fetched so soon that it does not matter where it is.
_WORTH_BYTES: Final = 64 << 20
_TELL_EVERY_S: Final = 1.0


class StagedInputs:
    """One for all attempts of a node. Attempts that read the same version fetch it once."""

    def __init__(self, shelf: DatasetShelf, stager: Stager, mailbox: Mailbox) -> None:
        self._shelf = shelf
        self._stager = stager
        self._mailbox = mailbox
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}
        self._making_room = asyncio.Lock()
        # What keeps the datasets of attempts that have not ended.
        self._pins: dict[Attempt, list[Callable[[], None]]] = {}
        # Set when what is on the shelf may have changed.
        self.stirred = asyncio.Event()

    async def dress(self, attempt: Attempt, launch: Launch) -> Launch:
        """The launch with all inputs in their places. Raises StagingFailed, and NotWanted when the attempt is to
        end."""
        folder, staged = attempt.folder.inputs, staged_of(attempt.start.spec)
        refs = {given.name: given for given in attempt.start.spec.inputs}
        shown = list[NodeFolder]()
        if lacking := next((given for given in refs.values() if given.from_ and given.name not in staged), None):
            raise StagingFailed(
                f"input {lacking.name}: {lacking.from_} was not published when it was released", lasting=True
            )
        name = ""
        try:
            _make(folder)
            for name, sha256 in staged.items():
                found = await self._placed(attempt, refs[name], sha256, launch.uid)
                shown += () if found is None else (found,)
        except StagingFailed as failed:
            raise StagingFailed(f"input {name}: {failed}", lasting=failed.lasting) from None
        except LinkRefused as refused:
            raise StagingFailed(f"input {name} cannot be fetched: {refused}") from None
        except NoRoomHere as full:
            raise StagingFailed(f"input {name} does not fit on this node: {full}") from None
        except OSError as error:
            raise StagingFailed(f"input {name} cannot be kept here: {error.strerror or error}") from None
        named = {variable(name): f"{folder}/{name}" for name in staged}
        env = {**launch.env, **named, "ARES_INPUTS_DIR": folder}
        return msgspec.structs.replace(launch, env=env, shown=(*launch.shown, *dict.fromkeys(shown)))

    async def _placed(self, attempt: Attempt, given: DataInput, sha256: str, uid: int | None) -> NodeFolder | None:
        """Puts an input into its place; the directory that it leads to, None for a copy."""
        tenant, place = attempt.start.ref.tenant, f"{attempt.folder.inputs}/{given.name}"
        self._pins.setdefault(attempt, []).append(self._shelf.pin(tenant, sha256))
        await self.provide(attempt, given.name, sha256)
        files = self._shelf.files(tenant, sha256)
        if given.mode == "copy":
            await in_thread(lambda: _copy(files, place, uid, attempt))
            return None
        os.symlink(files, place)
        return folder_at(files)

    def release(self, attempt: Attempt) -> None:
        """The attempt reads nothing any more."""
        for release in self._pins.pop(attempt, ()):
            release()

    async def provide(self, attempt: Attempt, name: str, sha256: str) -> None:
        """Fetches what the node lacks of a version. Raises as `dress`, and what it catches there."""
        start, tenant = attempt.start, attempt.start.ref.tenant
        async with self._turn(tenant, sha256):
            if await in_thread(lambda: self._shelf.find(tenant, sha256)) is not None:
                return
            manifest = await self._stager.manifest(start, sha256)
            draft = await in_thread(lambda: self._shelf.draft(tenant, sha256, manifest))
            await in_thread(lambda: draft.begin(lambda: not attempt.fenced))
            size = sum(entry.size for entry in manifest.entries)
            lacking = {part: places[0].size for part, places in draft.lacking.items()}
            try:
                with self._shelf.coming(tenant, sha256) as coming:
                    async with self._making_room:
                        await in_thread(lambda: self._shelf.make_room(coming, size, sum(lacking.values())))
                    await self._fill(attempt, name, sha256, draft, lacking)
                    await in_thread(lambda: self._shelf.add(tenant, sha256, draft))
            finally:
                self.stirred.set()

    def _turn(self, tenant: str, sha256: str) -> asyncio.Lock:
        if len(self._turns) > _TURNS_MAX:
            self._turns = {key: lock for key, lock in self._turns.items() if lock.locked()}
        return self._turns.setdefault((tenant, sha256), asyncio.Lock())

    async def _fill(
        self, attempt: Attempt, name: str, sha256: str, draft: DatasetDraft, lacking: dict[str, int]
    ) -> None:
        told = _FetchedBytes(self._mailbox, attempt, name, sum(lacking.values()))
        left = self._stager.requests(attempt.start.ref.tenant, lacking)
        tasks = [asyncio.create_task(self._fetch(attempt.start, sha256, draft, left, told)) for _ in range(_AT_ONCE)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _fetch(
        self, start: Start, sha256: str, draft: DatasetDraft, left: Iterator[dict[str, int]], told: "_FetchedBytes"
    ) -> None:
        for some in left:
            told.check()
            async with contextlib.aclosing(self._stager.parts(start, sha256, some, "data")) as pieces:
                async for piece in pieces:
                    await in_thread(lambda piece=piece: _take(draft, piece))
                    told.add(len(piece.data))

    async def tell(self, clock: Clock) -> None:
        """Tells the control plane which larger versions are here, and again when that changes. Never returns."""
        while True:
            self.stirred.clear()
            held = await in_thread(lambda: list(self._shelf.held()))
            worth = [cached_name(tenant, sha256) for tenant, sha256, size in held if size >= _WORTH_BYTES]
            self._mailbox.cached(tuple(sorted(worth[:CACHED_MAX])))
            await self.stirred.wait()
            await clock.sleep(_TELL_EVERY_S)


class _FetchedBytes:
    """Says how far it is, as what the attempt does now."""

    def __init__(self, mailbox: Mailbox, attempt: Attempt, name: str, total: int) -> None:
        self._mailbox = mailbox
        self._attempt = attempt
        self._name = name
        self._total = total
        self._done = 0
        self._said = -_SAY_EVERY_BYTES

    def check(self) -> None:
        """Raises NotWanted when the attempt was told to end."""
        if self._attempt.fenced:
            raise NotWanted

    def add(self, size: int) -> None:
        self._done += size
        if self._done - self._said >= _SAY_EVERY_BYTES:
            self._said = self._done
            ref, rank = self._attempt.key
            text = f"fetches input {self._name}: {self._done >> 20:,} of {self._total >> 20:,} MiB"
            self._mailbox.progress(Progress(ref=ref, rank=rank, message=text))


def _take(draft: DatasetDraft, piece: FetchPiece) -> None:
    found = hashlib.sha256(piece.data).hexdigest()
    if piece.trouble or found != piece.sha256:
        why = piece.trouble or f"it came with the digest {found}"
        raise StagingFailed(f"part {piece.sha256[:12]} cannot be had: {why}")
    draft.write(piece.sha256, piece.data)


def _make(folder: str) -> None:
    os.mkdir(folder, 0o755)
    # Whatever the umask is: the job's user has to enter it.
    os.chmod(folder, 0o755)


def _copy(files: str, place: str, uid: int | None, attempt: Attempt) -> None:
    """A copy for that user, which shares its blocks with the cache where the disk can. Raises OSError and NotWanted."""
    _make(place)
    made = [place]
    for path, folders, names in os.walk(files):
        target = place + path[len(files) :]
        for name in (*folders, *names):
            if attempt.fenced:
                raise NotWanted
            source, copy = f"{path}/{name}", f"{target}/{name}"
            if os.path.islink(source):
                os.symlink(os.readlink(source), copy)
            elif name in folders:
                os.mkdir(copy, 0o755)
            else:
                _clone(source, copy)
            made.append(copy)
    if uid is not None:
        for path in made:
            os.chown(path, uid, uid, follow_symlinks=False)


def _clone(source: str, copy: str) -> None:
    with open(source, "rb") as reading, open(copy, "xb") as writing:
        left = os.fstat(reading.fileno()).st_size
        while left and (copied := os.copy_file_range(reading.fileno(), writing.fileno(), left)):
            left -= copied
        os.fchmod(writing.fileno(), 0o755 if os.fstat(reading.fileno()).st_mode & 0o100 else 0o644)
