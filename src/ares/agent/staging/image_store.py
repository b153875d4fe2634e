"""Images that this node has unpacked: `cache/<tenant>/images/<digest>/root`, bounded, the longest unused removed first.

Tenants share nothing: an image that is there at once would tell of another tenant's work, and its files belong to the
tenant's user.
"""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from ares.agent.helper.orders import ABOVE_ARES
from ares.agent.staging.stager import StagingFailed, TenantTurns
from ares.agent.staging.unpack import NotWanted
from ares.core.image.layout import ImageConfig, RunConfig
from ares.core.image.run import ImageUser

_log = structlog.get_logger(__name__)

Wanted = Callable[[], bool]
_IMAGES: Final = "images"
_ROOT: Final = "root"
_RECORD: Final = "image.json"
_DRAFT: Final = ".draft-"
_LOOK_S: Final = 0.1
_UNPACKER: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); from ares.agent.staging.image_unpacker import main; main()"
)
# Of one tenant: each takes a core, and a huge one takes long.
_AT_ONCE: Final = 2
_TURNS_KEPT: Final = 1000


class ImageLimits(msgspec.Struct, frozen=True):
    # Of all images on the node.
    bytes_max: int = 20 << 30
    files_max: int = 2_000_000
    # Of one, unpacked.
    image_bytes_max: int = 20 << 30
    image_files_max: int = 500_000


class ImageTerms(msgspec.Struct, frozen=True):
    """What the operator allows."""

    # Directories below which unpacked images lie that jobs may name.
    roots: tuple[str, ...] = ()
    # Ares' own files, which no image may hold.
    own: tuple[str, ...] = ()


class LayerFiles(msgspec.Struct, frozen=True):
    """A layer as it came: files that make it up in order, its digest and size, and the digest it has unpacked."""

    files: tuple[str, ...]
    digest: str
    size: int
    diff_id: str


class UnpackedImage(msgspec.Struct, frozen=True):
    """What is recorded of an image beside its files."""

    fingerprint: str
    files: int
    bytes: int
    run: RunConfig
    user: ImageUser


class ImageStore:
    """What is pinned is changed by the agent's loop alone; files are made and removed in threads."""

    def __init__(self, root: Path, limits: ImageLimits) -> None:
        self._root = root
        self.limits = limits
        self._pinned: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}
        self._working = TenantTurns(_AT_ONCE)
        # Those whose files were found as they were made, since this agent began.
        self._sound: set[str] = set()
        self._numbers = itertools.count()

    def open(self) -> None:
        """Removes what an agent that was killed had not finished."""
        for path in self._root.glob(f"*/{_IMAGES}/{_DRAFT}*"):
            _remove(path)

    def folder(self, tenant: str, digest: str) -> Path:
        return self._root / tenant / _IMAGES / digest.removeprefix("sha256:")

    def root(self, tenant: str, digest: str) -> str:
        return str(self.folder(tenant, digest) / _ROOT)

    @contextlib.contextmanager
    def pinned(self, tenant: str, digest: str) -> Generator[None]:
        """The image is not removed during the block."""
        key = str(self.folder(tenant, digest))
        self._pinned[key] += 1
        try:
            yield
        finally:
            self._pinned[key] -= 1
            self._pinned = +self._pinned

    def turn(self, tenant: str, digest: str) -> asyncio.Lock:
        """Attempts of one image that start together unpack it once."""
        if len(self._turns) > _TURNS_KEPT:
            self._turns = {key: turn for key, turn in self._turns.items() if turn.locked()}
        return self._turns.setdefault(str(self.folder(tenant, digest)), asyncio.Lock())

    async def find(self, tenant: str, digest: str, uid: int | None) -> UnpackedImage | None:
        """The image, if it is here and as it was made. The caller has its turn and a pin."""
        folder = self.folder(tenant, digest)
        try:
            record = msgspec.json.decode((folder / _RECORD).read_bytes(), type=UnpackedImage)
            os.utime(folder / _RECORD)
        except (OSError, msgspec.MsgspecError):
            return None
        if str(folder) in self._sound:
            return record
        seen = await self._run(
            tenant, {"root": str(folder / _ROOT), "uid": uid, "layers": [], "user": ""}, lambda: True
        )
        if seen.get("fingerprint") != record.fingerprint:
            _log.warning("image.damaged", digest=digest, tenant=tenant)
            return None
        self._sound.add(str(folder))
        return record

    async def add(
        self,
        tenant: str,
        digest: str,
        config: ImageConfig,
        layers: Sequence[LayerFiles],
        uid: int | None,
        wanted: Wanted,
    ) -> UnpackedImage:
        """Unpacks an image, whole or not at all. Raises StagingFailed, NotWanted and OSError."""
        folder, run = self.folder(tenant, digest), config.config or RunConfig()
        draft = folder.with_name(f"{_DRAFT}{next(self._numbers)}-{folder.name}")
        await asyncio.to_thread(_prepare, draft, uid)
        try:
            asked = {
                "root": str(draft / _ROOT), "uid": uid, "user": run.user or "",
                "layers": [msgspec.to_builtins(layer) for layer in layers],
                "bytes_max": self.limits.image_bytes_max, "entries_max": self.limits.image_files_max,
            }  # fmt: skip
            made = await self._run(tenant, asked, wanted)
            if "trouble" in made:
                raise StagingFailed(f"the image cannot be used: {made['trouble']}")
            if "flaw" in made:
                raise StagingFailed(f"the image cannot be used: {made['flaw']}", lasting=True)
            record = UnpackedImage(
                made["fingerprint"], made["files"], made["bytes"], run, ImageUser(made["name"], made["home"])
            )
            await asyncio.to_thread(self._take, draft, folder, record)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_remove, draft))
            raise
        self._sound.add(str(folder))
        return record

    def _take(self, draft: Path, folder: Path, record: UnpackedImage) -> None:
        (draft / _RECORD).write_bytes(msgspec.json.encode(record))
        self._make_room(record)
        if folder.exists():
            # It was damaged. Attempts that run in it keep what they have open.
            _remove(folder)
        draft.rename(folder)

    def _make_room(self, new: UnpackedImage) -> None:
        """Removes the longest unused until all fit."""
        found = list[tuple[int, Path, UnpackedImage]]()
        for path in self._root.glob(f"*/{_IMAGES}/*/{_RECORD}"):
            if path.parent.name.startswith("."):
                continue
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                record = msgspec.json.decode(path.read_bytes(), type=UnpackedImage)
                found.append((path.stat().st_mtime_ns, path.parent, record))
        size = new.bytes + sum(record.bytes for _, _, record in found)
        files = new.files + sum(record.files for _, _, record in found)
        for _, folder, record in sorted(found, key=lambda image: image[0]):
            if size <= self.limits.bytes_max and files <= self.limits.files_max:
                break
            if not self._pinned[str(folder)]:
                _remove(folder)
                self._sound.discard(str(folder))
                size, files = size - record.bytes, files - record.files

    async def _run(self, tenant: str, asked: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
        """Runs the unpacker, with nothing of the agent's own environment; ends it when the attempt is told to end."""
        argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _UNPACKER, ABOVE_ARES]
        pipe = asyncio.subprocess.PIPE
        async with self._working.turn(tenant):
            process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe, env={}, cwd="/")
            talk = asyncio.ensure_future(process.communicate(json.dumps(asked).encode()))
            try:
                while not (await asyncio.wait((talk,), timeout=_LOOK_S))[0]:
                    if not wanted():
                        raise NotWanted
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await asyncio.shield(asyncio.gather(talk, return_exceptions=True))
        return _answer(*talk.result(), process.returncode)


def _answer(out: bytes, err: bytes, code: int | None) -> dict[str, Any]:
    try:
        return json.loads(out)
    except ValueError:
        why = err.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {code}"
        raise StagingFailed(f"the image cannot be unpacked here: {why}") from None


def _prepare(draft: Path, uid: int | None) -> None:
    root = draft / _ROOT
    root.mkdir(mode=0o755, parents=True)
    draft.chmod(0o700)
    if uid is not None:
        os.chown(root, uid, uid)


def _remove(folder: Path) -> None:
    """Every directory in it lets its owner in."""
    shutil.rmtree(folder, ignore_errors=True)
