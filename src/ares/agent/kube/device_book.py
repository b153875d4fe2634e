"""Which GPUs of each node are given by claims, and which of them the claims of others have."""

import asyncio
from collections.abc import Callable

import structlog

from ares.core.kube.devices import DeviceKey, NodeGpu, gpus_of, taken_by
from ares.model.kube import ResourceClaim, ResourceSlice
from ares.model.node import Gpu
from ares.ports.kubernetes import KubeApi, Listed

_log = structlog.get_logger(__name__)


class DeviceBook:
    """`mine` says whether a claim is of a pod of ours; `changed` hears of each node whose GPUs are others now."""

    def __init__(self, mine: Callable[[ResourceClaim], bool], changed: Callable[[str], None]) -> None:
        self._mine, self._changed = mine, changed
        # Slices by node and name, GPUs of each node, and what others' claims have, by uid.
        self._slices: dict[str, dict[str, ResourceSlice]] = {}
        self._node_of: dict[str, str] = {}
        self._gpus: dict[str, tuple[NodeGpu, ...]] = {}
        self._taken: dict[str, frozenset[DeviceKey]] = {}
        self._holders: dict[DeviceKey, str] = {}
        self._slices_known, self._claims_known = asyncio.Event(), asyncio.Event()

    async def known(self) -> None:
        await self._slices_known.wait()
        await self._claims_known.wait()

    def gives(self, node: str) -> bool:
        return bool(self._gpus.get(node))

    def gpus(self, node: str) -> tuple[Gpu, ...]:
        """Those that no claim of others has."""
        return tuple(found.gpu for found in self._gpus.get(node, ()) if found.key not in self._holders)

    def chosen(self, node: str, numbers: tuple[int, ...]) -> tuple[NodeGpu, ...]:
        """The devices of these numbers; fewer when some are not there any more."""
        return tuple(found for found in self._gpus.get(node, ()) if found.gpu.index in numbers)

    # ---- slices

    async def follow_slices(self, api: KubeApi) -> None:
        async for news in api.slices():
            if isinstance(news, Listed):
                found = {each.metadata.name for each in news.items}
                for name in [*self._node_of.keys() - found]:
                    self._drop(name)
                for each in news.items:
                    self._see(each)
                self._slices_known.set()
            elif news.kind == "DELETED":
                self._drop(news.item.metadata.name)
            else:
                self._see(news.item)

    def _see(self, resource_slice: ResourceSlice) -> None:
        name, node = resource_slice.metadata.name, resource_slice.spec.node_name
        if self._node_of.get(name, node) != node:
            self._drop(name)
        if node:
            self._node_of[name] = node
            self._slices.setdefault(node, {})[name] = resource_slice
            self._count(node)

    def _drop(self, name: str) -> None:
        node = self._node_of.pop(name, None)
        if node is not None:
            del self._slices[node][name]
            self._count(node)

    def _count(self, node: str) -> None:
        found = gpus_of(self._slices[node].values())
        if not self._slices[node]:
            del self._slices[node]
        if found != self._gpus.get(node, ()):
            self._gpus[node] = found
            self._changed(node)

    # ---- claims

    async def follow_claims(self, api: KubeApi) -> None:
        async for news in api.claims():
            if isinstance(news, Listed):
                found = {claim.metadata.uid for claim in news.items}
                for uid in [*self._taken.keys() - found]:
                    self._hold(uid, frozenset())
                for claim in news.items:
                    self._see_claim(claim)
                self._claims_known.set()
            elif news.kind == "DELETED":
                self._hold(news.item.metadata.uid, frozenset())
            else:
                self._see_claim(news.item)

    def _see_claim(self, claim: ResourceClaim) -> None:
        if not self._mine(claim):
            self._hold(claim.metadata.uid, taken_by(claim))

    def _hold(self, uid: str, devices: frozenset[DeviceKey]) -> None:
        before = self._taken.pop(uid, frozenset())
        if devices:
            self._taken[uid] = devices
        if devices == before:
            return
        for key in before:
            if self._holders.get(key) == uid:
                del self._holders[key]
        self._holders |= dict.fromkeys(devices, uid)
        for node, gpus in self._gpus.items():
            if any(found.key in before ^ devices for found in gpus):
                self._changed(node)
