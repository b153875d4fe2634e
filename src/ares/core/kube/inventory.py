"""What a node of Kubernetes has for Ares: what it can give, less what the pods of others ask for."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from ares.core.kube import quantity
from ares.core.kube.pod import PodTerms, node_name
from ares.model.isolation import BARE_PODS, BOX, POD_FILES, PODS
from ares.model.kube import KubeNode, Pod, PodContainer
from ares.model.node import GPUS_MAX, Gpu, NodeInfo, Taint

# Resources that GPUs are counted by, and whose they are.
_GPU_RESOURCES: Final = {"nvidia.com/gpu": "nvidia", "amd.com/gpu": "amd"}
_EFFECTS: Final = {"NoSchedule": "no-schedule", "NoExecute": "no-schedule", "PreferNoSchedule": "prefer-not"}
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
# Set for a while after the kubelet has not taken a pod that there was room for.
REFUSING: Final = "ares/refusing"
_KEY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?", re.ASCII)
POOL_LABEL: Final = "ares/pool"
_POOL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_POOL_MAX: Final = 48
_LABELS_MAX: Final = 256
_TAINTS_MAX: Final = 60


class PodRequests(msgspec.Struct, frozen=True, gc=False):
    """What pods ask for together."""

    cpu_milli: int = 0
    memory_mib: int = 0
    gpus: int = 0

    def plus(self, other: "PodRequests") -> "PodRequests":
        return PodRequests(
            self.cpu_milli + other.cpu_milli, self.memory_mib + other.memory_mib, self.gpus + other.gpus
        )  # fmt: skip

    def most(self, other: "PodRequests") -> "PodRequests":
        return PodRequests(
            max(self.cpu_milli, other.cpu_milli), max(self.memory_mib, other.memory_mib), max(self.gpus, other.gpus)
        )


def _of(requests: dict[str, str]) -> PodRequests:
    return PodRequests(
        quantity.milli(requests.get("cpu", "0")),
        quantity.mib_asked(requests.get("memory", "0")),
        sum(quantity.count(requests[name]) for name in _GPU_RESOURCES if name in requests),
    )


def _sum(containers: Iterable[PodContainer]) -> PodRequests:
    total = PodRequests()
    for container in containers:
        total = total.plus(_of({**container.resources.limits, **container.resources.requests}))
    return total


def asked_by(pod: Pod) -> PodRequests:
    """As the kubelet counts it: all containers together, or the greediest of those that run before them."""
    spec = pod.spec
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    total = _sum((*spec.containers, *sidecars))
    for container in spec.init_containers:
        total = total.most(_sum((container,)))
    return total.plus(_of(spec.overhead))


def gpu_resource(node: KubeNode) -> str:
    return next((name for name in _GPU_RESOURCES if name in node.status.allocatable), "nvidia.com/gpu")


def ready(node: KubeNode) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def features(*, bare: bool, files: bool) -> tuple[str, ...]:
    """What pods give jobs: also those without an image, and with files of projects."""
    return (
        PODS, *((BARE_PODS,) if bare else ()), *((POD_FILES,) if files else ()), "images", "cgroup-v2", *sorted(BOX),
    )  # fmt: skip


def node_info(
    node: KubeNode, others: PodRequests, terms: PodTerms, *, pool: str, version: str, refusing: bool = False,
    gpus: tuple[Gpu, ...] | None = None,
) -> NodeInfo:  # fmt: skip
    """As Ares sees it. What its own jobs take is for Ares to count. `gpus`: those that are given by claims."""
    can, labels = node.status.allocatable, node.metadata.labels
    cpu = quantity.milli(can.get("cpu", "0")) - others.cpu_milli
    memory = quantity.mib(can.get("memory", "0")) - others.memory_mib
    addresses = {entry.type: entry.address for entry in node.status.addresses}
    return NodeInfo(
        name=node_name(terms.code, node.metadata.name),
        cpu_milli=min(max(0, cpu), 1_000_000_000),
        memory_mib=min(max(0, memory), 1 << 40),
        gpus=_gpus(node, others.gpus) if gpus is None else gpus,
        labels=_labels(labels),
        pool=_pool(labels.get(POOL_LABEL, ""), pool),
        isolation=("pid-namespace", "cgroup-v2"),
        isolation_level="sandbox",
        sandbox=features(bare=bool(terms.image), files=terms.helper is not None),
        agent_version=version,
        hostname=_line(labels.get("kubernetes.io/hostname", node.metadata.name)),
        kernel=_line(node.status.node_info.kernel_version),
        address=_line(addresses.get("InternalIP") or addresses.get("Hostname") or node.metadata.name),
        zone=_line(labels.get("topology.kubernetes.io/zone", ""), 128),
        region=_line(labels.get("topology.kubernetes.io/region", ""), 128),
        taints=_taints(node, refusing),
        fences=False,
    )


def _gpus(node: KubeNode, taken: int) -> tuple[Gpu, ...]:
    """As many as are left. Which ones a pod gets is for the kubelet to say."""
    resource, labels = gpu_resource(node), node.metadata.labels
    count = min(GPUS_MAX, max(0, quantity.count(node.status.allocatable.get(resource, "0")) - taken))
    model = _line(labels.get("nvidia.com/gpu.product") or labels.get("amd.com/gpu.product-name") or "GPU")
    memory = quantity.count(labels.get("nvidia.com/gpu.memory", "0"))
    vendor = "amd" if _GPU_RESOURCES[resource] == "amd" else "nvidia"
    name = node.metadata.name[:200]
    return tuple(
        Gpu(index=n, uuid=f"{name}/{n}", model=model, memory_mib=min(max(0, memory), 1 << 40), vendor=vendor)
        for n in range(count)
    )


def _pool(said: str, default: str) -> str:
    """Of nodes with a label of ours, the pool that it says: an operator or a cloud puts it on a group of nodes."""
    return said if len(said) <= _POOL_MAX and _POOL.fullmatch(said) else default


def _labels(labels: dict[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in sorted(labels.items()) if len(key) <= 128 and _KEY.fullmatch(key)}
    return dict(list(kept.items())[:_LABELS_MAX])


def _taints(node: KubeNode, refusing: bool) -> tuple[Taint, ...]:
    found = [
        Taint(key=taint.key, value=taint.value, effect="prefer-not" if kind == "prefer-not" else "no-schedule")
        for taint in node.spec.taints
        if (kind := _EFFECTS.get(taint.effect)) and len(taint.key) <= 128 and _KEY.fullmatch(taint.key)
    ]
    own = {NOT_READY: not ready(node), UNSCHEDULABLE: node.spec.unschedulable, REFUSING: refusing}
    known = {taint.key for taint in found}
    found += [Taint(key=key) for key, set_ in own.items() if set_ and key not in known]
    return tuple(found[-_TAINTS_MAX:])


def _line(text: str, limit: int = 256) -> str:
    return "".join(letter for letter in text if letter.isprintable())[:limit]
