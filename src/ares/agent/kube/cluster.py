"""The agent of one Kubernetes cluster: it follows nodes and pods, and has a session for each node."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import structlog
from msgspec.structs import replace

from ares.agent.kube.device_book import DeviceBook
from ares.agent.kube.environment import pod_environment
from ares.agent.kube.member import Join, KubeMember
from ares.agent.kube.placing import Muster, until_known
from ares.agent.kube.pod_attempt import PodAttempt
from ares.agent.kube.pods import PodAttempts
from ares.agent.staging.cache import NodeCache
from ares.core.kube.devices import device_claim
from ares.core.kube.inventory import OUT_OF_SERVICE, PodRequests, asked_by, gpu_resource, node_info, ready
from ares.core.kube.pod import CLUSTER_LABEL, PodClaim, PodTerms, manifest, named_well, node_name, read_claim
from ares.core.kube.refusals import Refusals
from ares.model.kube import KubeNode, ObjectMeta, Pod, ResourceClaim
from ares.model.link import Start
from ares.model.node import NodeInfo
from ares.ports.clock import Clock, Rng
from ares.ports.kubernetes import Changed, KubeApi, Listed, NotYet

_log = structlog.get_logger(__name__)

# What nodes have is told at most so often.
_TELL_EVERY_S: Final = 1.0


class KubeAgent:
    """All of a cluster. It is also what attempts know of their surroundings."""

    def __init__(
        self, *, api: KubeApi, terms: PodTerms, pool: str, version: str, clock: Clock, rng: Rng, logs: Path, join: Join,
        cache: NodeCache, certificate: str = "",
    ) -> None:  # fmt: skip
        self._api, self._terms, self._pool, self._version = api, terms, pool, version
        self._clock, self._rng, self._logs, self._join = clock, rng, logs, join
        self._cache, self.certificate = cache, certificate
        self._nodes: dict[str, KubeNode] = {}
        # Pods of ours by name, and what others' pods ask for, by node and uid.
        self._mine: dict[str, tuple[Pod, PodClaim]] = {}
        self._others: dict[str, dict[str, PodRequests]] = {}
        self._members: dict[str, KubeMember] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._refusals = Refusals()
        self._dirty = set[str]()
        self._muster = Muster()
        self._devices = DeviceBook(self._owns, self._dirty_node)
        self._nodes_known, self._pods_known = asyncio.Event(), asyncio.Event()
        # The cluster gives devices by claims.
        self._claimed = False

    async def run(self) -> None:
        """Until it is cancelled. Pods go on without it."""
        loops = [self._follow_nodes(), self._follow_pods(), self._keep_told()]
        if self._terms.bind == "kube" and await until_known(self._clock, "devices", self._api.gives_devices):
            loops += [self._devices.follow_slices(self._api), self._devices.follow_claims(self._api)]
            self._claimed = True
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, *self._leaving):
                task.cancel()
            await asyncio.gather(*tasks, *self._leaving, return_exceptions=True)
            await asyncio.gather(*(member.close() for member in self._members.values()))

    # ---- surroundings of attempts

    @property
    def terms(self) -> PodTerms:
        return self._terms

    @property
    def muster(self) -> Muster:
        return self._muster

    def exists(self, kube_node: str) -> bool:
        return kube_node in self._nodes

    def alive(self, kube_node: str) -> bool:
        node = self._nodes.get(kube_node)
        return node is not None and ready(node)

    def out_of_service(self, kube_node: str) -> bool:
        node = self._nodes.get(kube_node)
        return node is not None and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)

    def refused(self, kube_node: str) -> None:
        for_s = self._refusals.add(kube_node, self._clock.monotonic())
        self._dirty.add(kube_node)
        _log.warning("kube.pod_refused", node=kube_node, nothing_new_for_s=for_s)

    def manifest(self, claim: PodClaim, start: Start) -> dict[str, Any]:
        node = self._nodes.get(claim.kube_node)
        terms = self._terms if node is None else replace(self._terms, gpu_resource=gpu_resource(node))
        return manifest(claim, start, pod_environment(start, terms), terms)

    def gives_devices(self, kube_node: str) -> bool:
        return self._devices.gives(kube_node)

    def device_claim(self, pod: Pod, claim: PodClaim, start: Start) -> dict[str, Any] | None:
        wanted = start.placement.gpus
        chosen = self._devices.chosen(claim.kube_node, wanted)
        return device_claim(pod, chosen) if len(chosen) == len(wanted) else None

    def ranks_here(self, start: Start) -> frozenset[int]:
        ours = {node_name(self._terms.code, name) for name in self._nodes}
        return frozenset(peer.rank for peer in start.world.peers if peer.node in ours)

    def new_token(self) -> str:
        return "" if self._terms.helper is None else self._rng.token(32).hex()

    def find(self, pod: str) -> tuple[PodAttempts, PodAttempt] | None:
        """The attempt that a pod of that name is for. Raises NotYet."""
        if not self._pods_known.is_set():
            raise NotYet("the agent does not know its pods yet")
        for member in self._members.values():
            if (attempt := member.attempts.named(pod)) is not None:
                return member.attempts, attempt
        if pod in self._mine:
            raise NotYet("the agent does not know its node yet")
        return None

    # ---- nodes

    async def _follow_nodes(self) -> None:
        async for news in self._api.nodes():
            if isinstance(news, Listed):
                found = {node.metadata.name: node for node in news.items if named_well(node.metadata.name)}
                for name in self._nodes.keys() - found.keys():
                    self._drop_node(name)
                self._nodes.update(found)
                self._dirty |= found.keys()
                self._nodes_known.set()
            elif news.kind == "DELETED":
                self._drop_node(news.item.metadata.name)
            elif named_well(news.item.metadata.name):
                self._nodes[news.item.metadata.name] = news.item
                self._dirty.add(news.item.metadata.name)

    def _drop_node(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._dirty.add(name)
        _log.info("kube.node_gone", node=name)

    # ---- pods

    async def _follow_pods(self) -> None:
        async for news in self._api.pods():
            if isinstance(news, Listed):
                self._relist(news.items)
                self._pods_known.set()
            elif news.kind == "DELETED":
                self._forget_pod(news.item)
            else:
                self._see_pod(news)

    def _relist(self, pods: tuple[Pod, ...]) -> None:
        """What is not among them is gone: its deletion was not seen."""
        found = {pod.metadata.uid for pod in pods}
        for pod, _ in [*self._mine.values()]:
            if pod.metadata.uid not in found:
                self._forget_pod(pod)
        self._dirty |= self._others.keys()
        self._others.clear()
        for pod in pods:
            self._see_pod(Changed("ADDED", pod))

    def _see_pod(self, news: Changed[Pod]) -> None:
        pod = news.item
        claim = read_claim(pod, self._terms.code) if pod.metadata.namespace == self._terms.namespace else None
        if claim is None:
            self._count(pod)
            return
        self._mine[pod.metadata.name] = (pod, claim)
        if pod.spec.node_name != claim.kube_node:
            # Another hand bound it: it takes room there, until it is gone.
            self._count(pod)
        member = self._members.get(claim.kube_node)
        if member is None:
            self._dirty.add(claim.kube_node)
        elif member.attempts.holds(claim):
            member.attempts.observe(pod)
        elif news.kind == "ADDED" and self._pods_known.is_set():
            # Not of this agent's making: the control plane says whether it is wanted.
            member.attempts.adopt(pod, claim)
            member.greet_again()

    def _count(self, pod: Pod) -> None:
        """Another's pod, which takes room."""
        node, uid = pod.spec.node_name, pod.metadata.uid
        if not node:
            return
        asked = None if pod.over else asked_by(pod)
        before = self._others.get(node, {}).get(uid)
        if asked == before:
            return
        if asked is None:
            self._others[node].pop(uid, None)
        else:
            self._others.setdefault(node, {})[uid] = asked
        self._dirty.add(node)

    def _forget_pod(self, pod: Pod) -> None:
        known = self._mine.get(pod.metadata.name)
        if known is not None and known[0].metadata.uid == pod.metadata.uid:
            del self._mine[pod.metadata.name]
            if (member := self._members.get(known[1].kube_node)) is not None:
                if pod.over:
                    member.attempts.observe(pod)
                member.attempts.removed(pod.metadata.name, pod.metadata.uid)
        if self._others.get(pod.spec.node_name, {}).pop(pod.metadata.uid, None) is not None:
            self._dirty.add(pod.spec.node_name)

    # ---- members

    async def _keep_told(self) -> None:
        await self._nodes_known.wait()
        await self._pods_known.wait()
        if self._claimed:
            await self._devices.known()
        # Nodes that are gone may still have attempts that wait for a word.
        self._dirty |= {claim.kube_node for _, claim in self._mine.values()}
        while True:
            dirty, self._dirty = self._dirty | self._refusals.over(self._clock.monotonic()), set[str]()
            left = self._left_at(dirty - self._members.keys())
            for name in sorted(dirty):
                self._tell(name, left.get(name, ()))
            for name, member in [*self._members.items()]:
                if name not in self._nodes and not len(member.attempts):
                    del self._members[name]
                    self._leave(member)
            await self._clock.sleep(_TELL_EVERY_S)

    def _leave(self, member: KubeMember) -> None:
        task = asyncio.create_task(member.leave())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _left_at(self, names: set[str]) -> dict[str, list[tuple[Pod, PodClaim]]]:
        """Pods of ours on nodes that have no session yet: looked for once, there may be many of both."""
        found: dict[str, list[tuple[Pod, PodClaim]]] = {}
        for pod, claim in self._mine.values() if names else ():
            if claim.kube_node in names:
                found.setdefault(claim.kube_node, []).append((pod, claim))
        return found

    def _tell(self, name: str, left: Sequence[tuple[Pod, PodClaim]]) -> None:
        member, info = self._members.get(name), self._info(name)
        if member is not None:
            member.describe(info)
            member.attempts.stir()
            return
        if name not in self._nodes and not left:
            return
        member = KubeMember(name, info, self, self._api, self._clock, self._rng, self._logs, self._cache)
        self._members[name] = member
        for pod, claim in left:
            member.attempts.adopt(pod, claim)
        member.open(self._join)

    def _owns(self, claim: ResourceClaim) -> bool:
        """It is of a pod of ours, whose devices Ares counts by itself."""
        meta = claim.metadata
        return meta.namespace == self._terms.namespace and meta.labels.get(CLUSTER_LABEL) == self._terms.code

    def _dirty_node(self, name: str) -> None:
        self._dirty.add(name)

    def _info(self, name: str) -> NodeInfo:
        node = self._nodes.get(name) or KubeNode(metadata=ObjectMeta(name=name))
        others = PodRequests()
        for asked in self._others.get(name, {}).values():
            others = others.plus(asked)
        refusing = self._refusals.said(name, self._clock.monotonic())
        gpus = self._devices.gpus(name) if self._devices.gives(name) else None
        return node_info(
            node, others, self._terms, pool=self._pool, version=self._version, refusing=refusing, gpus=gpus
        )
