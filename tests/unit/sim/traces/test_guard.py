"""Room held by likely run times: gaps are filled better, and the first in line does not wait for ever."""

import random
from math import inf

from msgspec.structs import replace as put

from ares.check.replay.checker import Checker
from ares.check.replay.decisions import CycleDecisions
from ares.check.replay.trace import Trace, TraceJob
from ares.core.schedule.cluster import Cluster
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.policies import ReplayPolicy, policy
from tests.unit.sim.traces.made import job, trace

HOUR = 3600.0
WIDE = 60


def _jobs() -> Trace:
    """Of three jobs two run for ten minutes and one for four hours: what is likely is outlived all the time. One job
    needs the whole machine."""
    chance = random.Random(1)
    found: list[TraceJob] = []
    for n in range(300):
        run_s = chance.choice((600.0, 600.0, 4 * HOUR))
        found.append(job(n * 720.0, run_s, user=f"u{n % 3}", time_limit_s=5 * HOUR, grace_s=0.0))
    found.insert(WIDE, job(found[WIDE].submit, 600.0, 8, user="w", time_limit_s=HOUR))
    return trace(*found, cpus=8)


def _guarded(guard_s: float) -> ReplayPolicy:
    by = policy("easy-sjbf@predicted")
    return put(by, profile=put(by.profile, backfill=put(by.profile.backfill, guard_s=guard_s)))


def _wait(guard_s: float) -> float:
    by = _guarded(guard_s)
    checker = Checker(_jobs(), by.name, by.profile)
    found = replay(_jobs(), by, ReplayOptions(log=checker)).jobs
    assert not checker.verdict().broken, "\n".join(checker.verdict().words())
    return float(found.first_start[WIDE] - found.submit[WIDE])


def test_the_first_in_line_is_not_passed_by_guesses_for_ever() -> None:
    unguarded, guarded = _wait(365 * 24 * HOUR), _wait(6 * HOUR)
    # By limits it can start when those that run by then have ended, five hours later at most.
    assert guarded <= 11 * HOUR + 60.0
    assert unguarded > 2 * guarded


def test_waiting_jobs_are_told_anew_how_long_they_run() -> None:
    """Ten jobs that come at once: of the last one it is known how long it runs when the first has ended."""
    seen: dict[float, tuple[float, float]] = {}

    def watch(cluster: Cluster, decision: CycleDecisions) -> None:
        if "00000009" in cluster.waiting:
            seen[decision.time] = cluster.waiting.likely_of("00000009"), cluster.waiting.runs_of("00000009")

    jobs = [job(0.0, 1000.0, user="me", time_limit_s=5000.0, grace_s=30.0) for _ in range(10)]
    replay(trace(*jobs, cpus=1), policy("easy-sjbf@predicted"), ReplayOptions(watch=watch))
    first, *_, last = sorted(seen)
    assert seen[first] == (5000.0, 5000.0)
    assert seen[last] == (1000.0, 1000.0)


def test_a_job_without_a_limit_is_held_by_the_longest_that_is_known() -> None:
    seen: set[float] = set()

    def watch(cluster: Cluster, decision: CycleDecisions) -> None:
        del decision
        seen.update(cluster.waiting.runs_of(job_id) for job_id in cluster.waiting.jobs())

    jobs = [job(n * 1.0, 10.0 if n % 4 else 1000.0, user="me") for n in range(24)]
    replay(trace(*jobs, cpus=1), policy("easy@predicted"), ReplayOptions(watch=watch))
    assert {inf, 1000.0} <= seen
    assert 10.0 not in seen
