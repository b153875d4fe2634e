"""Staging: what the node's cache lacks of a project is fetched, then the project is unpacked for the attempt."""

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import structlog

from ares.agent.staging.cache import NodeCache
from ares.agent.staging.unpack import NotWanted, unpack
from ares.agent.transfer.transfers import CONTROL_PLANE, Transfers
from ares.api.projects import ProjectManifest
from ares.core.project import ManifestFlaw, parts_of, read_manifest
from ares.model.link import FETCH_PARTS_MAX, FetchPiece, FetchRequest, Start
from ares.model.quota import TransferKind
from ares.ports.clock import Clock
from ares.ports.link import LinkBroken, LinkRefused

_log = structlog.get_logger(__name__)

T = TypeVar("T")
# Of one request: when the connection breaks, no more than that is fetched again.
_FETCH_BYTES: Final = 64 << 20
# Of one request of a tenant whose bytes wait for their turn: a part is not larger.
_TURN_BYTES: Final = 8 << 20
_AGAIN_S: Final = (0.1, 0.3, 1.0, 2.0)
# Left free on the disk, beside what the project takes: once in the cache, and once in the attempt's directory.
_RESERVE_BYTES: Final = 256 << 20
_TURNS_MAX: Final = 1000
# The control plane has a bound of its own; this one only keeps sums small.
_PROJECT_BYTES_MAX: Final = 1 << 50

# Pieces that were asked for, in order. Raises LinkBroken when it may be tried again, and LinkRefused when not.
Fetch = Callable[[FetchRequest], AsyncIterator[FetchPiece]]


class StagingFailed(Exception):
    """The attempt cannot have what it needs, in words. `lasting`: that would be so again, on any node."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class Stager:
    """One for all attempts of a node. Attempts of one project that start together fetch its files once."""

    def __init__(self, cache: NodeCache, fetch: Fetch, clock: Clock, transfers: Transfers | None = None) -> None:
        self._cache = cache
        self._fetch = fetch
        self._clock = clock
        self._transfers = transfers or Transfers(clock)
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}
        self._adding = asyncio.Lock()

    async def stage(
        self, start: Start, root: str, uid: int | None, wanted: Callable[[], bool], named: str | None = None
    ) -> None:
        """Makes the job's project below `root`, or another one that it names. Raises StagingFailed, and NotWanted when
        the attempt is to end."""
        project = named or start.spec.project
        assert project is not None, "only a job with a project is staged"
        try:
            async with self.fetched(start, project, wanted) as (manifest, cached):
                await in_thread(lambda: unpack(manifest, cached, root, uid, wanted))
        except OSError as error:
            raise StagingFailed(f"the project cannot be unpacked here: {error.strerror or error}") from None

    @contextlib.asynccontextmanager
    async def fetched(
        self, start: Start, project: str, wanted: Callable[[], bool]
    ) -> AsyncGenerator[tuple[ProjectManifest, Path]]:
        """The manifest of a project that the job names, and the folder with all its parts, which stay during the block.
        Raises StagingFailed and NotWanted."""
        tenant = start.ref.tenant
        try:
            async with self._turn(tenant, project):
                manifest = await self.manifest(start, project)
                parts = dict(parts_of(manifest))
                with self._cache.pinned(tenant, parts):
                    await self._fill(start, project, parts, manifest, wanted)
        except LinkRefused as refused:
            raise StagingFailed(f"the project cannot be fetched: {refused}") from None
        except OSError as error:
            raise StagingFailed(f"the project cannot be kept here: {error.strerror or error}") from None
        with self._cache.pinned(tenant, parts) as cached:
            yield manifest, cached

    def _turn(self, tenant: str, project: str) -> asyncio.Lock:
        if len(self._turns) > _TURNS_MAX:
            self._turns = {key: lock for key, lock in self._turns.items() if lock.locked()}
        return self._turns.setdefault((tenant, project), asyncio.Lock())

    async def manifest(self, start: Start, project: str) -> ProjectManifest:
        """Raises StagingFailed, LinkRefused and OSError."""
        tenant = start.ref.tenant
        raw = await in_thread(lambda: self._known(tenant, project))
        if raw is None:
            async with contextlib.aclosing(self._pieces(start, project, ())) as pieces:
                piece = await anext(pieces)
            if hashlib.sha256(piece.data).hexdigest() != project:
                raise StagingFailed("the manifest that came is not the one that was asked for")
            raw = piece.data
            await self._add(tenant, piece)
        try:
            return await in_thread(lambda: read_manifest(raw, _PROJECT_BYTES_MAX))
        except ManifestFlaw as flaw:
            raise StagingFailed(f"its files cannot be unpacked: {flaw}", lasting=True) from None

    def _known(self, tenant: str, project: str) -> bytes | None:
        """The manifest in the cache. A damaged one is fetched again, and replaced."""
        raw = self._cache.read(tenant, project)
        return raw if raw is not None and hashlib.sha256(raw).hexdigest() == project else None

    async def _fill(
        self,
        start: Start,
        project: str,
        parts: dict[str, int],
        manifest: ProjectManifest,
        wanted: Callable[[], bool],
    ) -> None:
        """Fetches what is not in the cache."""
        tenant = start.ref.tenant
        lacking = await in_thread(lambda: self._cache.lacking(tenant, parts))
        needed = sum(entry.size for entry in manifest.entries) + sum(lacking.values())
        free = self._cache.free_bytes()
        if free - needed < _RESERVE_BYTES:
            raise StagingFailed(
                f"it needs {needed >> 20:,} MiB of this node's disk for its files, and {free >> 20:,} MiB are free"
            )
        for some in self.requests(tenant, lacking):
            if not wanted():
                raise NotWanted
            async with contextlib.aclosing(self.parts(start, project, some)) as pieces:
                async for piece in pieces:
                    await self._add(tenant, piece)

    async def _add(self, tenant: str, piece: FetchPiece) -> None:
        async with self._adding:
            await in_thread(lambda: self._take(tenant, piece))

    def _take(self, tenant: str, piece: FetchPiece) -> None:
        found = hashlib.sha256(piece.data).hexdigest()
        if piece.trouble or found != piece.sha256:
            why = piece.trouble or f"it came with the digest {found}"
            raise StagingFailed(f"part {piece.sha256[:12]} of its files cannot be had: {why}")
        self._cache.add(tenant, piece.sha256, piece.data)

    def requests(self, tenant: str, parts: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Parts that are asked for together, with their sizes. A tenant that has to wait for its turn asks for no more
        than it may have then."""
        most = _TURN_BYTES if self._transfers.limited(tenant) else _FETCH_BYTES
        return ({sha256: parts[sha256] for sha256 in some} for some in _requests(parts, most))

    async def parts(
        self, start: Start, project: str, sizes: Mapping[str, int], kind: TransferKind = "fetch"
    ) -> AsyncGenerator[FetchPiece]:
        """Parts with these sizes, when it is the tenant's turn, each as it comes. Raises StagingFailed and
        LinkRefused."""
        await self._transfers.take(start.ref.tenant, kind, sum(sizes.values()))
        async with contextlib.aclosing(self._pieces(start, project, tuple(sizes))) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(self, start: Start, project: str, parts: tuple[str, ...]) -> AsyncGenerator[FetchPiece]:
        """The pieces of one request. When the connection breaks, those that did not come are asked for again."""
        tenant, pauses_s, came = start.ref.tenant, iter(_AGAIN_S), 0
        while True:
            request = FetchRequest(ref=start.ref, rank=start.placement.rank, parts=parts[came:], project=project)
            try:
                async with self._transfers.turn(tenant, CONTROL_PLANE, job=start.ref.job, failures=(LinkBroken,)):
                    async for piece in self._fetch(request):
                        if parts and (came == len(parts) or piece.sha256 != parts[came]):
                            raise LinkBroken("parts came that were not asked for")
                        came, pauses_s = came + 1, iter(_AGAIN_S)
                        yield piece
                    if came < max(1, len(parts)):
                        raise LinkBroken(f"{came} of {len(parts)} parts came")
                return
            except LinkBroken as error:
                _log.warning("staging.again", job=start.ref.job, why=str(error))
                # Files that no attempt of the tenant can have now are waited for.
                if self._transfers.stays_away(tenant, CONTROL_PLANE):
                    continue
                if (pause_s := next(pauses_s, None)) is None:
                    raise StagingFailed(f"its files cannot be fetched: {error}") from None
                await self._clock.sleep(pause_s)


def _requests(parts: Mapping[str, int], bytes_max: int) -> Iterator[tuple[str, ...]]:
    some, size = list[str](), 0
    for sha256, own in parts.items():
        if some and (size + own > bytes_max or len(some) == FETCH_PARTS_MAX):
            yield tuple(some)
            some, size = [], 0
        some.append(sha256)
        size += own
    if some:
        yield tuple(some)


async def in_thread(work: Callable[[], T], pool: Executor | None = None) -> T:
    """Runs it in a thread. A task that is cancelled meanwhile waits for its end: it must not go on behind its back.

    `pool`: for work that waits for a server which a job has named. The usual threads are few and all tenants' own."""
    running = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait((running,))
        if not running.cancelled():
            running.exception()
        raise


class TenantTurns:
    """So many at once of each tenant: no tenant waits for the work of another."""

    def __init__(self, each_max: int) -> None:
        self._each_max = each_max
        # Of tenants that have or await a turn.
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._here: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, tenant: str) -> AsyncGenerator[None]:
        turn = self._turns.setdefault(tenant, asyncio.Semaphore(self._each_max))
        self._here[tenant] += 1
        try:
            async with turn:
                yield
        finally:
            self._here[tenant] -= 1
            if not self._here[tenant]:
                del self._here[tenant], self._turns[tenant]


class TenantThreads:
    """Threads for work that waits at what a job has named: a registry, a directory on a file system that hangs. Each
    piece of work has a thread of its own, and the threads of one tenant are bounded."""

    def __init__(self, each_max: int) -> None:
        self._turns = TenantTurns(each_max)
        self._looking: set[asyncio.Task[object]] = set()

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        async with self._turns.turn(tenant):
            pool = ThreadPoolExecutor(1, "staging")
            try:
                return await in_thread(work, pool)
            finally:
                pool.shutdown(wait=False)

    async def look(self, tenant: str, work: Callable[[], T]) -> T:
        """Runs what changes nothing. A task that is cancelled does not wait for its end; its thread still counts."""
        looking = asyncio.create_task(self.run(tenant, work))
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)
        try:
            return await asyncio.shield(looking)
        except asyncio.CancelledError:
            looking.cancel()
            raise
