"""A replay leaves out cycles that would decide nothing: its decisions are those of a replay that runs them all."""

import random
from typing import Any

import numpy as np
import pytest

from ares.check.replay.decisions import CycleDecisions
from ares.check.replay.trace import Trace
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.failures import drawn
from ares.sim.traces.policies import policy
from ares.sim.traces.standing import StandingPlan
from tests.unit.sim.traces.made import job, trace


def crowd(seed: int) -> Trace:
    """More jobs than there is room for; in every second trace some are urgent, can be preempted or have a deadline."""
    chance, found, at = random.Random(seed), list[Any](), 0.0
    for _ in range(60):
        at += chance.choice([0.0, chance.expovariate(1 / 15)])
        run = float(round(chance.expovariate(1 / 90)))
        more: dict[str, Any] = {}
        if chance.random() < (0.8 if seed % 3 else 0.0):
            more["expected_runtime_s"] = float(round(run * chance.uniform(0.3, 4.0))) + 1.0
        if seed % 2 and chance.random() < 0.2:
            more["priority"] = chance.choice(["HIGH", "LOW", "CRITICAL", "BEST_EFFORT"])
        if seed % 4 == 3 and chance.random() < 0.1:
            more["deadline_at"] = at + run + 500.0
        gang = chance.randint(2, 4) if chance.random() < 0.2 else 0
        if gang and seed % 4 == 1 and chance.random() < 0.3:
            more["min_ranks"] = 1
        found.append(
            job(at, run, chance.randint(1, 6), gpus=chance.choice([0, 0, 1, 2]), ranks=gang,
                tenant=f"t{chance.randint(0, 2)}", **more)
        )  # fmt: skip
    return trace(*found, nodes=3, cpus=8, gpus=4)


def _never(*_: object) -> bool:
    return False


@pytest.mark.parametrize("name", ["easy", "fair-share", "default"])
@pytest.mark.parametrize("seed", range(6))
def test_cycles_that_are_left_out_would_have_decided_nothing(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decided() -> tuple[list[CycleDecisions], int]:
        log: list[CycleDecisions] = []
        nodes = [node.name for node in given.nodes]
        failures = drawn(nodes, 0.0, 2000.0, mtbf_s=600.0, mttr_s=60.0, seed=seed) if seed > 3 else ()
        outcome = replay(given, policy(name), ReplayOptions(log=log.append, failures=failures))
        return log, outcome.facts.cycles

    given = crowd(seed)
    some, few = decided()
    monkeypatch.setattr(StandingPlan, "holds", _never)
    every, many = decided()
    assert some == every
    assert few < many if not seed % 2 else few <= many


@pytest.mark.parametrize("name", ["easy", "fair-share", "default", "easy@predicted"])
@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_where_promises_are_not_seen_cycles_that_start_nothing_are_left_out(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome() -> tuple[list[tuple[float, ...]], int]:
        found = replay(given, policy(name))
        jobs = found.jobs
        return list(zip(jobs.first_start, jobs.last_start, np.nan_to_num(jobs.end), strict=True)), found.facts.cycles

    given = crowd(seed)
    some, few = outcome()
    monkeypatch.setattr(StandingPlan, "starts_none", _never)
    monkeypatch.setattr(StandingPlan, "holds", _never)
    every, many = outcome()
    assert np.array_equal(some, every, equal_nan=True)
    assert few < many if not seed % 2 else few <= many


def test_of_jobs_that_end_at_one_moment_the_earlier_start_ends_first() -> None:
    log: list[CycleDecisions] = []
    # The second starts in the gap before the first, and both end at 100.
    given = trace(job(0.0, 20.0, 3), job(1.0, 80.0, 4), job(2.0, 98.0, 1), nodes=1, cpus=4)
    replay(given, policy("greedy"), ReplayOptions(log=log.append))
    assert [end.job for each in log for end in each.ended] == [0, 2, 1]
