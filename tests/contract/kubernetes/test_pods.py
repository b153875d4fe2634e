"""What an agent goes by when it makes, binds and removes pods: each answer of the API, on whatever serves it."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from ares.adapters.kubernetes.client import KubeClient
from ares.core.kube.pod import FINALIZER
from ares.model.kube import Pod
from ares.ports.kubernetes import KubeRefused, KubeUnavailable
from tests.kubernetes import NAMESPACE, KubeCluster

_numbers = itertools.count(1)
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MERGE = "application/merge-patch+json"


@pytest_asyncio.fixture
async def client(cluster: KubeCluster) -> AsyncIterator[KubeClient]:
    opened = cluster.client()
    yield opened
    await opened.close()


def manifest(name: str, *finalizers: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "job", "image": "local"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "finalizers": list(finalizers)},
        "spec": {"schedulerName": "ares", "restartPolicy": "Never", "containers": [container], **spec},
    }  # fmt: skip


def fresh(what: str) -> str:
    return f"{what}-{next(_numbers)}"


def bound_to(pod: Pod, node: str = "elsewhere", **changed: str) -> dict[str, Any]:
    meta = {"name": pod.metadata.name, "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": {**meta, "annotations": {"note": "here"}, **changed},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip


async def seen(client: KubeClient, name: str) -> Pod:
    pod = await client.get(name)
    assert pod is not None
    return pod


async def test_a_name_is_taken_once(client: KubeClient) -> None:
    name = fresh("once")
    made = await client.create(manifest(name))
    assert (made.metadata.name, made.spec.node_name, made.status.phase) == (name, "", "Pending")
    with pytest.raises(KubeRefused) as refusal:
        await client.create(manifest(name))
    assert (refusal.value.code, refusal.value.reason) == (409, "AlreadyExists")
    assert (await seen(client, name)).metadata.uid == made.metadata.uid
    assert await client.get("nobody") is None


async def test_a_binding_is_a_compare_and_swap(client: KubeClient, cluster: KubeCluster) -> None:
    made = await client.create(manifest(fresh("swap")))
    name = made.metadata.name
    # Another hand changes it meanwhile.
    cluster.call("PATCH", f"{_PODS}/{name}", {"metadata": {"labels": {"touched": "yes"}}}, MERGE)
    now = await seen(client, name)
    assert now.metadata.resource_version != made.metadata.resource_version
    stale, stranger = bound_to(made), bound_to(now, uid="another")
    for wrong in (stale, stranger):
        with pytest.raises(KubeRefused) as refusal:
            await client.bind(name, wrong)
        assert refusal.value.code == 409
    assert not (await seen(client, name)).spec.node_name
    await client.bind(name, bound_to(now))
    after = await seen(client, name)
    assert (after.spec.node_name, after.metadata.annotations["note"]) == ("elsewhere", "here")
    with pytest.raises(KubeRefused) as refusal:
        await client.bind(name, bound_to(after, "somewhere"))
    assert refusal.value.code == 409
    with pytest.raises(KubeRefused) as refusal:
        await client.bind("nobody", bound_to(after, name="nobody"))
    assert refusal.value.code == 404


async def test_what_is_being_deleted_or_gated_is_not_bound(client: KubeClient) -> None:
    leaving = await client.create(manifest(fresh("leaving"), FINALIZER))
    await client.delete(leaving.metadata.name, leaving.metadata.uid, 30)
    gated = await client.create(manifest(fresh("gated"), schedulingGates=[{"name": "ares/leave"}]))
    for name in (leaving.metadata.name, gated.metadata.name):
        pod = await seen(client, name)
        with pytest.raises(KubeRefused) as refusal:
            await client.bind(name, bound_to(pod))
        assert refusal.value.code == 409
    await client.release(leaving.metadata.name, leaving.metadata.uid)
    assert await client.get(leaving.metadata.name) is None


async def test_a_pod_is_deleted_by_its_uid_and_held_by_its_finalizers(client: KubeClient, cluster: KubeCluster) -> None:
    made = await client.create(manifest(fresh("kept"), "tests/other", FINALIZER))
    name, uid = made.metadata.name, made.metadata.uid
    await client.delete(name, "another", 0)
    await client.release(name, "another")
    untouched = await seen(client, name)
    assert (untouched.metadata.deletion_timestamp, untouched.metadata.finalizers) == (None, made.metadata.finalizers)
    await client.delete(name, uid, 30)
    # One that is bound nowhere has no kubelet to wait for.
    leaving = (await seen(client, name)).metadata
    assert (leaving.deletion_timestamp is not None, leaving.deletion_grace_period_seconds) == (True, 0)
    await client.release(name, uid)
    await client.release(name, uid)
    assert (await seen(client, name)).metadata.finalizers == ("tests/other",)
    cluster.call("PATCH", f"{_PODS}/{name}", {"metadata": {"finalizers": None}}, MERGE)
    assert await client.get(name) is None
    await client.delete(name, uid, 0)
    await client.release(name, uid)


async def test_a_pod_on_a_node_waits_for_its_kubelet(client: KubeClient, cluster: KubeCluster) -> None:
    made = await client.create(manifest(fresh("runs"), FINALIZER))
    name, uid = made.metadata.name, made.metadata.uid
    await client.bind(name, bound_to(made))
    await client.delete(name, uid, 20)
    # A second word never gives it more time.
    await client.delete(name, uid, 60)
    await client.release(name, uid)
    leaving = await seen(client, name)
    assert leaving.metadata.deletion_grace_period_seconds == 20
    status = {"status": {"phase": "Failed"}}
    cluster.call("PATCH", f"{_PODS}/{name}/status", status, MERGE)
    assert (await seen(client, name)).over
    await client.delete(name, uid, 0)
    assert await client.get(name) is None


async def test_an_eviction_says_what_it_is(client: KubeClient, cluster: KubeCluster) -> None:
    made = await client.create(manifest(fresh("evicted"), FINALIZER))
    name = made.metadata.name
    await client.bind(name, bound_to(made))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    cluster.call("POST", f"{_PODS}/{name}/eviction", eviction)
    pod = await seen(client, name)
    assert pod.metadata.deletion_timestamp is not None
    assert [c.reason for c in pod.status.conditions if c.type == "DisruptionTarget"] == ["EvictionByEvictionAPI"]
    await client.delete(name, made.metadata.uid, 0)
    await client.release(name, made.metadata.uid)
    assert await client.get(name) is None


async def test_a_server_that_is_away_is_no_answer(client: KubeClient, cluster: KubeCluster) -> None:
    name = fresh("late")
    cluster.kill_api()
    try:
        with pytest.raises(KubeUnavailable):
            await client.create(manifest(name))
        with pytest.raises(KubeUnavailable):
            await client.get(name)
    finally:
        cluster.start_api()
    assert await client.get(name) is None
    await client.create(manifest(name))
