"""What nodes of Kubernetes have for Ares."""

import msgspec
import pytest

from ares.core.kube import quantity
from ares.core.kube.inventory import PodRequests, asked_by, node_info
from ares.core.kube.pod import PodTerms
from ares.model.kube import KubeNode, Pod

NODE = msgspec.convert(
    {
        "metadata": {
            "name": "n",
            "labels": {
                "topology.kubernetes.io/zone": "z", "nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "81920",
            },
        },
        "spec": {"taints": [{"key": "team", "value": "a", "effect": "NoExecute"},
                            {"key": "old", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "7910m", "memory": "32883344Ki", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    },
    KubeNode,
)  # fmt: skip
TERMS = PodTerms(namespace="ares", code="k1")


def test_it_has_what_others_leave() -> None:
    info = node_info(NODE, PodRequests(910, 100, 3), TERMS, pool="p", version="1")
    assert (info.name, info.cpu_milli, info.memory_mib, len(info.gpus)) == ("k1.n", 7000, 32012, 5)
    assert (info.zone, info.gpus[0].model, info.gpus[0].memory_mib, info.fences) == ("z", "H100", 81920, False)
    assert [(taint.key, taint.effect) for taint in info.taints] == [("team", "no-schedule"), ("old", "prefer-not")]
    none = node_info(NODE, PodRequests(10**6, 10**6, 99), TERMS, pool="p", version="1")
    assert (none.cpu_milli, none.memory_mib, none.gpus) == (0, 0, ())


def test_a_node_that_is_not_ready_or_cordoned_gets_nothing() -> None:
    node = msgspec.structs.replace(
        NODE, spec=msgspec.structs.replace(NODE.spec, unschedulable=True), status=type(NODE.status)()
    )
    keys = {taint.key for taint in node_info(node, PodRequests(), TERMS, pool="p", version="1", refusing=True).taints}
    assert keys >= {"node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable", "ares/refusing"}


def test_a_pod_asks_for_its_containers_or_the_greediest_before_them() -> None:
    def asking(cpu: str, **more: str) -> dict[str, object]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [asking("100m"), asking("0.2")],
        "initContainers": [asking("1"), asking("50m", restartPolicy="Always")],
        "overhead": {"cpu": "10m", "memory": "1"},
    }
    assert asked_by(msgspec.convert({"spec": spec}, Pod)) == PodRequests(1010, 1, 0)


@pytest.mark.parametrize(
    ("text", "milli"),
    [("1", 1000), ("0.0001", 1), ("1e2", 100_000), ("2k", 2_000_000), ("", 0), ("x", 0), ("1e99999999", 0)],
)
def test_quantities(text: str, milli: int) -> None:
    assert quantity.milli(text) == milli
