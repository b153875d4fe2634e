"""A list and a watch of pods, broken at every kind of moment: what is followed always becomes what there is."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from ares.adapters.kubernetes import list_watch
from ares.adapters.kubernetes.client import KubeClient
from ares.adapters.kubernetes.list_watch import KubeSource, ListWatch
from ares.model.kube import KubeRefusal, Pod
from ares.ports.kubernetes import Changed, KubeRefused, KubeUnavailable, Listed
from tests.contract.kubernetes.test_pods import MERGE, fresh, manifest
from tests.kubernetes import NAMESPACE, KubeCluster

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_S = 60


class Mishaps(KubeSource):
    """Hands on what the API says, with one mishap for each watch, as long as there are any."""

    def __init__(self, client: KubeClient, *mishaps: str) -> None:
        self._client, self._mishaps = client, list(mishaps)
        self.lists = self.watches = 0

    async def read(self, path: str, params: dict[str, str | int]) -> bytes:
        self.lists += params.get("limit") != 1
        return await self._client.read(path, params)

    async def lines(self, path: str, params: dict[str, str | int]) -> AsyncIterator[bytes]:
        self.watches += 1
        mishap = self._mishaps.pop(0) if self._mishaps else ""
        if mishap == "connect":
            raise KubeUnavailable("ConnectError")
        if mishap == "gone":
            raise KubeRefused(KubeRefusal(code=410, reason="Expired"))
        async for line in self._client.lines(path, params):
            if mishap == "garbled" or (mishap == "half" and b"BOOKMARK" not in line):
                yield line[: len(line) // 2]
                raise KubeUnavailable("RemoteProtocolError")
            yield line
            if mishap == "after" or (mishap == "bookmark" and b"BOOKMARK" in line):
                raise KubeUnavailable("ReadTimeout")


class Followed:
    """The pods of the namespace as a follower knows them."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[str, str]] = {}
        self.restored = 0

    async def follow(self, news: AsyncGenerator[Listed[Pod] | Changed[Pod], None]) -> None:
        async with aclosing(news):
            async for found in news:
                if isinstance(found, Listed):
                    self.pods = {}
                    self.restored += found.restored
                    for pod in found.items:
                        self._take(pod)
                elif found.kind == "DELETED":
                    self.pods.pop(found.item.metadata.name, None)
                else:
                    self._take(found.item)

    def _take(self, pod: Pod) -> None:
        if pod.metadata.namespace == NAMESPACE:
            self.pods[pod.metadata.name] = (pod.metadata.uid, pod.metadata.resource_version)

    async def is_like(self, cluster: KubeCluster) -> None:
        """Until it knows what there is."""

        def there() -> dict[str, tuple[str, str]]:
            metas = [pod["metadata"] for pod in cluster.pods()]
            return {meta["name"]: (meta["uid"], meta["resourceVersion"]) for meta in metas}

        async with asyncio.timeout(_S):
            while self.pods != there():
                await asyncio.sleep(0.02)


@asynccontextmanager
async def following(cluster: KubeCluster, *mishaps: str) -> AsyncGenerator[tuple[Followed, Mishaps]]:
    client = cluster.client()
    source, followed = Mishaps(client, *mishaps), Followed()
    task = asyncio.create_task(followed.follow(ListWatch(source, "/api/v1/pods", Pod).run()))
    try:
        yield followed, source
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


def create(cluster: KubeCluster, name: str) -> None:
    cluster.call("POST", _PODS, manifest(name))


def touch(cluster: KubeCluster, name: str, value: str) -> None:
    cluster.call("PATCH", f"{_PODS}/{name}", {"metadata": {"labels": {"touched": value}}}, MERGE)


def remove(cluster: KubeCluster, name: str) -> None:
    cluster.call("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 0})


async def changes(cluster: KubeCluster, followed: Followed) -> None:
    """Each kind of change, seen after each."""
    first, second = fresh("watched"), fresh("watched")
    await followed.is_like(cluster)
    create(cluster, first)
    await followed.is_like(cluster)
    create(cluster, second)
    touch(cluster, first, "once")
    await followed.is_like(cluster)
    remove(cluster, first)
    await followed.is_like(cluster)
    remove(cluster, second)
    await followed.is_like(cluster)


@pytest.mark.parametrize("mishap", ["", "connect", "half", "garbled", "after", "bookmark", "gone"])
async def test_a_watch_goes_on_after_it_was_cut(
    cluster: KubeCluster, mishap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "_PAUSE_S", 0.01)
    # The server itself ends a watch each second, after a bookmark.
    monkeypatch.setattr(list_watch, "WATCH_S", 1)
    async with following(cluster, mishap, mishap) as (followed, source):
        await changes(cluster, followed)
        async with asyncio.timeout(_S):
            while source.watches < 3:
                await asyncio.sleep(0.02)
        await changes(cluster, followed)
    # Everything is asked for again only where the place was lost.
    assert (source.lists > 1) == (mishap == "gone"), (source.lists, source.watches)
    assert not followed.restored


async def test_a_change_between_list_and_watch_is_seen(cluster: KubeCluster) -> None:
    name = fresh("between")

    class Late(Mishaps):
        async def lines(self, path: str, params: dict[str, str | int]) -> AsyncIterator[bytes]:
            if not self.watches:
                create(cluster, name)
            async for line in super().lines(path, params):
                yield line

    client = cluster.client()
    async with aclosing(ListWatch(Late(client), "/api/v1/pods", Pod).run()) as news:
        listed = await anext(news)
        assert isinstance(listed, Listed)
        assert name not in {pod.metadata.name for pod in listed.items}
        change = await anext(news)
        assert isinstance(change, Changed)
        assert (change.kind, change.item.metadata.name) == ("ADDED", name)
    await client.close()
    remove(cluster, name)


async def test_long_lists_come_in_pages(cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_watch, "_PAGE", 2)
    names = [fresh("paged") for _ in range(5)]
    for name in names:
        create(cluster, name)
    async with following(cluster) as (followed, source):
        await followed.is_like(cluster)
        assert source.lists >= 3
    for name in names:
        remove(cluster, name)


async def test_an_api_server_that_dies_loses_no_change(cluster: KubeCluster) -> None:
    name = fresh("survivor")
    async with following(cluster) as (followed, _):
        create(cluster, name)
        await followed.is_like(cluster)
        cluster.kill_api()
        cluster.start_api()
        touch(cluster, name, "again")
        await followed.is_like(cluster)
        remove(cluster, name)
        await followed.is_like(cluster)
        assert not followed.restored


async def test_a_cluster_that_is_restored_is_noticed(cluster: KubeCluster) -> None:
    """Pods that were made since are gone, those that were removed are back; and what comes next is followed."""
    lasting, dead, young, after = (fresh("restored") for _ in range(4))
    create(cluster, lasting)
    create(cluster, dead)
    restore = cluster.backup()
    async with following(cluster) as (followed, _):
        remove(cluster, dead)
        create(cluster, young)
        for number in range(20):
            touch(cluster, lasting, str(number))
        await followed.is_like(cluster)
        assert young in followed.pods
        restore()
        async with asyncio.timeout(_S):
            while not followed.restored:
                await asyncio.sleep(0.02)
        await followed.is_like(cluster)
        assert (dead in followed.pods, young in followed.pods) == (True, False)
        create(cluster, after)
        await followed.is_like(cluster)
        assert after in followed.pods
    for name in (lasting, dead, after):
        remove(cluster, name)
