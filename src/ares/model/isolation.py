"""Isolation: how well a job is kept apart from everything else on its node."""

from collections.abc import Iterable
from typing import Final, Literal

# Each gives all that the one before it gives.
Isolation = Literal["any", "process", "sandbox"]
LEVELS: Final[tuple[Isolation, ...]] = ("any", "process", "sandbox")
# The network that a job sees: the node's, or only a loopback of its own.
Network = Literal["host", "none"]


def stronger(level: Isolation, other: Isolation) -> Isolation:
    return level if LEVELS.index(level) >= LEVELS.index(other) else other


# A node whose jobs are pods of Kubernetes, and one of these where jobs without an image run too.
PODS: Final = "pods"
BARE_PODS: Final = "pod-default-image"
# And one whose pods have files of projects.
POD_FILES: Final = "pod-files"

# The parts of a node that make a sandbox; limits come on top, from control groups.
BOX: Final = frozenset({"mount-namespace", "ipc-namespace", "uts-namespace", "seccomp", "no-new-privs"})
OWN_USER: Final = "uid-per-tenant"
_LIMITS: Final = frozenset({"cgroup-v1", "cgroup-v2"})


def shortfall(parts: Iterable[str]) -> str:
    """What jobs on a node are not kept from though they should be, in words; empty when they are in sandboxes."""
    have = frozenset(parts)
    missing = ", ".join(sorted(BOX - have))
    if not missing:
        return "" if have & _LIMITS else "jobs are in sandboxes without limits on memory, CPU and processes: no cgroups"
    if OWN_USER in have:
        return f"jobs are in no sandbox, only users of their own who read what everybody there may: no {missing}"
    return (
        f"jobs are in no sandbox and read whatever the agent may, its credential and a server's keys there included: "
        f"no {missing}"
    )
