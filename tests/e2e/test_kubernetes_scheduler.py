"""Pods that kube-scheduler binds: the real one, with a real API server and claims on devices."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.model.job import Gang, Image, RetryPolicy
from tests.kube_platform import KubePlatform
from tests.kubernetes import BUILD_S, NAMESPACE, RealCluster
from tests.platform import Platform, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_S + 300)]

_DRIVER = "gpu.nvidia.com"
_DEVICES = "/apis/resource.k8s.io/v1"
_BURST = ("provider=kubernetes", "cpu_milli=1500", "memory_mib=256", "labels.tier=burst", "after_s=0", "idle_s=2")
_UNTIL = "while [ ! -e {file} ]; do sleep 0.05; done"


def _slice(node: str, count: int) -> dict[str, Any]:
    devices = [
        {"name": f"gpu-{number}", "attributes": {
            "uuid": {"string": f"GPU-{node}-{number}"}, "productName": {"string": "H100"}, "type": {"string": "gpu"}},
         "capacity": {"memory": {"value": "80Gi"}}}
        for number in range(count)
    ]  # fmt: skip
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node}-gpus"},
        "spec": {"driver": _DRIVER, "nodeName": node, "devices": devices,
                 "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}},
    }  # fmt: skip


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubePlatform]:
    folder: Path = tmp_path_factory.mktemp("kube")
    with RealCluster(folder / "cluster") as cluster, Platform(folder / "ares", warm=True) as platform:
        cluster.control()
        expression = f'device.driver == "{_DRIVER}"'
        cluster.call("POST", f"{_DEVICES}/deviceclasses", {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": _DRIVER},
            "spec": {"selectors": [{"cel": {"expression": expression}}]}})  # fmt: skip
        for node in ("one", "two"):
            cluster.call("POST", f"{_DEVICES}/resourceslices", _slice(node, 2))
        cluster.install(bind="kube")
        buying = [
            *(f"autoscale.pools.burst.{key}" for key in _BURST), "cluster=lab", "kube.code=k1", "kube.image=local",
            f"kube.kubeconfig={cluster.install_autoscaler()}",
        ]  # fmt: skip
        flags = ("--set", "kube.schedule_s=5")
        yield KubePlatform(platform, cluster, *flags, bind="kube", gpus=0, settings=buying)


def _claims(kube: KubePlatform, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    return kube.cluster.call("GET", f"{_DEVICES}/namespaces/{namespace}/resourceclaims")["items"]


def _given(claim: dict[str, Any]) -> set[str]:
    return {result["device"] for result in claim["status"]["allocation"]["devices"]["results"]}


def test_kube_scheduler_binds_and_gives_the_very_devices(kube: KubePlatform, tmp_path: Path) -> None:
    """Nodes have the devices of their slices; a job has those that Ares chose, and gives them back with its end."""
    (first, second) = kube.node("k1.one").info.gpus
    assert (first.uuid, first.model, first.memory_mib, second.uuid) == ("GPU-one-0", "H100", 80 << 10, "GPU-one-1")
    here = {"kubernetes.io/hostname": "one"}
    for turn in ("first", "second"):
        jobs = [kube.script(_UNTIL.format(file=tmp_path / turn), gpus=1, selector=here) for _ in range(2)]
        states = [kube.runs(job) for job in jobs]
        given = {claim["metadata"]["name"]: _given(claim) for claim in _claims(kube)}
        for job, state in zip(jobs, states, strict=True):
            pod = kube.pod_of(job)
            (place,) = state.placements
            assert pod["spec"]["nodeName"] == "one"
            assert given[pod["metadata"]["name"]] == {f"gpu-{place.gpus[0]}"}
        (tmp_path / turn).touch()
        for job in jobs:
            kube.ends(job)
        kube.emptied()
    eventually(lambda: not _claims(kube), "the end of every claim")


def test_a_gang_is_let_go_whole_and_devices_of_others_are_theirs(kube: KubePlatform, tmp_path: Path) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "stranger", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": _DRIVER}}]}},
    }  # fmt: skip
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    container = {"name": "c", "image": "local", "command": ["sleep", "600"], "resources": {"claims": [{"name": "g"}]}}
    stranger = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger", "namespace": "default"},
        "spec": {"containers": [container], "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
                 "nodeSelector": {"kubernetes.io/hostname": "two"},
                 "resourceClaims": [{"name": "g", "resourceClaimName": "stranger"}]},
    }  # fmt: skip
    kube.cluster.apply(account)
    kube.cluster.call("POST", f"{_DEVICES}/namespaces/default/resourceclaims", claim)
    kube.cluster.call("POST", "/api/v1/namespaces/default/pods", stranger)
    eventually(lambda: len(kube.node("k1.two").info.gpus) == 1, "a GPU less")
    job = kube.script(_UNTIL.format(file=tmp_path / "go"), gpus=1, gang=Gang(ranks=3), retry=RetryPolicy(limit=0))
    places = kube.runs(job).placements
    assert sorted(place.node for place in places) == ["k1.one", "k1.one", "k1.two"]
    theirs = {device for claim in _claims(kube, "default") for device in _given(claim)}
    assert {f"gpu-{number}" for place in places if place.node == "k1.two" for number in place.gpus}.isdisjoint(theirs)
    (tmp_path / "go").touch()
    assert kube.ends(job).state.attempt == 1
    kube.cluster.call("DELETE", "/api/v1/namespaces/default/pods/stranger")
    kube.cluster.call("DELETE", f"{_DEVICES}/namespaces/default/resourceclaims/stranger")
    eventually(lambda: len(kube.node("k1.two").info.gpus) == 2, "both GPUs")
    kube.emptied()


def test_a_pod_that_kube_scheduler_does_not_bind_costs_no_retry(kube: KubePlatform) -> None:
    """Its node was closed between Ares' decision and kube-scheduler's: it waits again, and runs when it is open."""
    cluster, path = kube.cluster, "/api/v1/nodes/two"
    taint = {"spec": {"taints": [{"key": "tests/away", "effect": "NoSchedule"}]}}
    kube.agent.pause()
    job = kube.script("true", selector={"kubernetes.io/hostname": "two"}, retry=RetryPolicy(limit=0))
    eventually(lambda: kube.state(job).phase == "STAGING", "its place", 120)
    before = kube.state(job).fence
    cluster.call("PATCH", path, taint, "application/merge-patch+json")
    kube.agent.resume()
    try:
        eventually(lambda: "preempted" in kube.kinds(job), "what becomes of it", 120)
    finally:
        cluster.call("PATCH", path, {"spec": {"taints": None}}, "application/merge-patch+json")
    ended = kube.ends(job).state
    assert (ended.fence > before, dict(ended.retries)) == (True, {})
    kube.emptied()


def test_a_node_is_bought_for_a_waiting_job_and_given_back(kube: KubePlatform) -> None:
    """kube-scheduler says that a pod waits for it; what a cluster's own autoscaler does then is done here."""
    cluster, client = kube.cluster, kube.client
    assert kube.platform.cli("autoscale", "enable", "burst").code == 0
    job = kube.script("true", selector={"tier": "burst"}, image=Image(ref="docker://local:1"))

    def asking() -> list[dict[str, Any]]:
        return [pod for pod in cluster.pods() if pod["metadata"]["labels"].get("ares/pool") == "burst"]

    def unschedulable() -> bool:
        found = [condition for pod in asking() for condition in pod["status"].get("conditions", [])]
        return any(condition.get("reason") == "Unschedulable" for condition in found)

    eventually(unschedulable, "a pod that waits for a node", 120)
    cluster.kubelet("three", cpu="2", labels={"ares/pool": "burst", "tier": "burst"})
    kube.ends(job)

    def machines() -> list[dict[str, Any]]:
        return json.loads(kube.platform.cli("autoscale", "show", "burst", "-o", "json").out)["instances"]

    # The job may have run there before the pool knows what its machine has become.
    eventually(lambda: [machine["node"] for machine in machines()] == ["k1.three"], "the machine's name")
    assert f"because job {job} found no room" in machines()[0]["reason"]
    assert kube.node("k1.three").info.pool == "burst"
    assert kube.platform.cli("autoscale", "disable", "burst").code == 0
    # Nothing is held there any more: the pod goes, then the node, and Ares forgets it.
    eventually(lambda: not asking(), "the pod's end", 120)
    cluster.kubelets["three"].kill()
    cluster.call("DELETE", "/api/v1/nodes/three")
    eventually(lambda: not machines(), "the end of its record", 180)
    assert "k1.three" not in {node.name for node in client.nodes()}
    kube.emptied()
