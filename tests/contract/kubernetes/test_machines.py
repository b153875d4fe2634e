"""Nodes that pools buy of a cluster, on whatever serves its API."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ares.adapters.kubernetes.client import KubeClient
from ares.adapters.kubernetes.machines import KubeMachines
from ares.core.kube.machine import MachineTerms, machine_name
from ares.core.kube.pod import CONTAINER, FINALIZER
from ares.model.scaling import NodeShape
from ares.ports.machines import NamingProvider, NotProvided, ProviderUnknown, WantedMachine
from tests.contract.kubernetes.test_pods import bound_to, fresh, manifest, seen
from tests.kubernetes import NAMESPACE, KubeCluster

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SHAPE = NodeShape(cpu_milli=2000, memory_mib=512, labels={"tier": "burst"})


def want(machine: str) -> WantedMachine:
    return WantedMachine(machine, "gold", f"gold-{machine}", _SHAPE, (), "")


def terms(owner: str = "lab") -> MachineTerms:
    return MachineTerms(NAMESPACE, "k1", owner, "busybox")


@pytest_asyncio.fixture
async def buyer(cluster: KubeCluster) -> AsyncIterator[KubeClient]:
    """With the rights of a server that buys, and no others."""
    opened = KubeClient(NAMESPACE, FINALIZER, CONTAINER, str(cluster.install_autoscaler()))
    yield opened
    await opened.close()


async def test_a_machine_is_one_pod_from_its_creation_to_its_end(buyer: KubeClient, cluster: KubeCluster) -> None:
    machines, machine = KubeMachines(buyer, terms()), fresh("m")
    assert isinstance(machines, NamingProvider)
    names = {await machines.create(want(machine)) for _ in range(2)}
    assert names == {machine_name(machine)}
    (listed,) = [each for each in await machines.machines() if each.id == machine]
    assert (listed.handle, listed.at > 1.7e9) == (machine_name(machine), True)
    assert machine not in await machines.nodes()
    # Another installation in the same namespace neither sees nor ends it.
    other = KubeMachines(buyer, terms("another"))
    assert machine not in {each.id for each in await other.machines()}
    await other.delete([machine])
    # kube-scheduler's part.
    binding = bound_to(await seen(buyer, machine_name(machine)), "new-node")
    cluster.call("POST", f"{_PODS}/{machine_name(machine)}/binding", binding)
    assert (await machines.nodes())[machine] == "k1.new-node"
    for _ in range(2):
        await machines.delete([machine, "unknown"])
    cluster.call("DELETE", f"{_PODS}/{machine_name(machine)}", {"gracePeriodSeconds": 0})
    assert machine not in {each.id for each in await machines.machines()}


async def test_it_is_for_no_node_that_is_there(buyer: KubeClient, cluster: KubeCluster) -> None:
    """Nor for one that another machine has: each buys its own."""
    here, host = fresh("here"), fresh("host")
    labels = {"kubernetes.io/hostname": host, "ares/pool": "gold"}
    cluster.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node",
                                           "metadata": {"name": here, "labels": labels}})  # fmt: skip
    machines, machine = KubeMachines(buyer, terms()), fresh("m")
    await machines.create(want(machine))
    made = cluster.call("GET", f"{_PODS}/{machine_name(machine)}")["spec"]
    assert made["nodeSelector"] == {"ares/pool": "gold", "tier": "burst"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = made["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert host in term["matchExpressions"][0]["values"]
    assert made["affinity"]["podAntiAffinity"][required][0]["topologyKey"] == "kubernetes.io/hostname"
    await machines.delete([machine])
    assert machine not in {each.id for each in await machines.machines()}
    cluster.call("DELETE", f"/api/v1/nodes/{here}")


async def test_a_pod_of_that_name_that_is_not_ours_is_no_machine(buyer: KubeClient, cluster: KubeCluster) -> None:
    machines, machine = KubeMachines(buyer, terms()), fresh("m")
    cluster.call("POST", _PODS, manifest(machine_name(machine)))
    answer = await machines.create(want(machine))
    assert isinstance(answer, NotProvided)
    await machines.delete([machine])
    left = await seen(buyer, machine_name(machine))
    assert left.metadata.deletion_timestamp is None
    cluster.call("DELETE", f"{_PODS}/{machine_name(machine)}", {"gracePeriodSeconds": 0})


async def test_a_server_that_is_away_is_not_known(buyer: KubeClient, cluster: KubeCluster) -> None:
    machines = KubeMachines(buyer, terms())
    cluster.kill_api()
    try:
        with pytest.raises(ProviderUnknown):
            await machines.create(want("m"))
        with pytest.raises(ProviderUnknown):
            await machines.machines()
    finally:
        cluster.start_api()
