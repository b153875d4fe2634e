"""A shadow profile is judged by a replay of the jobs that came, and by nothing that may be chance."""

import msgspec
import pytest
from msgspec.structs import replace

from ares.check.replay.trace import node
from ares.control.shadow.messages import PastJob, ShadowAnswer, ShadowQuestion
from ares.core.schedule.profiles import changed
from ares.model.job import JobSpec, Resources
from ares.model.profile import Profile
from ares.model.state import JobState
from ares.sim.tune.shadow import judge, past

HOUR = 3600.0
PLAIN = changed(Profile(), {"actions": "claim,allocate", "order.primary.fifo": "1"})
FILLS = changed(PLAIN, {"actions": "claim,allocate,backfill"})


def came(at: float, run_s: float, cpus: int, name: str, ended: bool = True) -> PastJob:
    spec = JobSpec(
        command=("true",), resources=Resources(cpu_milli=1000 * cpus, memory_mib=1), expected_runtime_s=run_s,
        time_limit_s=10 * run_s, name=name,
    )  # fmt: skip
    state = JobState(
        id=name, tenant="t", name=name, phase="SUCCEEDED" if ended else "RUNNING", submitted_at=at, queued_at=at,
        started_at=at, ended_at=at + run_s if ended else None,
    )  # fmt: skip
    return PastJob(msgspec.Raw(msgspec.json.encode(spec)), msgspec.Raw(msgspec.json.encode(state)))


def asked(jobs: list[PastJob], base: Profile, other: Profile, chance: float = 0.025) -> ShadowAnswer:
    question = ShadowQuestion(
        base=base, shadow=other, objective="slowdown", since=0.0, now=400 * HOUR, chance=chance,
        nodes=(node("n1", 10),), jobs=tuple(jobs),
    )  # fmt: skip
    return msgspec.json.decode(judge(msgspec.json.encode(question)), type=ShadowAnswer)


def busy(hours: int = 60) -> list[PastJob]:
    """Every hour a job that leaves two CPUs, one that needs all, and small ones that could run beside the first."""
    jobs: list[PastJob] = []
    for hour in range(hours):
        jobs.append(came(hour * HOUR, 1500, 8, f"long-{hour}"))
        jobs.append(came(hour * HOUR + 10, 600, 10, f"wide-{hour}"))
        jobs += [came(hour * HOUR + 20 + at, 60, 1, f"small-{hour}-{at}") for at in range(3)]
    return jobs


def test_backfilling_is_found_to_be_better_with_an_interval_above_zero() -> None:
    found = asked(busy(), PLAIN, FILLS)
    assert found.verdict == "better"
    assert (found.jobs, found.others, found.blocks) == (300, 0, 8)
    assert found.low is not None
    assert 0.0 < found.low <= found.gain
    back = asked(busy(), FILLS, PLAIN)
    assert back.verdict == "worse"


def test_a_change_that_decides_nothing_makes_no_difference() -> None:
    found = asked(busy(), FILLS, changed(FILLS, {"preemption.gap": "1"}))
    assert (found.verdict, found.gain) == ("no-difference", 0.0)


def test_a_gain_does_not_pay_for_a_job_that_waits_far_longer() -> None:
    """Small jobs without end, under a policy by which whatever fits starts: the wide job never finds room."""
    jobs = [came(at * 60.0, 300, 2, f"small-{at}") for at in range(2000)]
    jobs[300:300] = [came(300 * 60.0 - 1, 300, 10, "wide")]
    found = asked(jobs, FILLS, changed(FILLS, {"backfill.strategy": "greedy"}))
    assert found.verdict == "waits-longer"
    assert found.shadow.longest_wait_s > 10 * HOUR > found.base.longest_wait_s


def test_a_few_jobs_say_nothing() -> None:
    found = asked(busy(1), PLAIN, FILLS)
    assert (found.verdict, found.low) == ("too-few", None)


def test_jobs_from_before_and_jobs_that_still_run_hold_room_and_do_not_count() -> None:
    jobs = [came(-HOUR, 2 * HOUR, 8, "before"), *busy(2), came(HOUR, 60, 2, "runs", ended=False)]
    question = ShadowQuestion(
        base=PLAIN, shadow=FILLS, objective="wait", since=0.0, now=400 * HOUR, chance=0.05,
        nodes=(node("n1", 10),), jobs=tuple(jobs),
    )  # fmt: skip
    trace, counted = past(question)
    uncounted = {job.id: job.run_s for job, counts in zip(trace.jobs, counted, strict=True) if not counts}
    assert uncounted == {"before": 2 * HOUR, "runs": pytest.approx(399 * HOUR)}
    assert int(counted.sum()) == 10


def test_the_objective_is_what_it_is_judged_by() -> None:
    question = ShadowQuestion(
        base=PLAIN, shadow=FILLS, objective="jct", since=0.0, now=400 * HOUR, chance=0.025,
        nodes=(node("n1", 10),), jobs=tuple(busy()),
    )  # fmt: skip
    found = msgspec.json.decode(judge(msgspec.json.encode(question)), type=ShadowAnswer)
    expected = (found.base.mean_jct_s - found.shadow.mean_jct_s) / found.base.mean_jct_s
    assert found.gain == pytest.approx(expected)
    waits = msgspec.json.decode(judge(msgspec.json.encode(replace(question, objective="wait"))), type=ShadowAnswer)
    assert waits.gain > found.gain
