"""Shipping a project: its manifest first, then the parts that the server lacks, then the manifest again."""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Lock
from typing import TypeVar

from msgspec import Struct

from ares.api.projects import PartsKept, ProjectAnswer
from ares.edge.client.brief import Sender
from ares.edge.client.calls.calls import JSON, Call, Request
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.digests import DigestMemory, OnBytes
from ares.edge.client.project.environment import PythonFiles
from ares.edge.client.project.pack import LIMIT_BYTES, Ask, Packed, directory_of, pack, packed
from ares.edge.client.project.scan import chosen
from ares.edge.client.units import memory_mib

# ---- work beside the client. Threads and asyncio are loaded when they are used: most commands ship nothing new.


T = TypeVar("T")
# Requests under way at once: while the server writes one, the next is on its way.
_AT_ONCE = 3


class WorkAside:
    """Of the blocking client."""

    @staticmethod
    def run(work: Callable[[], T]) -> T:
        return work()

    @staticmethod
    def together(work: Callable[[], None]) -> None:
        """Several threads do it; the first failure is raised."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_AT_ONCE, "shipping") as pool:
            for turn in [pool.submit(work) for _ in range(_AT_ONCE)]:
                turn.result()


class AsyncWorkAside:
    """Of the asynchronous client."""

    @staticmethod
    async def run(work: Callable[[], T]) -> T:
        import asyncio

        return await asyncio.to_thread(work)

    @staticmethod
    async def together(work: Callable[[], Awaitable[None]]) -> None:
        """Several tasks do it; the first failure is raised."""
        import asyncio

        turns = [asyncio.ensure_future(work()) for _ in range(_AT_ONCE)]
        try:
            await asyncio.gather(*turns)
        finally:
            for turn in turns:
                turn.cancel()


# ---- shipping


_BYTES = (("content-type", "application/octet-stream"),)
Directory = str | os.PathLike[str]


class Shipped(Struct, frozen=True):
    """A project that the server keeps. `sha256` is the `project` of jobs that start with it."""

    sha256: str
    directory: str
    files: int
    size: int
    # What had to be sent.
    sent: int
    warnings: tuple[str, ...] = ()


def offer(manifest: bytes) -> Call[ProjectAnswer]:
    return Call(Request("POST", "/v1/projects", (), manifest, JSON), ProjectAnswer)


def parts(body: bytes) -> Call[PartsKept]:
    return Call(Request("POST", "/v1/projects/parts", (), body, _BYTES), PartsKept)


def packed_of(directory: Directory, limit: str | int | None, ask: Ask | None, on_read: OnBytes) -> Packed:
    """`limit` is 4G, or a number of bytes; None is the usual one."""
    root = directory_of(directory)
    if root is None:
        raise InvalidSpec("there is nothing to ship", fix="name a directory")
    most = LIMIT_BYTES if limit is None else limit if isinstance(limit, int) else memory_mib(limit) << 20
    return pack(root, limit=most, ask=ask, on_bytes=on_read)


def packed_files(files: PythonFiles, ask: Ask | None, on_read: OnBytes) -> Packed:
    return packed(chosen(files.root, files.paths), DigestMemory(str(files.root)), LIMIT_BYTES, ask, on_read)


class ShipProgress:
    """What is sent of a packed project, request by request. Several take turns; after a failure there is no next."""

    def __init__(self, packed: Packed, missing: tuple[str, ...], on_bytes: OnBytes) -> None:
        self._packed = packed
        self._left = packed.requests(missing)
        self._on_bytes = on_bytes
        self._lock = Lock()
        self.sent = 0

    def next(self) -> tuple[str, ...] | None:
        with self._lock:
            return next(self._left, None)

    def stop(self) -> None:
        with self._lock:
            self._left = iter(())

    def call(self, some: tuple[str, ...]) -> Call[PartsKept]:
        return parts(self._packed.body(some))

    def kept(self, some: tuple[str, ...], call: Call[PartsKept], answer: PartsKept) -> None:
        self._packed.check(some, answer.kept)
        size = len(call.request.body or b"")
        with self._lock:
            self.sent += size
        self._on_bytes(size)

    def send_all(self, sender: Sender) -> None:
        """From the command line, in one of several threads."""
        try:
            while (some := self.next()) is not None:
                call = self.call(some)
                self.kept(some, call, sender.send(call))
        except BaseException:
            self.stop()
            raise

    def shipped(self, answer: ProjectAnswer) -> Shipped:
        if not answer.kept:
            raise InvalidSpec(f"{len(answer.missing):,} parts of the project are still missing", fix="submit again")
        packed = self._packed
        return Shipped(answer.sha256, packed.root, packed.files, packed.size, self.sent, packed.warnings)


def ship(sender: Sender, packed: Packed, on_sent: OnBytes) -> Shipped:
    """Sends what is missing, from the command line."""
    answer = sender.send(offer(packed.manifest))
    progress = ShipProgress(packed, answer.missing, on_sent)
    if answer.missing:
        WorkAside.together(partial(progress.send_all, sender))
        answer = sender.send(offer(packed.manifest))
    return progress.shipped(answer)
