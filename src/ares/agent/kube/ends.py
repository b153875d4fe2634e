"""When an attempt's pod is over, and what is reported of it. A pod that may run is never said to be gone."""

from typing import Any, Final, Protocol

from ares.agent.attempts.exits import not_started, unkept
from ares.agent.kube.placing import Muster
from ares.agent.kube.pod_attempt import PodAttempt
from ares.core.kube.ending import PodEnd, end_of
from ares.core.kube.pod import PodClaim, PodTerms
from ares.core.lifecycle.outputs import decode_result
from ares.model.kube import Pod
from ares.model.link import Exited, Fenced, Start
from ares.model.state import ExitInfo
from ares.ports.clock import Clock

# A pod that was removed by force: how long beyond its grace a kubelet that is alive may take to end what ran.
_FORCED_S: Final = 30.0
# What is told of an end, in words: the cluster wrote some of them.
_WORDS_MAX: Final = 2000
# As much as a kubelet hands on.
_RESULT_MAX: Final = 4096


class Surroundings(Protocol):
    """What a node's attempts know of their cluster."""

    @property
    def terms(self) -> PodTerms: ...

    @property
    def muster(self) -> Muster: ...

    def exists(self, kube_node: str) -> bool: ...

    def alive(self, kube_node: str) -> bool:
        """Its kubelet says that it is ready."""
        ...

    def out_of_service(self, kube_node: str) -> bool:
        """A person has said that nothing runs there any more."""
        ...

    def refused(self, kube_node: str) -> None:
        """It did not take a pod that there was room for."""
        ...

    def new_token(self) -> str:
        """For the helper of one pod; empty where pods have none."""
        ...

    @property
    def certificate(self) -> str:
        """Of the door, by which helpers know it."""
        ...

    def manifest(self, claim: PodClaim, start: Start) -> dict[str, Any]: ...

    def gives_devices(self, kube_node: str) -> bool:
        """Its GPUs are given by claims."""
        ...

    def device_claim(self, pod: Pod, claim: PodClaim, start: Start) -> dict[str, Any] | None:
        """On the GPUs that the attempt was placed with; None when the node does not have all of them any more."""
        ...

    def ranks_here(self, start: Start) -> frozenset[int]:
        """The ranks of its gang that come to this cluster."""
        ...


def pod_end(attempt: PodAttempt, around: Surroundings, clock: Clock) -> PodEnd | None:
    """None while its pod may run: by the kubelet's word, or for want of it."""
    pod, node = attempt.pod, attempt.claim.kube_node
    assert pod is not None, "it was placed"
    if (end := end_of(pod, attempt.claim)) is not None:
        return _own_end(attempt, end)
    leaving = pod.metadata.deletion_timestamp is not None
    if not pod.spec.node_name:
        # The server binds no pod that is being deleted.
        never = ExitInfo(failure="staging", message=f"its pod {attempt.name} was deleted before it was bound")
        return _own_end(attempt, PodEnd("refused", never)) if leaving or attempt.vanished is not None else None
    if not around.exists(node):
        return PodEnd("lost", ExitInfo(failure="node-lost", message=f"node {node} was deleted from Kubernetes"))
    if leaving and around.out_of_service(node):
        return PodEnd("lost", ExitInfo(failure="node-lost", message=f"node {node} was put out of service"))
    if attempt.vanished is not None and around.alive(node):
        grace_s = pod.metadata.deletion_grace_period_seconds or 0
        if clock.monotonic() - attempt.vanished > grace_s + _FORCED_S:
            gone = f"its pod {attempt.name} was removed by force"
            return _own_end(attempt, PodEnd("evicted", ExitInfo(failure="node-lost", message=gone)))
    return None


def _own_end(attempt: PodAttempt, end: PodEnd) -> PodEnd:
    """An end that this agent brought about is told as what it was for."""
    if attempt.timed_out and end.kind == "evicted":
        limit = f"stopped at its time limit of {attempt.claim.time_limit_s:g} s"
        return PodEnd("exited", ExitInfo(failure="time-limit", message=limit), end.at)
    if attempt.unscheduled and end.kind == "refused":
        why = f"kube-scheduler did not bind its pod to {attempt.claim.kube_node}: {attempt.unscheduled}"
        return PodEnd("refused", ExitInfo(failure="staging", message=why[:_WORDS_MAX]))
    if attempt.unstaged is not None and end.kind != "evicted":
        return PodEnd("exited", attempt.unstaged, end.at)
    if attempt.unpulled and end.kind != "exited":
        trouble = f"its image cannot be had: {attempt.unpulled}"[:_WORDS_MAX]
        return PodEnd("exited", ExitInfo(failure="staging", message=trouble, lasting=attempt.lasting), end.at)
    return end


def with_result(end: PodEnd) -> PodEnd:
    """What its job wrote is JSON, or the end says why it is not kept: a failure, as on every node."""
    if not end.value:
        return end
    try:
        if len(end.value) > _RESULT_MAX:
            raise ValueError(f"it has more than {_RESULT_MAX:,} bytes")
        decode_result(end.value)
    except ValueError as error:
        words = f"its result cannot be kept: {error}"[:_WORDS_MAX]
        return PodEnd(end.kind, unkept(end.exit, words), end.at)
    return end


def final_report(attempt: PodAttempt, end: PodEnd, now: float) -> Exited | Fenced:
    (ref, rank), number, lost = attempt.key, attempt.final, attempt.tail.lost
    assert number is not None
    never = end.kind == "refused"
    if attempt.fenced and not (never and attempt.claim.once):
        return Fenced(number=number, ref=ref, rank=rank, reason=attempt.fenced, log_lost=lost)
    if never and (attempt.claim.once or end.exit.lasting):
        # Proof that no process ran.
        return Exited(number=number, ref=ref, rank=rank, exit=not_started(end.exit.message), at=now)
    if end.kind != "exited":
        words = end.exit.message
        return Fenced(number=number, ref=ref, rank=rank, reason=words, log_lost=lost, evicted=end.kind != "lost")
    return Exited(
        number=number, ref=ref, rank=rank, exit=end.exit, at=end.at or now, value=end.value,
        outputs=attempt.kept_files or (), log_lost=lost,
    )  # fmt: skip
