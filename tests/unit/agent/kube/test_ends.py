"""What is reported of a pod's end."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from ares.agent.files.spool import Tail
from ares.agent.kube.ends import pod_end, with_result
from ares.agent.kube.pod_attempt import PodAttempt
from ares.core.kube.ending import PodEnd
from ares.core.kube.pod import PodClaim
from ares.model.base import AttemptRef, Fence
from ares.model.kube import Pod
from ares.model.state import ExitInfo

_CLAIM = PodClaim(
    ref=AttemptRef(job="j", tenant="t", fence=Fence(epoch=1, counter=1)), rank=0, attempt=1, node="k1.n", kube_node="n",
    incarnation=1, spec_sha256="",
)  # fmt: skip
_LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 10}


def said(meta: dict[str, Any], *, bound: bool = True, vanished_s: float | None = None, **around: bool) -> str:
    """Of a pod that its kubelet has not said to be over: how it ended; empty while it may run."""
    known = {"exists": True, "alive": True, "out_of_service": False, **around}
    pod = msgspec.convert({"metadata": meta, "spec": {"nodeName": "n" if bound else ""}}, Pod)
    attempt = PodAttempt(_CLAIM, Tail("/nowhere", 1), pod=pod, vanished=None if vanished_s is None else 0.0)
    surroundings = SimpleNamespace(**{name: lambda _, yes=yes: yes for name, yes in known.items()})
    clock = SimpleNamespace(monotonic=lambda: vanished_s or 0.0)
    end = pod_end(attempt, cast("Any", surroundings), cast("Any", clock))
    return "" if end is None else end.kind


def test_a_pod_that_may_run_is_never_said_to_be_gone() -> None:
    """It was deleted, by hand or by another; its node is silent; it was removed by force: none of it is the word."""
    assert said({}) == said(_LEAVING) == said(_LEAVING, alive=False) == said({}, alive=False) == ""
    assert said({}, out_of_service=True) == ""
    assert said(_LEAVING, vanished_s=39.0) == said(_LEAVING, vanished_s=1e6, alive=False) == ""


def test_what_says_that_a_pod_is_gone() -> None:
    assert said({}, exists=False) == said(_LEAVING, exists=False, alive=False) == "lost"
    assert said(_LEAVING, out_of_service=True, alive=False) == "lost"
    # A kubelet that is alive has had its grace, and more.
    assert said(_LEAVING, vanished_s=41.0) == "evicted"
    # Bound nowhere, and the server binds none that is being deleted.
    assert said(_LEAVING, bound=False) == said({}, bound=False, vanished_s=1.0) == "refused"
    assert said({}, bound=False) == ""


def test_a_result_is_kept_as_it_is() -> None:
    end = PodEnd("exited", ExitInfo(code=0), 1.0, b'{"loss": 1}')
    assert with_result(end) is end


@pytest.mark.parametrize(
    "text", [b"all is well", b'{"a": ', b"\xff", b"[" * 3000 + b"]" * 3000, b'"' + b"x" * 5000 + b'"']
)
def test_what_is_no_result_fails_its_job_in_words(text: bytes) -> None:
    """Whatever a container wrote to its termination log: it would end the session with the control plane."""
    end = with_result(PodEnd("exited", ExitInfo(code=0), 1.0, text))
    assert (end.value, end.exit.failure, end.exit.code) == (b"", "exit", 0)
    assert end.exit.message.startswith("its result cannot be kept: ")
