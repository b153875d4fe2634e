"""Whether a deadline can be met: what is said, what is offered, and that it comes true."""

import heapq
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.api.deadlines import Outlook
from ares.core.schedule.cluster import Cluster
from ares.core.starts.deadlines import outlook, ways
from ares.model.job import Gang, JobSpec
from ares.model.state import Placement
from tests.unit.core.world import NOW, cluster, cycle_at, node, placed, run, spec, state

HOUR = 3600.0
NEW = state("new", NOW)


def _hold(made: Cluster, job: str, place: Placement, for_s: float | None, **said: Any) -> None:
    # A while ago, so that it may be preempted.
    since = NOW - 600.0
    runs = None if for_s is None else for_s + 600.0
    asked = spec(gpus=len(place.gpus), expected_runtime_s=runs, **said)
    run(made, job, asked, place, since=since)


def _seen(made: Cluster, asked: JobSpec) -> Outlook:
    found = outlook(made, NEW, asked, NOW)
    assert found is not None
    return found


def test_a_job_without_a_deadline_has_no_outlook() -> None:
    assert outlook(cluster(node("a")), NEW, spec(expected_runtime_s=1.0), NOW) is None


@pytest.mark.parametrize(("due_s", "verdict"), [(HOUR, "yes"), (HOUR - 1.0, "no"), (-1.0, "no"), (0.0, "no")])
def test_with_room_it_is_a_matter_of_its_run_time(due_s: float, verdict: str) -> None:
    made = cluster(node("a"))
    seen = _seen(made, spec(expected_runtime_s=HOUR, deadline_at=NOW + due_s))
    assert (seen.verdict, seen.starts_at, seen.ends_at) == (verdict, NOW, NOW + HOUR)
    assert "new" not in made.waiting


def test_without_an_estimate_nobody_can_say() -> None:
    seen = _seen(cluster(node("a")), spec(deadline_at=NOW + HOUR))
    assert (seen.verdict, seen.ends_at) == ("unknown", None)
    assert "nothing tells how long the job runs" in seen.message


def test_what_can_never_run_meets_no_deadline() -> None:
    seen = _seen(cluster(node("a")), spec(gpus=1, expected_runtime_s=1.0, deadline_at=NOW + HOUR))
    assert seen.verdict == "no"
    assert "can never run" in seen.message


def test_holders_that_do_not_say_when_they_end_leave_it_open() -> None:
    made = cluster(node("a", gpus=1))
    _hold(made, "r", placed("a", gpus=(0,)), None)
    seen = _seen(made, spec(gpus=1, expected_runtime_s=60.0, deadline_at=NOW + HOUR))
    assert seen.verdict == "unknown"
    assert "do not say how long they run" in seen.message


def test_it_waits_for_holders_and_for_those_ahead_of_it() -> None:
    made = cluster(node("a", gpus=1))
    _hold(made, "r", placed("a", gpus=(0,)), HOUR)
    asked = spec(gpus=1, expected_runtime_s=HOUR, deadline_at=NOW + 2.5 * HOUR)
    assert _seen(made, asked).ends_at == NOW + 2 * HOUR
    made.enqueue(state("ahead", 0.0), spec(gpus=1, priority="HIGH", expected_runtime_s=2 * HOUR))
    seen = _seen(made, asked)
    assert (seen.verdict, seen.starts_at, seen.ends_at) == ("no", NOW + 3 * HOUR, NOW + 4 * HOUR)
    assert "1 job that holds its place and 1 job ahead of it" in seen.basis
    assert "1 h 30 min too late" in seen.message


def test_a_time_to_start_by() -> None:
    made = cluster(node("a", gpus=1))
    _hold(made, "r", placed("a", gpus=(0,)), HOUR)
    # How long it runs does not matter then.
    assert _seen(made, spec(gpus=1, start_by_at=NOW + HOUR)).verdict == "yes"
    assert _seen(made, spec(gpus=1, start_by_at=NOW + HOUR - 1.0)).verdict == "no"


def test_the_gpu_on_which_it_ends_first_counts() -> None:
    made = cluster(node("fast", gpus=2, model="A100"), node("slow", gpus=2, model="V100"))
    _hold(made, "r", placed("fast", gpus=(0, 1)), 600.0)
    runs = {"A100": 1000.0, "V100": 3000.0}
    for asked in (spec(gpus=1), spec(gpus=2), spec(gpus=1, gang=Gang(ranks=2))):
        seen = _seen(made, replace(asked, expected_runtimes_s=runs, deadline_at=NOW + 1600.0))
        assert (seen.verdict, seen.ends_at) == ("yes", NOW + 1600.0)


# ---- what would meet it


def test_ways_are_those_that_meet_it() -> None:
    made = cluster(node("a", gpus=2, model="A100"), node("v", gpus=2, model="V100"))
    _hold(made, "r", placed("a", gpus=(0, 1)), HOUR, priority="CRITICAL")
    asked = spec(gpus=2, model="A100", expected_runtime_s=1800.0, deadline_at=NOW + HOUR)
    assert _seen(made, asked).verdict == "no"
    found = ways(made, NEW, asked, NOW)
    assert [(way.fields, way.ends_at) for way in found] == [({"resources.gpuModel": "V100"}, NOW + 1800.0)]


def test_fewer_ranks_count_as_longer_runs() -> None:
    made = cluster(node("a", gpus=2))
    _hold(made, "r", placed("a", gpus=(0,)), 2 * HOUR, priority="CRITICAL")
    gang = spec(gpus=1, gang=Gang(ranks=2), expected_runtime_s=1800.0)
    found = ways(made, NEW, replace(gang, deadline_at=NOW + HOUR), NOW)
    assert [(way.fields, way.ends_at) for way in found] == [({"gang.ranks": 1}, NOW + HOUR)]
    assert ways(made, NEW, replace(gang, deadline_at=NOW + HOUR - 1.0), NOW) == ()


def test_a_higher_priority_passes_or_displaces() -> None:
    made = cluster(node("a", gpus=1))
    _hold(made, "r", placed("a", gpus=(0,)), HOUR, priority="LOW", grace_s=30.0)
    made.enqueue(state("ahead", 0.0), spec(gpus=1, priority="HIGH", expected_runtime_s=HOUR))
    asked = spec(gpus=1, expected_runtime_s=HOUR, deadline_at=NOW + 2 * HOUR)
    made.enqueue(NEW, asked)
    assert _seen(made, asked).verdict == "no"
    (way,) = ways(made, NEW, asked, NOW)
    assert (way.fields, way.ends_at) == ({"priority": "HIGH"}, NOW + 30.0 + HOUR)
    assert "displacing 1 job" in way.message
    without = replace(made.profile, actions=("claim", "pace", "allocate", "backfill"))
    cycle_at(made, without, NOW)
    (way,) = ways(made, NEW, asked, NOW)
    assert (way.fields, way.ends_at) == ({"priority": "HIGH"}, NOW + 2 * HOUR)
    assert "new" in made.waiting


# ---- it comes true


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[Cluster, list[tuple[float, str]], JobSpec]:
    """Some nodes, holders that end exactly when they say, and a job."""
    models = draw(st.lists(st.sampled_from(["A100", "V100"]), min_size=1, max_size=3))
    made = cluster(*(node(f"n{at}", cpu=4, gpus=2, model=model) for at, model in enumerate(models)))
    ends: list[tuple[float, str]] = []
    for at in range(len(models)):
        for gpu in range(2):
            if draw(st.booleans()):
                lasts = float(draw(st.sampled_from([60, 600, 1800])))
                _hold(made, f"r{at}{gpu}", placed(f"n{at}", gpus=(gpu,)), lasts)
                ends.append((NOW + lasts, f"r{at}{gpu}"))
    runs = st.sampled_from([30.0, 300.0, 3000.0])
    by_model = draw(st.sampled_from([{}, {"A100": 100.0, "V100": 900.0}]))
    asked = spec(
        gpus=draw(st.integers(1, 2)), expected_runtime_s=draw(runs), expected_runtimes_s=by_model,
        gang=draw(st.sampled_from([None, Gang(ranks=2)])),
        deadline_at=NOW + draw(st.sampled_from([10.0, 400.0, 2000.0, 5000.0])),
    )  # fmt: skip
    return made, ends, asked


@settings(max_examples=60)
@given(_worlds())
def test_what_is_said_comes_true(world: tuple[Cluster, list[tuple[float, str]], JobSpec]) -> None:
    made, ends, asked = world
    seen = _seen(made, asked)
    made.enqueue(NEW, asked)
    heapq.heapify(ends)
    now, ended = NOW, inf
    while True:
        plan = cycle_at(made, made.profile, now)
        if plan.placed:
            rows = [made.table.records[made.rows[place.node]] for place in plan.placed[0].placements]
            models = {gpu.model for record in rows if record is not None for gpu in record.info.gpus}
            runs = asked.expected_runtimes_s or dict.fromkeys(models, asked.expected_runtime_s or 0.0)
            ended = now + max(runs[model] for model in models)
            break
        if not ends:
            break
        now = ends[0][0]
        while ends and ends[0][0] <= now:
            made.release(heapq.heappop(ends)[1])
    assert (seen.verdict == "yes") == (ended <= (asked.deadline_at or 0.0))
