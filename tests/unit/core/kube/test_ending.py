"""What the end of a pod means for its attempt."""

from typing import Any

import msgspec
import pytest

from ares.core.kube.ending import end_of, pull_trouble, seconds
from ares.core.kube.pod import PodClaim
from ares.model.base import AttemptRef, Fence
from ares.model.kube import Pod

CLAIM = PodClaim(
    ref=AttemptRef(job="j", tenant="t", fence=Fence()), rank=0, attempt=1, node="k.n", kube_node="n", incarnation=1,
    spec_sha256="0", time_limit_s=5.0,
)  # fmt: skip
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}


def pod(phase: str, code: int | None = None, *, meta: dict[str, Any] | None = None, **status: Any) -> Pod:
    ended = {"exitCode": code, "finishedAt": "2026-01-01T00:00:10Z", **status.pop("ended", {})}
    containers = [] if code is None else [{"name": "job", "state": {"terminated": ended}}]
    whole = {"metadata": meta or {}, "status": {"phase": phase, "containerStatuses": containers, **status}}
    return msgspec.convert(whole, Pod)


@pytest.mark.parametrize(
    ("seen", "kind", "failure"),
    [
        (pod("Succeeded", 0), "exited", None),
        (pod("Failed", 7), "exited", "exit"),
        (pod("Failed", 137, ended={"reason": "OOMKilled"}), "exited", "oom"),
        (pod("Failed", 137, reason="DeadlineExceeded"), "exited", "time-limit"),
        (pod("Failed", 128, ended={"reason": "StartError", "message": "no such file"}), "exited", "staging"),
        (pod("Failed", 143, conditions=[DISRUPTED]), "evicted", "signal"),
        (pod("Failed", None, reason="Evicted"), "evicted", "node-lost"),
        (pod("Failed", None, reason="OutOfcpu"), "refused", "staging"),
        (pod("Failed", None, reason="UnexpectedAdmissionError"), "refused", "staging"),
        (pod("Failed", 137, ended={"reason": "ContainerStatusUnknown"}), "lost", "node-lost"),
    ],
)
def test_each_end_has_its_class(seen: Pod, kind: str, failure: str | None) -> None:
    end = end_of(seen, CLAIM)
    assert end is not None
    assert (end.kind, end.exit.failure) == (kind, failure)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", ""])
def test_a_pod_that_may_run_has_not_ended(phase: str) -> None:
    assert end_of(pod(phase, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), CLAIM) is None


def test_a_pod_that_exits_with_0_because_it_was_deleted_has_not_succeeded() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:35Z", "deletionGracePeriodSeconds": 30}
    told = end_of(pod("Succeeded", 0, meta=leaving), CLAIM)
    assert told is not None
    assert told.kind == "evicted"
    before = {"deletionTimestamp": "2026-01-01T00:00:45Z", "deletionGracePeriodSeconds": 30}
    done = end_of(pod("Succeeded", 0, meta=before), CLAIM)
    assert done is not None
    assert done.kind == "exited"


def test_an_image_that_cannot_be_had_says_so() -> None:
    waiting = {"name": "job", "state": {"waiting": {"reason": "InvalidImageName", "message": "bad"}}}
    seen = msgspec.convert({"status": {"phase": "Pending", "containerStatuses": [waiting]}}, Pod)
    assert pull_trouble(seen) == ("InvalidImageName: bad", True)


def test_times_have_fractions_or_not() -> None:
    assert seconds("1970-01-01T00:00:02.500000000Z") == 2.5
    assert (seconds(None), seconds("nonsense")) == (0.0, 0.0)
