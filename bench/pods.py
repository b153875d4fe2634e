"""(kube) Pods created and bound by the agent's own path, against a bare HTTP client that sends the same requests.

On a real API server; both have as many requests under way at once, and take turns. What is left out: the link to the
control plane, kubelets, and the removal of pods, which is not timed.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import msgspec

from ares.adapters.clocks import SystemClock
from ares.adapters.kubernetes.client import KubeClient
from ares.agent.kube.placing import Muster
from ares.agent.kube.pods import PodAttempts
from ares.agent.link.mailbox import Mailbox
from ares.core.kube.pod import CONTAINER, FINALIZER, PodClaim, PodTerms, binding, claim_of, manifest
from ares.model.base import AttemptRef, Fence
from ares.model.job import JobSpec
from ares.model.kube import Pod
from ares.model.link import Start
from ares.model.state import Placement
from bench.report import Row, judged, rate
from bench.scale import Scale
from tests.kubernetes import NAMESPACE, RealCluster

TARGET = 0.8
_PODS, _QUICK_PODS, _TURNS, _AT_ONCE = 1000, 100, 3, 32
_TERMS = PodTerms(namespace=NAMESPACE, code="bench", image="none")


async def rows(scale: Scale, folder: Path) -> list[Row]:
    count = _PODS if scale.jobs > 1000 else _QUICK_PODS
    ways: dict[str, list[float]] = {"agent": [], "bare": []}
    with RealCluster(folder / "cluster") as cluster:
        cluster.install()
        for turn in range(_TURNS):
            ways["bare"].append(count / await _timed(cluster, lambda starts: _bare(cluster, starts), turn * 2, count))
            ways["agent"].append(
                count / await _timed(cluster, lambda starts: _agent(cluster, folder, starts), turn * 2 + 1, count)
            )
    ours, bare = median(ways["agent"]), median(ways["bare"])
    note = f"medians of {_TURNS} by turns of {count:,} pods, {_AT_ONCE} requests at once"
    return [
        Row("kube", "pods created and bound", rate(ours), ours, f"bare client: {rate(bare)}", ours / bare,
            f"≥ {TARGET:g}", judged(ours / bare >= TARGET), note),
    ]  # fmt: skip


async def _timed(cluster: RealCluster, work: Callable[[list[Start]], Awaitable[None]], turn: int, count: int) -> float:
    began = time.perf_counter()
    await work([_start(turn, number) for number in range(count)])
    took = time.perf_counter() - began
    bound = [pod for pod in cluster.pods() if pod["spec"].get("nodeName")]
    assert len(bound) == count, len(bound)
    await _cleared(cluster, bound)
    return took


def _start(turn: int, number: int) -> Start:
    ref = AttemptRef(job=f"bench{turn}x{number}", tenant="bench", fence=Fence(epoch=1, counter=1))
    place = Placement(node="bench.none", incarnation=1, cpu_milli=100, memory_mib=64)
    return Start(ref=ref, attempt=1, placement=place, spec=JobSpec(command=("true",)))


class _Around:
    """A cluster whose nodes are never looked at."""

    terms, certificate = _TERMS, ""

    def __init__(self) -> None:
        self.muster = Muster()

    def exists(self, kube_node: str) -> bool:
        return True

    def alive(self, kube_node: str) -> bool:
        return True

    def out_of_service(self, kube_node: str) -> bool:
        return False

    def refused(self, kube_node: str) -> None:
        raise AssertionError("the server takes every pod")

    def new_token(self) -> str:
        return ""

    def manifest(self, claim: PodClaim, start: Start) -> dict[str, Any]:
        return manifest(claim, start, start.spec.env, _TERMS)

    def gives_devices(self, kube_node: str) -> bool:
        return False

    def device_claim(self, pod: Pod, claim: PodClaim, start: Start) -> dict[str, Any] | None:
        raise AssertionError("no GPUs are asked for")

    def ranks_here(self, start: Start) -> frozenset[int]:
        return frozenset()


class _Counting(KubeClient):
    def __init__(self, kubeconfig: Path, count: int) -> None:
        super().__init__(NAMESPACE, FINALIZER, CONTAINER, str(kubeconfig))
        self._left, self.done = count, asyncio.Event()

    async def bind(self, name: str, binding: dict[str, Any]) -> None:
        await super().bind(name, binding)
        self._left -= 1
        if not self._left:
            self.done.set()


async def _agent(cluster: RealCluster, folder: Path, starts: list[Start]) -> None:
    api = _Counting(cluster.directory / "kubeconfig", len(starts))
    attempts = PodAttempts("none", _Around(), api, SystemClock(), Mailbox(), folder / "logs", lambda: None)
    attempts.incarnation = 1
    for start in starts:
        attempts.begin(start)
    await api.done.wait()
    await attempts.close()
    await api.close()


async def _bare(cluster: RealCluster, starts: list[Start]) -> None:
    turns, path = asyncio.Semaphore(_AT_ONCE), f"/api/v1/namespaces/{NAMESPACE}/pods"
    async with _client(cluster) as http:

        async def one(start: Start) -> None:
            claim = claim_of(start, "none", once=False)
            async with turns:
                made = await http.post(path, content=json.dumps(manifest(claim, start, start.spec.env, _TERMS)))
            assert made.status_code == 201, made.text
            meta = made.json()["metadata"]
            pod = msgspec.convert(made.json(), Pod)
            async with turns:
                bound = await http.post(f"{path}/{meta['name']}/binding", content=json.dumps(binding(pod, claim)))
            assert bound.status_code == 201, bound.text

        await asyncio.gather(*(one(start) for start in starts))


def _client(cluster: RealCluster) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {cluster.token}", "content-type": "application/json"}
    return httpx2.AsyncClient(base_url=cluster.url, headers=headers, verify=False, timeout=60.0)


async def _cleared(cluster: RealCluster, pods: list[dict[str, Any]]) -> None:
    turns, path = asyncio.Semaphore(_AT_ONCE), f"/api/v1/namespaces/{NAMESPACE}/pods"
    async with _client(cluster) as http:

        async def one(name: str) -> None:
            async with turns:
                patch = {"content-type": "application/merge-patch+json"}
                await http.patch(f"{path}/{name}", content='{"metadata": {"finalizers": null}}', headers=patch)
                await http.request("DELETE", f"{path}/{name}", content='{"gracePeriodSeconds": 0}')

        await asyncio.gather(*(one(pod["metadata"]["name"]) for pod in pods))
    assert not cluster.pods()
