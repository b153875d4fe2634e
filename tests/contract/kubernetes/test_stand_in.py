"""What only the stand-in does on demand: a history that is forgotten, and a watch that is cut on the wire."""

import asyncio

import pytest

from ares.adapters.kubernetes import client as kube_client
from ares.adapters.kubernetes import list_watch
from ares.ports.kubernetes import KubeUnavailable
from tests.contract.kubernetes.test_pods import fresh, manifest
from tests.contract.kubernetes.test_watches import changes, create, following, remove
from tests.kubernetes import StandInCluster


async def test_what_happened_while_history_was_lost_is_listed(cluster: StandInCluster) -> None:
    name, other = fresh("forgotten"), fresh("forgotten")
    create(cluster, name)
    async with following(cluster) as (followed, source):
        await followed.is_like(cluster)
        cluster.kill_api()
        cluster.server.do(lambda server: server.forget())
        cluster.start_api()
        create(cluster, other)
        remove(cluster, name)
        cluster.server.do(lambda server: server.forget())
        await followed.is_like(cluster)
        assert other in followed.pods
        assert source.lists > 1
        assert not followed.restored
    remove(cluster, other)


async def test_a_server_that_does_not_know_its_roles_yet_is_no_answer(cluster: StandInCluster) -> None:
    """A pod that was refused for that would be left behind, or cost its job a retry."""
    client = cluster.client()
    cluster.server.forbids = 2
    with pytest.raises(KubeUnavailable):
        await client.get("nobody")
    with pytest.raises(KubeUnavailable):
        await client.create(manifest(fresh("early")))
    assert await client.get("nobody") is None
    await client.close()


@pytest.mark.parametrize("mishap", ["refuse", "half", "bookmark", "silent"])
async def test_a_watch_that_is_cut_on_the_wire_goes_on(
    cluster: StandInCluster, mishap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "_PAUSE_S", 0.01)
    # A connection that says nothing is given up after half as long again.
    monkeypatch.setattr(kube_client, "WATCH_S", 0.2)
    cluster.server.mishaps[:] = [mishap] * 3
    async with following(cluster) as (followed, source):
        await changes(cluster, followed)
        async with asyncio.timeout(60):
            while source.watches < 4:
                await asyncio.sleep(0.02)
        await changes(cluster, followed)
    assert source.lists == 1
