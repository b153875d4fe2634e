"""How a pod ended, and what that means for its attempt."""

import re
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from ares.core.kube.pod import CONTAINER, PodClaim
from ares.model.job import FailureClass
from ares.model.kube import ContainerEnd, KubeCondition, Pod
from ares.model.state import ExitInfo

# exited: by itself. evicted: the cluster took its room back, or a person its pod; it costs no retry. refused: the node
# did not take it, and no process ran. lost: nothing is known of its last moments.
EndKind = Literal["exited", "evicted", "refused", "lost"]

_REFUSALS: Final = frozenset({"UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "TopologyAffinityError"})
_EVICTIONS: Final = frozenset({"Evicted", "Preempting", "NodeShutdown", "Shutdown", "Terminated", "NodeLost"})
_UNKNOWN_EXIT: Final = "ContainerStatusUnknown"
# Waiting reasons of an image that cannot be had: now, or as it is written.
_PULLS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
_HOPELESS: Final = frozenset({"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})


class PodEnd(msgspec.Struct, frozen=True, gc=False):
    kind: EndKind
    exit: ExitInfo
    # When, by the kubelet's clock; 0: it is not known.
    at: float = 0.0
    # What the job wrote to its result file.
    value: bytes = b""


def main_state(pod: Pod) -> tuple[ContainerEnd | None, float]:
    """How the job's container ended, and when it began; None and 0 while that is not known."""
    for status in pod.status.container_statuses:
        if status.name == CONTAINER:
            ended, runs = status.state.terminated, status.state.running
            began = seconds(ended.started_at if ended is not None else runs.started_at if runs is not None else None)
            return ended, began
    return None, 0.0


def pull_trouble(pod: Pod) -> tuple[str, bool]:
    """Why the container cannot be made, in words, and whether that is for good; nothing when all is well."""
    for status in pod.status.container_statuses:
        waiting = status.state.waiting
        if waiting is not None and waiting.reason in _PULLS | _HOPELESS:
            text = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
            return text, waiting.reason in _HOPELESS
    return "", False


def unschedulable(pod: Pod) -> str:
    """Why kube-scheduler has not bound it yet, in its own words."""
    waits = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    return "it has not looked at it" if waits is None else waits.message or waits.reason


def end_of(pod: Pod, claim: PodClaim) -> PodEnd | None:
    """None while the pod may run."""
    if not pod.over:
        return None
    ended, _ = main_state(pod)
    disruption = next((c for c in pod.status.conditions if c.type == "DisruptionTarget" and c.status == "True"), None)
    if ended is None:
        return _without_exit(pod, disruption)
    at = seconds(ended.finished_at)
    if ended.reason == _UNKNOWN_EXIT:
        return PodEnd("lost", _exit(ended, "node-lost", "its node lost sight of its container"), at)
    if told_to_leave(pod, at):
        return PodEnd("evicted", _exit(ended, "signal", _why_evicted(pod, disruption)), at)
    if ended.exit_code == 0 and not ended.signal:
        return PodEnd("exited", ExitInfo(code=0), at, ended.message.encode())
    if disruption is not None or pod.status.reason in _EVICTIONS:
        return PodEnd("evicted", _exit(ended, "signal", _why_evicted(pod, disruption)), at)
    if pod.status.reason == "DeadlineExceeded":
        return PodEnd(
            "exited", _exit(ended, "time-limit", f"stopped at its time limit of {claim.time_limit_s:g} s"), at
        )
    if ended.reason == "OOMKilled":
        return PodEnd("exited", _exit(ended, "oom", "killed for using more memory than it may"), at)
    failure: FailureClass = "signal" if ended.signal else "staging" if _never_ran(ended) else "exit"
    message = ended.message[:2000] if failure == "staging" else ""
    return PodEnd("exited", _exit(ended, failure, message), at)


def _without_exit(pod: Pod, disruption: KubeCondition | None) -> PodEnd:
    """It ended without a word about the container: the kubelet did not take it, or it was gone before it began."""
    reason, words = pod.status.reason, pod.status.message
    if disruption is not None or reason in _EVICTIONS or pod.metadata.deletion_timestamp is not None:
        return PodEnd("evicted", ExitInfo(failure="node-lost", message=_why_evicted(pod, disruption)))
    if any(status.state.terminated is not None for status in pod.status.init_container_statuses):
        return PodEnd("exited", ExitInfo(failure="staging", message="its helper could not make it ready to start"))
    text = f"the node did not take its pod: {reason or 'no reason was given'}" + (f": {words}" if words else "")
    kind: EndKind = "refused" if reason.startswith("OutOf") or reason in _REFUSALS else "exited"
    return PodEnd(kind, ExitInfo(failure="staging", message=text[:2000]))


def _never_ran(ended: ContainerEnd) -> bool:
    """The container was made, and its command could not be started."""
    return ended.reason in ("ContainerCannotRun", "StartError")


def told_to_leave(pod: Pod, finished_at: float) -> bool:
    """Whether the pod was deleted before it ended: how it ended says nothing then, as of any that is told to end."""
    meta = pod.metadata
    if meta.deletion_timestamp is None:
        return False
    asked_at = seconds(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0)
    return finished_at == 0.0 or finished_at >= asked_at


def _why_evicted(pod: Pod, disruption: KubeCondition | None) -> str:
    if disruption is not None:
        words = f": {disruption.message}" if disruption.message else ""
        return f"Kubernetes took its pod away ({disruption.reason}{words})"[:2000]
    if pod.status.reason in _EVICTIONS:
        return f"Kubernetes took its pod away ({pod.status.reason}: {pod.status.message})"[:2000]
    return f"its pod {pod.metadata.name} was deleted"


def _exit(ended: ContainerEnd, failure: FailureClass, message: str) -> ExitInfo:
    signal = f"SIG{ended.signal}" if ended.signal else None
    code = min(max(ended.exit_code, -(2**31)), 2**31 - 1)
    return ExitInfo(code=None if signal else code, signal=signal, failure=failure, message=message)


_FRACTION: Final = re.compile(r"(\.\d{1,6})\d*")


def seconds(stamp: str | None) -> float:
    """A time of Kubernetes as seconds since the epoch; 0 when there is none."""
    if not stamp:
        return 0.0
    try:
        return datetime.fromisoformat(_FRACTION.sub(r"\1", stamp)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
