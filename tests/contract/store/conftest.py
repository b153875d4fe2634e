"""The stores under contract: each test gets all three, with a key prefix of its own."""

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Before grpc is imported: its fork handlers crash children that tests start while calls are under way.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc.aio
import pytest

from ares.adapters.store.etcd import EtcdStore
from ares.adapters.store.etcd.pb import rpc_pb2
from ares.adapters.store.memory import MemoryStore
from ares.adapters.store.sqlite import SqliteStore
from ares.ports.store import Store
from tests.servers import EtcdServer

KINDS = ("memory", "sqlite", "etcd")
_numbers = itertools.count(1)


class SystemClock:
    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Subject:
    """A store under test. `forget` makes it lose its watch history, in the way that adapter does."""

    kind: str
    store: Store
    prefix: str
    forget: Callable[[], Awaitable[None]]

    def key(self, name: object) -> str:
        return f"{self.prefix}{name}"


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """One real etcd for this worker's whole session."""
    if shutil.which("etcd") is None:
        pytest.fail("etcd is not installed: apt-get install etcd-server (make test does it when root)")
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
def prefix() -> str:
    return f"/test/{next(_numbers)}-{time.time_ns()}/"


async def compact(endpoint: str, revision: int) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        call = channel.unary_unary(
            "/etcdserverpb.KV/Compact",
            rpc_pb2.CompactionRequest.SerializeToString,
            rpc_pb2.CompactionResponse.FromString,
        )
        await call(rpc_pb2.CompactionRequest(revision=revision), timeout=10)


async def _memory(clock: SystemClock, prefix: str) -> Subject:
    store = MemoryStore(clock)

    async def forget() -> None:
        store.compact()

    return Subject("memory", store, prefix, forget)


async def _sqlite(clock: SystemClock, prefix: str, path: str) -> Subject:
    async def forget() -> None:
        await subject.store.close()
        subject.store = await SqliteStore.open(path, clock)

    subject = Subject("sqlite", await SqliteStore.open(path, clock), prefix, forget)
    return subject


async def _etcd(clock: SystemClock, prefix: str, server: EtcdServer) -> Subject:
    store = await EtcdStore.open([server.endpoint], clock)

    async def forget() -> None:
        await compact(server.endpoint, await store.revision())

    return Subject("etcd", store, prefix, forget)


@pytest.fixture(params=KINDS)
async def subject(
    request: pytest.FixtureRequest, clock: SystemClock, prefix: str, tmp_path: Path
) -> AsyncIterator[Subject]:
    if request.param == "memory":
        made = await _memory(clock, prefix)
    elif request.param == "sqlite":
        made = await _sqlite(clock, prefix, str(tmp_path / "store.db"))
    else:
        made = await _etcd(clock, prefix, request.getfixturevalue("etcd"))
    yield made
    await made.store.close()


@pytest.fixture
def store(subject: Subject) -> Store:
    return subject.store


@pytest.fixture
async def everyone(
    clock: SystemClock, prefix: str, tmp_path: Path, etcd: EtcdServer
) -> AsyncIterator[tuple[Subject, ...]]:
    """All three side by side."""
    made = (
        await _memory(clock, prefix),
        await _sqlite(clock, prefix, str(tmp_path / "store.db")),
        await _etcd(clock, prefix, etcd),
    )
    yield made
    for subject in made:
        await subject.store.close()
