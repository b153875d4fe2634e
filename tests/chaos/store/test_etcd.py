"""A real etcd that is killed, stopped, led by another member, compacted and turned back under eight writers."""

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.store.etcd import EtcdStore
from ares.adapters.store.open import open_store
from ares.ports.store import Compacted, Put, StoreUnavailable
from tests.chaos.store.writers import PREFIX, Writers
from tests.platform import say
from tests.servers import EtcdCluster, EtcdServer

pytestmark = [pytest.mark.chaos, pytest.mark.etcd]

BETWEEN = 60


@asynccontextmanager
async def judged_writers(url: str) -> AsyncIterator[Writers]:
    """Writers at work; judged when the block ends."""
    store = await open_store(url, SystemClock())
    writers = Writers(store)
    writers.start()
    try:
        await writers.progress(BETWEEN)
        yield writers
        await writers.progress(BETWEEN)
        await writers.stop()
        say(await writers.judge())
    finally:
        await writers.stop()
        await store.close()


def etcdctl(endpoint: str, *arguments: str) -> str:
    done = subprocess.run(
        ["etcdctl", "--endpoints", endpoint, *arguments],
        env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"etcdctl {arguments}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
async def test_kills_lose_nothing_and_give_no_revision_twice(tmp_path: Path, seed: int, kills: int) -> None:
    rng = random.Random(seed)
    with EtcdServer(tmp_path) as server:
        async with judged_writers(server.url) as writers:
            for _ in range(kills):
                await writers.progress(rng.randrange(BETWEEN))
                server.kill()
                await asyncio.to_thread(server.start)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_stopped_server_loses_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with EtcdServer(tmp_path) as server:
        async with judged_writers(server.url) as writers:
            for seconds in (0.2, 1.0, 4.0, 8.0):
                await writers.progress(rng.randrange(BETWEEN))
                server.pause()
                # Not a synchronisation: how long it is stopped, shorter and longer than a try and a transaction.
                await asyncio.sleep(seconds)
                server.resume()


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("how", ["kill", "pause", "move"])
async def test_another_member_leads(tmp_path: Path, how: str) -> None:
    with EtcdCluster(tmp_path) as cluster:
        async with judged_writers(cluster.url) as writers:
            for _ in range(6):
                leader, other = await asyncio.to_thread(leader_of, cluster)
                await writers.progress(BETWEEN)
                if how == "move":
                    etcdctl(cluster.members[leader].endpoint, "move-leader", other)
                elif how == "kill":
                    cluster.members[leader].kill()
                    await writers.progress(BETWEEN)
                    await asyncio.to_thread(cluster.members[leader].start)
                else:
                    cluster.members[leader].pause()
                    await writers.progress(BETWEEN)
                    cluster.members[leader].resume()


def leader_of(cluster: EtcdCluster) -> tuple[int, str]:
    """Which member leads, and the id of one that does not."""
    rows = [
        (n, *etcdctl(member.endpoint, "endpoint", "status").split(", "))
        for n, member in enumerate(cluster.members)
    ]  # fmt: skip
    leading = [n for n, *fields in rows if fields[4] == "true"]
    if not leading:
        return leader_of(cluster)
    return leading[0], next(fields[1] for n, *fields in rows if n != leading[0])


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_watch_over_compactions_misses_nothing_or_says_so(tmp_path: Path) -> None:
    """Whoever watches sees every write in order, or is told from where on history is gone and reads anew."""
    with EtcdServer(tmp_path) as server:
        async with judged_writers(server.url) as writers:
            store = await EtcdStore.open([server.endpoint], SystemClock())
            told, followed = 0, dict[str, int]()

            async def follow() -> None:
                nonlocal told
                start = 1
                while True:
                    async for item in store.watch(PREFIX, start):
                        if isinstance(item, Compacted):
                            told += 1
                            page = await store.range(PREFIX)
                            followed.update({kv.key: kv.mod_revision for kv in page.kvs})
                            start = page.revision + 1
                            break
                        followed.update({change.kv.key: change.kv.mod_revision for change in item.changes})
                        start = item.revision + 1

            following = asyncio.create_task(follow())
            for number in range(20):
                await writers.progress(BETWEEN)
                at = await store.revision()
                await asyncio.to_thread(etcdctl, server.endpoint, "compaction", str(at), "--physical")
                if number % 5 == 0:
                    # Who comes with an old revision is told, and not shown a part.
                    first = await anext(aiter(store.watch(PREFIX, 1)))
                    assert isinstance(first, Compacted)
                    server.kill()
                    await asyncio.to_thread(server.start)
            await writers.stop()
            last = max(writers.acknowledged.values())
            async with asyncio.timeout(60):
                while max(followed.values(), default=0) < last:
                    await asyncio.sleep(0.02)
            missed = {key for key, at in writers.acknowledged.items() if followed.get(key) != at}
            assert not missed, f"{len(missed)} writes were never seen, such as {min(missed)}"
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await store.close()
            writers.start()


async def test_a_store_turned_back_under_a_running_process_is_not_believed(tmp_path: Path) -> None:
    """A revision that was seen never comes again: nothing is read from the older store and taken for true, and nothing
    is written into it."""
    data, copy = tmp_path / "etcd.data", tmp_path / "copy"
    with EtcdServer(tmp_path) as server:
        store = await EtcdStore.open([server.endpoint], SystemClock())
        await store.txn([], [Put("/a", b"1")])
        await asyncio.to_thread(server.stop)
        shutil.copytree(data, copy)
        await asyncio.to_thread(server.start)
        for number in range(20):
            await store.txn([], [Put("/a", b"later %d" % number)])
        await asyncio.to_thread(server.stop)
        shutil.rmtree(data)
        copy.rename(data)
        await asyncio.to_thread(server.start)

        with pytest.raises(StoreUnavailable, match="restored under this server"):
            await store.get("/a")
        with pytest.raises(StoreUnavailable, match="new-epoch"):
            await store.txn([], [Put("/b", b"1")])
        await store.close()
        fresh = await EtcdStore.open([server.endpoint], SystemClock())
        assert await fresh.get("/b") is None
        found = await fresh.get("/a")
        assert found is not None
        assert found.value == b"1"
        await fresh.close()
