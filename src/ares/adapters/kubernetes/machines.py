"""A provider whose machines are nodes of a Kubernetes cluster with an autoscaler of its own. The cluster's kube-agent
presents them: no agent is started here, and no token is handed out."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from ares.adapters.kubernetes.client import KubeClient
from ares.core.kube.inventory import POOL_LABEL
from ares.core.kube.machine import (
    MACHINE_LABEL,
    OWNER_LABEL,
    MachineTerms,
    machine_name,
    machine_of,
    machine_pod,
    made_at,
)
from ares.core.kube.pod import clean, node_name
from ares.model.kube import KubeNode, ListMeta, Pod
from ares.ports.kubernetes import KubeRefused, KubeUnavailable
from ares.ports.machines import ListedMachine, NotProvided, ProviderUnknown, WantedMachine

_HOST: Final = "kubernetes.io/hostname"
_PAGE: Final = 500
_CONFLICT: Final = 409


class _KubePods(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[Pod, ...] = ()


class _KubeNodes(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[KubeNode, ...] = ()


_PODS: Final = msgspec.json.Decoder(_KubePods)
_NODES: Final = msgspec.json.Decoder(_KubeNodes)


class KubeMachines:
    """Also a `NamingProvider`: the cluster names its nodes."""

    def __init__(self, api: KubeClient, terms: MachineTerms) -> None:
        self._api, self._terms = api, terms

    async def create(self, want: WantedMachine) -> str | NotProvided:
        name = machine_name(want.id)
        async with _known():
            hosts = await self._hosts(want.pool)
            try:
                await self._api.create(machine_pod(want.id, want.pool, want.shape, hosts, self._terms))
            except KubeRefused as refusal:
                if refusal.code != _CONFLICT:
                    return NotProvided(f"Kubernetes refused the pod {name}: {refusal}")
                found = await self._api.get(name)
                if found is None or machine_of(found, self._terms) != want.id:
                    return NotProvided(f"a pod named {name} is there already, and keeps no machine of ours")
        return name

    async def machines(self) -> Sequence[ListedMachine]:
        found = await self._held()
        return [ListedMachine(machine, pod.metadata.name, made_at(pod)) for machine, pod in found.items()]

    async def nodes(self) -> Mapping[str, str]:
        found = await self._held()
        return {
            machine: node_name(self._terms.code, pod.spec.node_name)
            for machine, pod in found.items()
            if pod.spec.node_name
        }

    async def delete(self, ids: Sequence[str]) -> None:
        """Its node is empty then, and the cluster's own autoscaler takes it away."""
        async with _known():
            for machine in ids:
                pod = await self._api.get(machine_name(machine))
                if pod is not None and machine_of(pod, self._terms) == machine:
                    await self._api.delete(pod.metadata.name, pod.metadata.uid, 1)

    async def _held(self) -> dict[str, Pod]:
        path = f"/api/v1/namespaces/{self._terms.namespace}/pods"
        chosen = f"{MACHINE_LABEL},{OWNER_LABEL}={clean(self._terms.owner)}"
        found = list[Pod]()
        async with _known():
            more = ""
            while True:
                page = _PODS.decode(await self._page(path, chosen, more))
                found += page.items
                if not (more := page.metadata.continue_):
                    break
        return {machine: pod for pod in found if (machine := machine_of(pod, self._terms))}

    async def _hosts(self, pool: str) -> list[str]:
        """Nodes of the pool that are there."""
        found, more = list[str](), ""
        while True:
            page = _NODES.decode(await self._page("/api/v1/nodes", f"{POOL_LABEL}={pool}", more))
            found += (node.metadata.labels[_HOST] for node in page.items if _HOST in node.metadata.labels)
            if not (more := page.metadata.continue_):
                return found

    async def _page(self, path: str, chosen: str, more: str) -> bytes:
        params: dict[str, str | int] = {"labelSelector": chosen, "limit": _PAGE}
        return await self._api.read(path, {**params, "continue": more} if more else params)


@asynccontextmanager
async def _known() -> AsyncGenerator[None, None]:
    try:
        yield
    except (KubeUnavailable, KubeRefused, msgspec.MsgspecError) as error:
        raise ProviderUnknown(f"Kubernetes: {error}") from error
