"""Who may be evicted, at the edges of every rule; and what an eviction costs."""

from typing import Any

import pytest

from ares.core.schedule.preempt.eligible import Rule, eligible
from ares.core.schedule.preempt.holders import Asker, EvictionCandidate, Freed, lost_gpu_s
from ares.model.profile import PreemptionPolicy

HOLDER = EvictionCandidate(
    "h", 3, "b/x/1", 1000, 1000, 100.0, 100.0, 0, None, True, ((0, Freed(1000, 1, ((0, 1000),))),)
)
ASKER = Asker("a", 1, "a/x/1", {"a": -1, "b": 1}, asked=1)
CRITICAL: dict[str, Any] = {"level": 0}

CASES: list[tuple[Rule, dict[str, Any], dict[str, Any], str | None]] = [
    ("priority", {}, {}, None),
    ("priority", {"level": 2}, {}, "gap"),
    ("priority", {"job": "a"}, {}, "itself"),
    ("priority", {"preemptible": False}, {}, "not-preemptible"),
    ("priority", {"ran_s": 60.0}, {}, None),
    ("priority", {"ran_s": 59.9}, {}, "min-runtime"),
    ("priority", {"preempted_s_ago": 300.0}, {}, None),
    ("priority", {"preempted_s_ago": 299.9}, {}, "cooldown"),
    ("priority", {"preemptions": 2}, {}, None),
    ("priority", {"preemptions": 3}, {}, "cap"),
    ("reclaim", {"level": 1}, {}, None),
    ("reclaim", CRITICAL, {}, "critical"),
    ("reclaim", CRITICAL, {"level": 0}, None),
    ("reclaim", {}, {"standing": {"a": -1, "b": 0}}, "not-borrowing"),
    ("reclaim", {}, {"standing": {"a": -1}}, "not-borrowing"),
    ("reclaim", {}, {"standing": {"a": 0, "b": 1}}, "asker-would-borrow"),
    ("reclaim", {}, {"asked": 2}, "asker-would-borrow"),
    ("reclaim", {}, {"standing": {"a/x": -1, "b/x/1": 1}}, None),
    ("reclaim", {"account": "a/y/1"}, {}, "not-borrowing"),
    ("reclaim", {"account": "a/y/1"}, {"standing": {"a": 5, "a/x": -1, "a/y": 1}}, None),
    ("reclaim", {"account": "a/x/1"}, {"standing": {"a/x/1": 1}}, "not-borrowing"),
    ("reclaim", {"ran_s": 1.0}, {}, "min-runtime"),
    ("consolidate", CRITICAL, {}, None),
    ("consolidate", {"preemptions": 3}, {}, "cap"),
    ("drain", {**CRITICAL, "ran_s": 0.0, "preemptible": False, "preemptions": 9}, {}, None),
]


@pytest.mark.parametrize(("rule", "holder", "asker", "why"), CASES)
def test_eligible(rule: Rule, holder: dict[str, Any], asker: dict[str, Any], why: str | None) -> None:
    assert eligible(HOLDER._replace(**holder), ASKER._replace(**asker), PreemptionPolicy(), rule) == why


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({}, 100.0),
        ({"since_checkpoint_s": 2.5}, 2.5),
        ({"gpus_milli": 500}, 50.0),
        ({"gpus_milli": 0, "cpu_milli": 64_000}, 200.0),
        ({"gpus_milli": 0, "at": ((0, Freed(1000, 1, (), (("mig-1g.10gb", 2),))),)}, 28.6),
        ({"gpus_milli": 0, "at": ((0, Freed(1000, 1, (), (("tpu-v4", 4),))),)}, 400.0),
    ],
)
def test_lost_work(changes: dict[str, Any], lost: float) -> None:
    assert lost_gpu_s(HOLDER._replace(**changes)) == lost
