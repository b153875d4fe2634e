"""The pod of one rank: its name, its labels, whose it is, and its manifest."""

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from ares.core.kube.devices import DEVICES
from ares.core.kube.equipment import WORK, PodHelper, equip, secret_env, token_digest
from ares.model.base import AttemptRef, Record
from ares.model.job import MEMORY_BURST, JobSpec
from ares.model.kube import Pod
from ares.model.link import Start

# Of every pod of ours: whose it is, by a label that lists select and an annotation that decides.
CLUSTER_LABEL: Final = "ares/cluster"
CLAIM: Final = "ares/attempt"
# Written with the binding: a pod that has it was meant to run under this fence.
BOUND_FENCE: Final = "ares/bound-fence"
# Keeps a pod until its exit code and log are durable.
FINALIZER: Final = "ares/collect"
SCHEDULER: Final = "ares"
# Where kube-scheduler binds: it looks at a pod once our gate is open.
KUBE_SCHEDULER: Final = "default-scheduler"
GATE: Final = "ares/place"
CONTAINER: Final = "job"
# The kubelet reads it, up to 4 KiB, when the container has ended.
RESULT_FILE: Final = "/dev/termination-log"
_VALUE_MAX: Final = 63
_DIGEST_CHARS: Final = 8
_JOB: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", re.ASCII)
_NODE_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_NODE_NAME_MAX: Final = 253
_WHOLE_MILLI: Final = 1000


class PodClaim(Record, frozen=True):
    """The attempt that a pod is for. It is all that an agent that starts anew has to know of it."""

    ref: AttemptRef
    rank: int
    attempt: int
    # The node as Ares and as Kubernetes names it, and the incarnation that it was granted to.
    node: str
    kube_node: str
    incarnation: int
    spec_sha256: str
    # Only proof that no process ran lets the job be placed again.
    once: bool = False
    time_limit_s: float = 0.0
    # A secret of its name belongs to it.
    secret: bool = False
    # Of the token by which its helper is known; empty: it has no helper.
    token_sha256: str = ""
    project: str = ""
    # A claim of its name has its devices.
    devices: bool = False


class PodTerms(Record, frozen=True):
    """What the operator says of all pods."""

    namespace: str
    code: str
    # For jobs that name no image; empty: they have none.
    image: str = ""
    # The resource that GPUs are counted by on the pod's node.
    gpu_resource: str = "nvidia.com/gpu"
    # Ranks of a gang reach each other by the node's own network, or by the pods' names in this service.
    host_network: bool = False
    service: str = "ares-ranks"
    pull_s: float = 600.0
    # "kube": kube-scheduler binds the pod to the node that Ares chose, and picks devices; it has this long for it.
    bind: Literal["ares", "kube"] = "ares"
    schedule_s: float = 60.0
    # None: pods ask no leave to start, have no files of projects and hand none over.
    helper: PodHelper | None = None


def clean(text: str, limit: int = _VALUE_MAX) -> str:
    """As a label's value or a name may be: what had to be changed ends with a digest, so that no two become one."""
    plain = re.sub(r"[^a-z0-9-]", "-", text.lower()).strip("-")
    if plain == text and len(plain) <= limit:
        return plain
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{plain[: limit - _DIGEST_CHARS - 1].rstrip('-')}-{digest}".lstrip("-")


def pod_name(ref: AttemptRef, rank: int) -> str:
    fence = f"{ref.fence.epoch}-{ref.fence.counter}"
    return clean(f"ares-{clean(ref.job, 32)}-{fence}-{rank}")


def node_name(code: str, kube_node: str) -> str:
    """The node's name in Ares: two clusters may name theirs alike."""
    whole = f"{code}.{kube_node}"
    if len(whole) <= 128:
        return whole
    return f"{whole[:119]}-{hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_CHARS]}"


def spec_digest(spec: JobSpec) -> str:
    return hashlib.sha256(msgspec.json.encode(spec)).hexdigest()


def claim_of(start: Start, kube_node: str, *, once: bool, token: str = "", devices: bool = False) -> PodClaim:
    return PodClaim(
        ref=start.ref,
        rank=start.placement.rank,
        attempt=start.attempt,
        node=start.placement.node,
        kube_node=kube_node,
        incarnation=start.placement.incarnation,
        spec_sha256=spec_digest(start.spec),
        once=once,
        time_limit_s=start.spec.time_limit_s or 0.0,
        secret=bool(start.secrets or token),
        token_sha256=token_digest(token),
        project=start.spec.project or "",
        devices=devices and bool(start.placement.gpus),
    )


def read_claim(pod: Pod, code: str) -> PodClaim | None:
    """None for what is not ours: another cluster's code, no claim, or one that cannot be read."""
    text = pod.metadata.annotations.get(CLAIM)
    if text is None or pod.metadata.labels.get(CLUSTER_LABEL) != code:
        return None
    try:
        claim = msgspec.json.decode(text, type=PodClaim)
    except msgspec.MsgspecError:
        return None
    # Files of the agent are named by it, and its node joins by it: what is written there is not believed.
    fits = _JOB.fullmatch(claim.ref.job) and named_well(claim.kube_node) and claim.rank >= 0
    own = claim.node == node_name(code, claim.kube_node) and pod.metadata.name == pod_name(claim.ref, claim.rank)
    return claim if fits and own else None


def named_well(kube_node: str) -> bool:
    """As Kubernetes names nodes."""
    return len(kube_node) <= _NODE_NAME_MAX and _NODE_NAME.fullmatch(kube_node) is not None


def same_attempt(claim: PodClaim, other: PodClaim | None) -> bool:
    """Whether a pod that exists already is this attempt's: then its creation has succeeded before."""
    return other is not None and (claim.ref, claim.rank, claim.node, claim.incarnation, claim.spec_sha256) == (
        other.ref, other.rank, other.node, other.incarnation, other.spec_sha256,
    )  # fmt: skip


def manifest(claim: PodClaim, start: Start, env: Mapping[str, str], terms: PodTerms) -> dict[str, Any]:
    spec, name = start.spec, pod_name(claim.ref, claim.rank)
    image = terms.image if spec.image is None else spec.image.ref.removeprefix("docker://")
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": image,
        "env": [{"name": key, "value": _literal(value)} for key, value in sorted(env.items())]
        + secret_env(name, start),
        "resources": _resources(claim, start, terms),
        "terminationMessagePath": RESULT_FILE,
        "terminationMessagePolicy": "File",
        "securityContext": {"allowPrivilegeEscalation": False, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    if spec.command:
        # An image's own entry point stays, as on any other node.
        container["command" if spec.image is None else "args"] = [_literal(word) for word in spec.command]
    if spec.workdir is not None or spec.project is not None:
        container["workingDir"] = spec.workdir or WORK
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": terms.namespace,
            "finalizers": [FINALIZER],
            "labels": {
                CLUSTER_LABEL: terms.code,
                "ares/job": clean(claim.ref.job),
                "ares/tenant": clean(claim.ref.tenant),
                "ares/fence": str(claim.ref.fence),
                "ares/rank": str(claim.rank),
                **({} if spec.gang is None else {"ares/gang": "yes"}),
            },
            "annotations": {CLAIM: msgspec.json.encode(claim).decode()},
        },
        "spec": {
            **_scheduling(claim, terms),
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": max(1, math.ceil(spec.grace_s)),
            "tolerations": [_toleration(wish.key, wish.value) for wish in spec.tolerations],
            "containers": [container],
            **({"activeDeadlineSeconds": math.ceil(spec.time_limit_s + terms.pull_s)} if spec.time_limit_s else {}),
            **_network(start, name, terms),
        },
    }
    equip(made["spec"], name, start, terms.helper if claim.token_sha256 else None)
    return made


def _literal(text: str) -> str:
    """Kubernetes would put variables in the place of $(NAME)."""
    return text.replace("$(", "$$(")


def _scheduling(claim: PodClaim, terms: PodTerms) -> dict[str, Any]:
    """The node is Ares' own choice either way: kube-scheduler says whether there is room, and which devices."""
    if terms.bind == "ares":
        return {"schedulerName": SCHEDULER}
    there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [claim.kube_node]}]}
    only = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [there]}}
    return {
        "schedulerName": KUBE_SCHEDULER,
        "schedulingGates": [{"name": GATE}],
        "affinity": {"nodeAffinity": only},
        **({"resourceClaims": [{"name": DEVICES, "resourceClaimName": pod_name(claim.ref, claim.rank)}]}
           if claim.devices else {}),
    }  # fmt: skip


def gated(pod: Pod) -> bool:
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates)


def opening(pod: Pod, claim: PodClaim) -> list[dict[str, Any]]:
    """Takes our gate off this very pod, as it was seen: from then on kube-scheduler may bind it under this fence."""
    at = [gate.name for gate in pod.spec.scheduling_gates].index(GATE)
    meta, gate = pod.metadata, f"/spec/schedulingGates/{at}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": meta.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "test", "path": f"{gate}/name", "value": GATE},
        {"op": "remove", "path": gate},
        {"op": "add", "path": f"/metadata/annotations/{BOUND_FENCE.replace('/', '~1')}", "value": str(claim.ref.fence)},
    ]


def _resources(claim: PodClaim, start: Start, terms: PodTerms) -> dict[str, Any]:
    place, qos = start.placement, start.spec.qos
    cpu, memory = f"{place.cpu_milli}m", f"{place.memory_mib}Mi"
    gpus = {terms.gpu_resource: str(len(place.gpus))} if place.gpus and not claim.devices else {}
    most = {"memory": f"{MEMORY_BURST[qos] * place.memory_mib}Mi", **gpus}
    if qos == "guaranteed":
        most["cpu"] = cpu
    # A best-effort job has what is left over: it asks for none of it.
    least = {"cpu": "0", "memory": "0"} if qos == "best-effort" else {"cpu": cpu, "memory": memory}
    claims = {"claims": [{"name": DEVICES}]} if claim.devices else {}
    return {"requests": {**least, **gpus}, "limits": most, **claims}


def _toleration(key: str, value: str | None) -> dict[str, str]:
    return {"key": key, "operator": "Exists"} if value is None else {"key": key, "operator": "Equal", "value": value}


def _network(start: Start, name: str, terms: PodTerms) -> dict[str, Any]:
    if start.spec.gang is None:
        return {}
    if terms.host_network:
        return {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {"hostname": name, "subdomain": terms.service}


def address(ref: AttemptRef, rank: int, terms: PodTerms) -> str:
    """Where a rank's pod is found by the others of its gang."""
    return f"{pod_name(ref, rank)}.{terms.service}.{terms.namespace}.svc"


def binding(pod: Pod, claim: PodClaim) -> dict[str, Any]:
    """A compare-and-swap: this very pod, as it was seen, goes to this node under this fence."""
    meta = pod.metadata
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": {BOUND_FENCE: str(claim.ref.fence)},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": claim.kube_node},
    }
