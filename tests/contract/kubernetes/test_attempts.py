"""An agent's attempts as pods, step by step on whatever serves the API: what binds them, and what goes wrong."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from ares.adapters.clocks import SystemClock
from ares.adapters.kubernetes.client import KubeClient
from ares.agent.kube import pod_log, pods
from ares.agent.kube.placing import Muster
from ares.agent.kube.pods import PodAttempts
from ares.agent.link.mailbox import Mailbox
from ares.core.kube.devices import device_claim, gpus_of
from ares.core.kube.pod import BOUND_FENCE, CONTAINER, FINALIZER, PodClaim, PodTerms, gated, manifest, opening, pod_name
from ares.model.base import AttemptRef, Fence
from ares.model.job import Gang, JobSpec
from ares.model.kube import KubeRefusal, Pod, ResourceSlice
from ares.model.link import Exited, Fenced, GangPeer, LogAck, Start, WorldInfo
from ares.model.secret import Secret, SecretGiven
from ares.model.state import Placement
from ares.ports.kubernetes import KubeRefused, KubeUnavailable
from tests.contract.kubernetes.test_pods import MERGE, bound_to, fresh, seen
from tests.contract.kubernetes.test_pods import manifest as manifest_of_a_stranger
from tests.kubernetes import NAMESPACE, KubeCluster

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
_S = 60
_SLICE = msgspec.convert(
    {"spec": {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n", "generation": 1},
              "devices": [{"name": "a", "attributes": {"uuid": {"string": "GPU-1"}}}]}},
    ResourceSlice,
)  # fmt: skip


class Around:
    """A cluster of one node that is always well."""

    certificate = ""

    def __init__(self, terms: PodTerms) -> None:
        self.terms, self.muster, self.refusals = terms, Muster(), 0
        self.there = True

    def exists(self, kube_node: str) -> bool:
        return self.there

    def alive(self, kube_node: str) -> bool:
        return True

    def out_of_service(self, kube_node: str) -> bool:
        return False

    def refused(self, kube_node: str) -> None:
        self.refusals += 1

    def new_token(self) -> str:
        return ""

    def gives_devices(self, kube_node: str) -> bool:
        return self.terms.bind == "kube"

    def device_claim(self, pod: Pod, claim: PodClaim, start: Start) -> dict[str, Any] | None:
        found = [gpu for gpu in gpus_of([_SLICE]) if gpu.gpu.index in start.placement.gpus]
        return device_claim(pod, found) if len(found) == len(start.placement.gpus) else None

    def manifest(self, claim: PodClaim, start: Start) -> dict[str, Any]:
        return manifest(claim, start, start.spec.env, self.terms)

    def ranks_here(self, start: Start) -> frozenset[int]:
        return frozenset(peer.rank for peer in start.world.peers)


class OneNode:
    """Attempts on a node `n`, as a session would have them, with pods that are looked at by hand."""

    def __init__(self, client: KubeClient, folder: Path, bind: str = "kube", schedule_s: float = 60.0) -> None:
        terms = PodTerms(namespace=NAMESPACE, code="k1", image="local")
        terms = msgspec.structs.replace(terms, bind="kube" if bind == "kube" else "ares", schedule_s=schedule_s)
        self.client, self.around, self.mailbox = client, Around(terms), Mailbox()
        self.attempts = PodAttempts("n", self.around, client, SystemClock(), self.mailbox, folder, lambda: None)
        self.attempts.incarnation = 1

    def begin(
        self, gpus: tuple[int, ...] = (), rank: int = 0, ranks: int = 1, job: str = "",
        secrets: tuple[SecretGiven, ...] = (),
    ) -> str:  # fmt: skip
        """The name of its pod."""
        ref = AttemptRef(job=job or fresh("job"), tenant="t", fence=Fence(epoch=1, counter=1))
        place = Placement(node="k1.n", incarnation=1, cpu_milli=100, memory_mib=64, gpus=gpus, rank=rank)
        peers = tuple(GangPeer(rank=peer, node="k1.n", address="a") for peer in range(ranks))
        spec = JobSpec(command=("true",), gang=Gang(ranks=ranks) if ranks > 1 else None)
        world = WorldInfo(peers=peers) if ranks > 1 else WorldInfo()
        self.attempts.begin(Start(ref=ref, attempt=1, placement=place, spec=spec, world=world, secrets=secrets))
        return pod_name(ref, rank)

    async def until(self, name: str, what: Any) -> Pod:
        """The pod once it is so; its attempt hears of each look, as of a watch."""
        async with asyncio.timeout(_S):
            while True:
                pod = await self.client.get(name)
                if pod is not None:
                    self.attempts.observe(pod)
                    if what(pod):
                        return pod
                await asyncio.sleep(0.02)

    async def end(self, name: str) -> Exited | Fenced:
        """Its final report, which is acknowledged; and its pod is gone then."""
        report = await self.report(name)
        self.attempts.settled([report])
        self.attempts.log_kept(LogAck(ref=report.ref, rank=report.rank, offset=1 << 30))
        async with asyncio.timeout(_S):
            while await self.client.get(name) is not None:
                await asyncio.sleep(0.02)
        return report

    async def report(self, name: str) -> Exited | Fenced:
        async with asyncio.timeout(_S):
            while True:
                for report in self.mailbox.outbox.take(100, 1 << 20, lambda _: True):
                    if isinstance(report, Exited | Fenced) and pod_name(report.ref, report.rank) == name:
                        return report
                if (pod := await self.client.get(name)) is not None:
                    self.attempts.observe(pod)
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def node(cluster: KubeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OneNode]:
    """Of an agent whose rights are an administrator's: what it may do is tested elsewhere."""
    # No kubelet has their logs.
    monkeypatch.setattr(pod_log, "_TRIES", 1)
    config = cluster.kubeconfig("admin.kubeconfig", cluster.token)
    client = KubeClient(NAMESPACE, FINALIZER, CONTAINER, str(config))
    node = OneNode(client, tmp_path / "logs")
    yield node
    await node.attempts.close()
    await client.close()


def _short(node: OneNode, tmp_path: Path) -> OneNode:
    """Where kube-scheduler has hardly any time."""
    return OneNode(node.client, tmp_path / "short", schedule_s=0.1)


def over(cluster: KubeCluster, name: str) -> None:
    """What the kubelet says of a pod whose container has ended."""
    ended = {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:01Z",
    }
    shown = {
        "name": "job",
        "image": "local",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    status = {"status": {"phase": "Succeeded", "containerStatuses": [shown]}}
    cluster.call("PATCH", f"{_PODS}/{name}/status", status, MERGE)


async def test_kube_scheduler_may_look_once_the_gate_is_open(node: OneNode, cluster: KubeCluster) -> None:
    name = node.begin()
    offered = await node.until(name, lambda pod: not gated(pod))
    assert (offered.spec.node_name, offered.spec.scheduler_name) == ("", "default-scheduler")
    assert offered.metadata.annotations[BOUND_FENCE] == "1.1"
    # As kube-scheduler does.
    await node.client.bind(name, bound_to(offered, "n"))
    await node.until(name, lambda pod: pod.spec.node_name)
    over(cluster, name)
    assert isinstance(await node.end(name), Exited)


async def test_a_gate_is_opened_by_a_compare_and_swap(node: OneNode, cluster: KubeCluster) -> None:
    """Two ranks: the first one's gate stays closed until the second is there, and another hand changes it meanwhile."""
    job = fresh("gang")
    first = node.begin(rank=0, ranks=2, job=job)
    made = await node.until(first, lambda _: True)
    claim = PodClaim(
        ref=AttemptRef(job=job, tenant="t", fence=Fence(epoch=1, counter=1)), rank=0, attempt=1, node="k1.n",
        kube_node="n", incarnation=1, spec_sha256="",
    )  # fmt: skip
    cluster.call("PATCH", f"{_PODS}/{first}", {"metadata": {"labels": {"touched": "yes"}}}, MERGE)
    with pytest.raises(KubeRefused) as refusal:
        await node.client.change(first, opening(made, claim))
    assert refusal.value.code in (409, 422)
    assert gated(await seen(node.client, first))
    second = node.begin(rank=1, ranks=2, job=job)
    for name in (first, second):
        offered = await node.until(name, lambda pod: not gated(pod))
        await node.client.bind(name, bound_to(offered, "n"))
        over(cluster, name)
        assert isinstance(await node.end(name), Exited)


async def test_a_pod_that_finds_no_place_waits_again_without_a_retry(
    node: OneNode, cluster: KubeCluster, tmp_path: Path
) -> None:
    late = _short(node, tmp_path)
    name = late.begin()
    await late.until(name, lambda pod: not gated(pod) or pod.metadata.deletion_timestamp)
    report = await late.end(name)
    assert isinstance(report, Fenced)
    assert (report.evicted, "kube-scheduler did not bind its pod to n" in report.reason) == (True, True)
    # Its node gets nothing for a while: the two schedulers do not agree on it.
    assert late.around.refusals == 1
    await late.attempts.close()


async def test_a_claim_on_devices_belongs_to_its_pod_and_goes_with_it(node: OneNode, cluster: KubeCluster) -> None:
    name = node.begin(gpus=(0,))
    offered = await node.until(name, lambda pod: not gated(pod))
    claim = cluster.call("GET", f"{_CLAIMS}/{name}")
    assert claim["metadata"]["ownerReferences"][0]["uid"] == offered.metadata.uid
    (request,) = claim["spec"]["devices"]["requests"]
    assert "GPU-1" in request["exactly"]["selectors"][0]["cel"]["expression"]
    await node.client.bind(name, bound_to(offered, "n"))
    over(cluster, name)
    assert isinstance(await node.end(name), Exited)
    assert await node.client.claim(name) is None


async def test_gpus_that_are_gone_meanwhile_cost_no_retry(node: OneNode) -> None:
    name = node.begin(gpus=(5,))
    report = await node.end(name)
    assert isinstance(report, Fenced)
    assert (report.evicted, "does not have the GPUs any more" in report.reason) == (True, True)


async def test_a_pod_that_was_told_to_end_is_never_bound(node: OneNode, cluster: KubeCluster) -> None:
    """Between the open gate and kube-scheduler's binding: the deletion goes before the word that it is over."""
    name = node.begin()
    offered = await node.until(name, lambda pod: not gated(pod))
    node.attempts.keep_only(())
    leaving = await node.until(name, lambda pod: pod.metadata.deletion_timestamp)
    with pytest.raises(KubeRefused):
        await node.client.bind(name, bound_to(leaving, "n"))
    report = await node.end(name)
    assert isinstance(report, Fenced)
    assert offered.metadata.uid == leaving.metadata.uid


@pytest.mark.parametrize("bind", ["ares", "kube"])
async def test_a_binding_that_is_late_finds_no_pod_to_bind(
    node: OneNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bind: str
) -> None:
    """It was on its way when the attempt was told to end, and its outcome was not known: the job could run twice."""
    late, on_its_way = OneNode(node.client, tmp_path / "late", bind), asyncio.Event()
    asked = list[tuple[str, Any]]()

    async def lost(name: str, what: Any) -> Any:
        asked.append((name, what))
        on_its_way.set()
        raise KubeUnavailable("ReadTimeout")

    method = "bind" if bind == "ares" else "change"
    with monkeypatch.context() as patch:
        patch.setattr(node.client, method, lost)
        name = late.begin()
        await on_its_way.wait()
        late.attempts.keep_only(())
        report = await late.report(name)
    assert isinstance(report, Fenced)
    with pytest.raises(KubeRefused):
        await getattr(node.client, method)(*asked[0])
    assert not (await seen(node.client, name)).spec.node_name
    late.mailbox.outbox.rewind()
    await late.end(name)
    await late.attempts.close()


async def bound(node: OneNode, name: str) -> Pod:
    """By kube-scheduler's hand."""
    offered = await node.until(name, lambda pod: not gated(pod))
    await node.client.bind(name, bound_to(offered, "n"))
    return await node.until(name, lambda pod: pod.spec.node_name)


async def test_a_pod_that_is_deleted_by_hand_is_over_when_its_kubelet_says_so(
    node: OneNode, cluster: KubeCluster
) -> None:
    name = node.begin()
    await bound(node, name)
    cluster.call("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 30})
    await node.until(name, lambda pod: pod.metadata.deletion_timestamp)
    assert not [report for report in node.mailbox.outbox.take(9, 1 << 20, lambda _: True) if isinstance(report, Fenced)]
    cluster.call("PATCH", f"{_PODS}/{name}/status", {"status": {"phase": "Failed"}}, MERGE)
    report = await node.end(name)
    assert isinstance(report, Fenced)
    assert (report.evicted, report.reason) == (True, f"its pod {name} was deleted")


async def test_a_pod_whose_node_is_deleted_is_lost(node: OneNode) -> None:
    name = node.begin()
    await bound(node, name)
    node.around.there = False
    node.attempts.stir()
    report = await node.end(name)
    assert isinstance(report, Fenced)
    assert (report.evicted, report.reason) == (False, "node n was deleted from Kubernetes")


async def test_a_stranger_of_the_same_name_is_left_alone(node: OneNode, cluster: KubeCluster) -> None:
    job = fresh("taken")
    name = pod_name(AttemptRef(job=job, tenant="t", fence=Fence(epoch=1, counter=1)), 0)
    made = cluster.call("POST", _PODS, manifest_of_a_stranger(name))
    report = node.begin(job=job) and await node.report(name)
    assert isinstance(report, Fenced)
    assert (report.evicted, "is not of this attempt" in report.reason) == (True, True)
    node.attempts.settled([report])
    left = cluster.call("GET", f"{_PODS}/{name}")["metadata"]
    assert (left["uid"], "deletionTimestamp" in left) == (made["metadata"]["uid"], False)
    cluster.call("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 0})


async def test_a_finalizer_is_taken_off_although_another_hand_moves_it(node: OneNode, cluster: KubeCluster) -> None:
    """Between the look at its place and the patch: the pod would stay for ever, and the agent would not know."""
    name, client = fresh("moved"), node.client
    meta = {"name": name, "namespace": NAMESPACE, "finalizers": ["tests/other", FINALIZER]}
    made = await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta,
                                "spec": {"containers": [{"name": "job", "image": "local"}]}})  # fmt: skip
    asked = 0

    async def change(name: str, steps: list[dict[str, Any]]) -> Pod:
        nonlocal asked
        asked += 1
        if asked == 1:
            cluster.call("PATCH", f"{_PODS}/{name}", {"metadata": {"finalizers": [FINALIZER]}}, MERGE)
        return await KubeClient.change(client, name, steps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "change", change)
        await client.release(name, made.metadata.uid)
    assert (asked, (await seen(client, name)).metadata.finalizers) == (2, ())
    await client.delete(name, made.metadata.uid, 0)


async def test_a_log_whose_connection_is_dead_is_read_by_another(
    node: OneNode, cluster: KubeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first says nothing more, and does not end: the host of the API server may be gone without a word."""
    monkeypatch.setattr(pods, "_LAST_LINES_S", 20.0)
    asked = list[str]()

    async def log(name: str, since: str) -> AsyncIterator[bytes]:
        asked.append(since)
        yield b"2026-01-01T00:00:00.1Z first\n"
        if len(asked) == 1:
            await asyncio.Event().wait()
        yield b"2026-01-01T00:00:00.2Z second\n"

    monkeypatch.setattr(node.client, "log", log)
    name = node.begin()
    offered = await node.until(name, lambda pod: not gated(pod))
    await node.client.bind(name, bound_to(offered, "n"))
    over(cluster, name)
    await node.until(name, lambda pod: pod.over)
    monkeypatch.setattr(pods, "_LAST_LINES_S", 0.2)
    report = await node.report(name)
    (written,) = (tmp_path / "logs").glob(f"{report.ref.job}-*.log")
    assert (written.read_bytes(), asked) == (b"first\nsecond\n", ["", "2026-01-01T00:00:00Z"])
    node.attempts.settled([report])


async def test_an_attempt_is_carried_on_whatever_the_cluster_answers(
    node: OneNode, cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count as running for ever, or its pod would stay."""
    monkeypatch.setattr(pods, "_TELL_AGAIN_S", 0.05)
    name = node.begin(gpus=(0,))
    offered = await node.until(name, lambda pod: not gated(pod))
    troubles = [RuntimeError("nonsense"), KubeRefused(KubeRefusal(code=400, reason="BadRequest"))]

    async def claim(name: str) -> Any:
        if troubles:
            raise troubles.pop()
        return await KubeClient.claim(node.client, name)

    monkeypatch.setattr(node.client, "claim", claim)
    await node.client.bind(name, bound_to(offered, "n"))
    over(cluster, name)
    assert isinstance(await node.end(name), Exited)
    assert not troubles
    assert await node.client.claim(name) is None


async def test_a_secret_that_the_server_refuses_fails_its_job_and_closes_no_node(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tenant's secret that is too large would keep the jobs of all others away from the node."""

    async def create_secret(manifest: dict[str, Any]) -> None:
        raise KubeRefused(KubeRefusal(code=422, reason="Invalid", message="data: Too long"))

    monkeypatch.setattr(node.client, "create_secret", create_secret)
    report = await node.end(node.begin(secrets=(SecretGiven(name="s", version=1, env="S", value=Secret(b"v")),)))
    assert isinstance(report, Exited)
    assert (report.exit.failure, "Too long" in report.exit.message) == ("staging", True)
    assert node.around.refusals == 0
