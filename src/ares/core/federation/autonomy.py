"""A cluster with and without its global plane: three modes, and what works in each."""

from typing import Literal

ClusterMode = Literal["FEDERATED", "AUTONOMOUS", "RECONCILING"]
# "cut": nothing was heard of the global plane for AUTONOMOUS_S. "connected": it answered the hello. "settled": every
# verdict of healing is durable. "restored": the cluster's own store began a new epoch.
ModeInput = Literal["cut", "connected", "settled", "restored"]
# By the cluster's own monotonic clock.
AUTONOMOUS_S = 15.0

MODE_STEPS: dict[tuple[ClusterMode, ModeInput], ClusterMode] = {
    ("FEDERATED", "cut"): "AUTONOMOUS",
    ("FEDERATED", "connected"): "RECONCILING",
    ("FEDERATED", "restored"): "RECONCILING",
    ("AUTONOMOUS", "connected"): "RECONCILING",
    ("RECONCILING", "settled"): "FEDERATED",
    ("RECONCILING", "cut"): "AUTONOMOUS",
}

Act = Literal[
    "run what it owns", "retry and preempt", "submit locally", "sign in with a local token", "read jobs and logs here",
    "take offers", "change roles and keys", "change quotas", "route jobs elsewhere",
]  # fmt: skip
_ALONE: frozenset[ClusterMode] = frozenset({"FEDERATED", "AUTONOMOUS", "RECONCILING"})
# Published in docs/concepts/federation.md, word for word.
WORKS: dict[Act, frozenset[ClusterMode]] = {
    "run what it owns": _ALONE,
    "retry and preempt": _ALONE,
    "submit locally": _ALONE,
    "sign in with a local token": _ALONE,
    "read jobs and logs here": _ALONE,
    "take offers": frozenset({"FEDERATED"}),
    "change roles and keys": frozenset({"FEDERATED"}),
    "change quotas": frozenset({"FEDERATED"}),
    "route jobs elsewhere": frozenset({"FEDERATED"}),
}


def step(mode: ClusterMode, happened: ModeInput) -> ClusterMode:
    """What is not in the table changes nothing."""
    return MODE_STEPS.get((mode, happened), mode)
