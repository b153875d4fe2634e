"""What only a store on several servers has to withstand: members that die, and servers not to trust."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from ares.adapters.store.etcd import EtcdStore
from ares.adapters.store.etcd.pb import rpc_pb2
from ares.adapters.store.open import open_store
from ares.ports.store import Committed, Compacted, Compare, Delete, Put, Store, StoreUnavailable, StoreVersionRefused
from tests.contract.store.conftest import SystemClock, compact
from tests.contract.store.watching import changes_until, first_of
from tests.ports import free_ports
from tests.servers import EtcdCluster, EtcdServer

pytestmark = [pytest.mark.etcd, pytest.mark.chaos]
WAIT_S = 60.0


async def write_through(store: Store, key: str, steps: int, done: asyncio.Event | None = None) -> None:
    """Writes 1 to `steps`, each exactly once, settling unknown outcomes by reading back."""
    at = 0
    step = 1
    while step <= steps or (done is not None and not done.is_set()):
        try:
            outcome = await store.txn([Compare(key, "mod_revision", at)], [Put(key, b"%d" % step)])
            if isinstance(outcome, Committed) and outcome.succeeded:
                at, step = outcome.revision, step + 1
                continue
            found = await store.get(key)
        except StoreUnavailable:
            await asyncio.sleep(0.02)
            continue
        if found is not None and found.mod_revision != at:
            # Nobody else writes this key: it was our own write whose answer was lost.
            assert found.value == b"%d" % step
            at, step = found.mod_revision, step + 1


async def steps_watched(store: Store, start: int, writers: int, steps: int) -> dict[str, list[int]]:
    """Reads until every writer's last step was seen."""
    seen: dict[str, list[int]] = defaultdict(list)
    async with asyncio.timeout(WAIT_S):
        async for found in store.watch("/w/", start):
            assert not isinstance(found, Compacted)
            for change in found.changes:
                seen[change.kv.key].append(int(change.kv.value))
            if len(seen) == writers and all(values[-1] >= steps for values in seen.values()):
                return seen
    raise AssertionError("the watch ended by itself")


def check_steps(seen: dict[str, list[int]]) -> None:
    for key, values in seen.items():
        assert values == list(range(1, len(values) + 1)), key


async def test_kill_9_and_restart_keep_watches_correct(tmp_path: Path, clock: SystemClock) -> None:
    with EtcdServer(tmp_path) as server:
        store = await EtcdStore.open([server.endpoint], clock)
        start = await store.revision() + 1
        done = asyncio.Event()
        writers = [asyncio.create_task(write_through(store, f"/w/{n}", 200, done)) for n in range(6)]
        for _ in range(2):
            at = await store.revision()
            await changes_until(store, "/w/", at + 200, bool)
            server.kill()
            await asyncio.to_thread(server.start)
        done.set()
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*writers)
        seen = await steps_watched(store, start, 6, 200)
        check_steps(seen)
        await store.close()


async def test_a_watch_goes_on_over_a_killed_server(tmp_path: Path, clock: SystemClock) -> None:
    """The same watch, opened before the kill and never restarted by its reader."""
    with EtcdServer(tmp_path) as server:
        store = await EtcdStore.open([server.endpoint], clock)
        watching = asyncio.create_task(steps_watched(store, await store.revision() + 1, 4, 300))
        half = asyncio.gather(*(write_through(store, f"/w/{n}", 300) for n in range(4)))
        await changes_until(store, "/w/", await store.revision() + 50, bool)
        server.kill()
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(WAIT_S):
            await half
        check_steps(await watching)
        await store.close()


@pytest.mark.slow
async def test_three_members_one_killed_one_frozen(tmp_path: Path, clock: SystemClock) -> None:
    with EtcdCluster(tmp_path) as cluster:
        store = await open_store(cluster.url, clock)
        watching = asyncio.create_task(steps_watched(store, await store.revision() + 1, 4, 400))
        done = asyncio.Event()
        writers = [asyncio.create_task(write_through(store, f"/w/{n}", 400, done)) for n in range(4)]

        async def progress() -> None:
            async with asyncio.timeout(WAIT_S):
                while True:
                    try:
                        await changes_until(store, "/w/", await store.revision() + 100, bool)
                        return
                    except StoreUnavailable:
                        continue

        await progress()
        for member in cluster.members:
            # Whichever of them the store talks to, and whichever leads, is among these.
            member.kill()
            await progress()
            await asyncio.to_thread(member.start)
        for member in cluster.members:
            member.pause()
            await progress()
            member.resume()
        done.set()
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*writers)
            check_steps(await watching)
        await store.close()


async def test_a_minority_refuses(tmp_path: Path, clock: SystemClock) -> None:
    with EtcdCluster(tmp_path) as cluster:
        store = await EtcdStore.open(cluster.endpoints, clock)
        assert isinstance(await store.txn([], [Put("/a", b"1")]), Committed)
        for member in cluster.members[1:]:
            member.kill()
        with pytest.raises(StoreUnavailable, match="majority"):
            await store.get("/a")
        await asyncio.to_thread(cluster.members[1].start, wait=False)
        await asyncio.to_thread(cluster.members[1].wait_ready)
        found = await store.get("/a")
        assert found is not None
        await store.close()


async def test_nobody_there(clock: SystemClock) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await EtcdStore.open([f"127.0.0.1:{port}" for port in free_ports(2)], clock)


@asynccontextmanager
async def reporting(version: str) -> AsyncIterator[str]:
    """A server that only tells its version."""

    async def status(_request: rpc_pb2.StatusRequest, _context: object) -> rpc_pb2.StatusResponse:
        return rpc_pb2.StatusResponse(version=version)

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        status, rpc_pb2.StatusRequest.FromString, rpc_pb2.StatusResponse.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("etcdserverpb.Maintenance", {"Status": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@pytest.mark.parametrize("version", ["3.5.0", "3.5.5", "3.5.4-rc.1", "3.4.21", "3.3.27", "2.3.8", "what"])
async def test_versions_that_lose_writes_are_refused(clock: SystemClock, version: str) -> None:
    async with reporting(version) as endpoint:
        with pytest.raises(StoreVersionRefused, match="install") as refused:
            await EtcdStore.open([endpoint], clock)
        assert version in str(refused.value)
        assert endpoint in str(refused.value)


async def test_one_member_not_to_trust_is_enough(clock: SystemClock) -> None:
    async with reporting("3.5.9") as good, reporting("3.5.3") as bad:
        for endpoints in ([good, bad], [bad, good]):
            with pytest.raises(StoreVersionRefused, match=r"3\.5\.3"):
                await EtcdStore.open(endpoints, clock)


@pytest.mark.parametrize("version", ["3.4.22", "3.4.37", "3.5.6", "3.5.21", "3.6.0"])
async def test_versions_that_are_trusted(clock: SystemClock, version: str) -> None:
    async with reporting(version) as endpoint:
        store = await EtcdStore.open([endpoint], clock)
        assert store.endpoints == (endpoint,)
        await store.close()


async def test_a_watch_exactly_at_the_compacted_revision(etcd: EtcdServer, clock: SystemClock, prefix: str) -> None:
    """The server itself would open it and leave the deletion out."""
    store = await EtcdStore.open([etcd.endpoint], clock)
    await store.txn([], [Put(f"{prefix}a", b"1")])
    deletion = await store.txn([], [Delete(f"{prefix}a")])
    assert isinstance(deletion, Committed)
    await compact(etcd.endpoint, deletion.revision)
    assert isinstance(await first_of(store, prefix, deletion.revision), Compacted)
    await store.close()
