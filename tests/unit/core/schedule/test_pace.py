"""Who waits for which GPU: the plan by itself, and what a cycle makes of it."""

from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.explain.held_back import paced_jobs, waits_for_faster
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.pace import Gpus, PacedRunner, PacedSlot, pace
from ares.model.profile import Pool, Profile
from ares.model.reservation import Reservation, RoomAsked
from ares.model.state import Placement
from tests.unit.core.world import NOW, cluster, node, nodes_of, placed, plan, run, spec, state


def _slots(
    free_at: list[float],
    *jobs: tuple[str, list[float], float],
    weights: tuple[float, ...] = (),
    prices: tuple[float, ...] = (),
) -> dict[str, PacedSlot]:
    """Each job with its run time on each GPU, and its deadline."""
    made = [
        PacedRunner(job, kind, weights[kind] if weights else 1.0, due, due - min(runs))
        for kind, (job, runs, due) in enumerate(jobs)
    ]
    table = np.array([runs for _, runs, _ in jobs]).reshape(len(jobs), len(free_at))
    price_hour = np.array(prices or [0.0] * len(free_at))
    return pace(made, Gpus(np.array(free_at), np.arange(len(free_at)), table, price_hour), 0.0)


@pytest.mark.parametrize(
    ("free_at", "gpu"),
    [
        # The fast GPU is free in time to be worth the wait, or just as good, or not.
        ([4.0, 0.0], 0),
        ([5.0, 0.0], 0),
        ([5.1, 0.0], 1),
        ([inf, 0.0], 1),
    ],
)
def test_a_job_waits_for_the_gpu_on_which_it_ends_first(free_at: list[float], gpu: int) -> None:
    assert _slots(free_at, ("j", [5.0, 10.0], inf))["j"].gpu == gpu


def test_the_short_ones_go_first_unless_a_long_one_would_be_late() -> None:
    def ends(due: float) -> dict[str, float]:
        return {job: slot.end for job, slot in _slots([0.0], ("long", [8.0], due), ("short", [3.0], inf)).items()}

    assert ends(inf) == {"short": 3.0, "long": 11.0}
    assert ends(11.0) == {"short": 3.0, "long": 11.0}
    assert ends(10.9) == {"long": 8.0, "short": 11.0}


def test_nobody_waits_for_a_job_that_is_late_anyway() -> None:
    found = _slots([0.0], ("late", [8.0], 7.0), ("short", [3.0], inf))
    assert (found["short"].end, found["late"].end, found["late"].late) == (3.0, 11.0, True)


def test_a_job_that_cannot_be_in_time_makes_no_other_late() -> None:
    # Each could be in time alone, and not both.
    found = _slots([0.0], ("a", [6.0], 8.0), ("b", [6.0], 9.0))
    assert [found[job].late for job in ("a", "b")] == [False, True]


def test_a_job_that_counts_more_goes_before_a_shorter_one() -> None:
    jobs = (("long", [6.0], inf), ("short", [3.0], inf))
    assert _slots([0.0], *jobs, weights=(1.9, 1.0))["short"].start == 0.0
    assert _slots([0.0], *jobs, weights=(2.1, 1.0))["long"].start == 0.0


@pytest.mark.parametrize(
    ("free_at", "due", "gpu"),
    [
        # Fast and dear, slow and cheap: the cheap one while that is in time, also by waiting for it.
        ([0.0, 0.0], 10.0, 1),
        ([0.0, 0.0], 9.9, 0),
        ([0.0, 8.0], 20.0, 1),
        # To wait for it leaves less than a tenth of the time.
        ([0.0, 8.1], 20.0, 0),
        # Without a deadline the job goes where it ends first.
        ([0.0, 0.0], inf, 0),
    ],
)
def test_a_job_with_a_deadline_goes_where_it_is_cheapest_and_in_time(
    free_at: list[float], due: float, gpu: int
) -> None:
    found = _slots(free_at, ("j", [5.0, 10.0], due), prices=(3.0, 1.0))["j"]
    assert (found.gpu, found.late) == (gpu, False)
    # Slower for the same price in all is no gain.
    assert _slots(free_at, ("j", [5.0, 10.0], due), prices=(2.0, 1.0))["j"].gpu == 0


def test_a_saving_makes_no_other_job_late() -> None:
    jobs = (("first", [4.0, 8.0], 20.0), ("second", [20.0, 8.0], 8.0))
    found = _slots([0.0, 0.0], *jobs, prices=(3.0, 1.0))
    assert (found["second"].gpu, found["second"].late) == (1, False)
    assert (found["first"].gpu, found["first"].start, found["first"].late) == (1, 8.0, False)


@pytest.mark.parametrize(("free_at", "runs"), [([], []), ([0.0], [inf]), ([inf], [1.0])])
def test_who_can_have_no_gpu_has_no_slot(free_at: list[float], runs: list[float]) -> None:
    made = Gpus(
        np.array(free_at), np.arange(len(free_at)), np.array([runs]).reshape(1, len(free_at)), np.zeros(len(free_at))
    )
    assert pace([PacedRunner("j", 0, 1.0, inf, inf)], made, 0.0) == {}


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[list[float], list[tuple[str, list[float], float]]]:
    free_at = draw(st.lists(st.sampled_from([0.0, 0.0, 2.0, 5.0, inf]), min_size=1, max_size=4))
    runs = st.lists(st.sampled_from([1.0, 2.0, 3.0, 7.0, inf]), min_size=len(free_at), max_size=len(free_at))
    dues = st.sampled_from([inf, inf, 3.0, 6.0, 12.0])
    jobs = draw(st.lists(st.tuples(runs, dues), max_size=8))
    return free_at, [(f"j{at}", mine, due) for at, (mine, due) in enumerate(jobs)]


@given(_worlds())
def test_slots_are_sound(world: tuple[list[float], list[tuple[str, list[float], float]]]) -> None:
    free_at, jobs = world
    found = _slots(free_at, *jobs)
    assert _slots(free_at, *reversed(jobs)) == found
    runs = {job: mine for job, mine, _ in jobs}
    for job, mine, due in jobs:
        possible = [free + each for free, each in zip(free_at, mine, strict=True) if free + each < inf]
        assert (job in found) == bool(possible)
        if job in found:
            slot = found[job]
            assert slot.end == slot.start + mine[slot.gpu] < inf
            assert slot.late == (slot.end > due)
    for gpu, free in enumerate(free_at):
        line = sorted((slot.start, slot.end) for slot in found.values() if slot.gpu == gpu)
        assert all(start >= free for start, _ in line)
        assert all(before[1] <= after[0] for before, after in pairwise(line))
        # Nobody waits who would end sooner where nobody is.
        if free == 0.0 and not line:
            assert all(slot.end <= runs[job][gpu] for job, slot in found.items())


@given(_worlds())
def test_alone_it_is_in_time_if_any_gpu_allows(world: tuple[list[float], list[tuple[str, list[float], float]]]) -> None:
    free_at, jobs = world
    for job in jobs[:1]:
        best = min((free + runs for free, runs in zip(free_at, job[1], strict=True)), default=inf)
        found = _slots(free_at, job)
        assert (found[job[0]].end if found else inf) == best


# ---- in a cycle

FAST, SLOW = "A100", "V100"


def _fleet(profile: Profile = Profile()) -> Cluster:
    return cluster(node("fast", gpus=1, model=FAST), node("slow", gpus=1, model=SLOW), profile=profile)


def _hold(made: Cluster, for_s: float | None, since: float = NOW, **said: Any) -> None:
    run(made, "r", spec(gpus=1, expected_runtime_s=for_s, **said), placed("fast", gpus=(0,)), since=since)


def test_a_cycle_leaves_a_gpu_free_that_is_not_worth_it_and_says_so() -> None:
    made = _fleet()
    _hold(made, 600.0)
    made.enqueue(state("j", NOW), spec(gpus=1, expected_runtimes_s={FAST: 3600.0, SLOW: 7200.0}))
    decided = plan(made)
    assert (decided.placed, decided.left) == ((), ())
    why = waits_for_faster(paced_jobs(made, NOW)["j"], NOW)
    assert why is not None
    assert why.code == "WAITING_FOR_FASTER"
    assert (why.numbers["waitsS"], why.numbers["soonerS"]) == (600, 3000)
    assert f"waits for an {FAST}" in why.message
    assert f"50 min sooner than on the {SLOW} that is free now" in why.message


@pytest.mark.parametrize(
    ("runs", "on"), [({FAST: 3600.0, SLOW: 4000.0}, True), ({FAST: 3600.0, SLOW: 7200.0}, False), ({}, True)]
)
def test_it_starts_now_where_waiting_gains_nothing_or_is_off(runs: dict[str, float], on: bool) -> None:
    actions = Profile().actions if on else tuple(name for name in Profile().actions if name != "pace")
    made = _fleet(replace(Profile(), actions=actions))
    _hold(made, 600.0)
    made.enqueue(state("j", NOW), spec(gpus=1, expected_runtimes_s=runs))
    assert nodes_of(plan(made)) == [("j", "slow")]


def test_without_the_end_of_who_holds_it_nobody_waits_for_it() -> None:
    made = _fleet()
    _hold(made, None)
    made.enqueue(state("j", NOW), spec(gpus=1, expected_runtimes_s={FAST: 1.0, SLOW: 7200.0}))
    assert nodes_of(plan(made)) == [("j", "slow")]


def test_a_free_gpu_without_a_free_cpu_is_none() -> None:
    made = cluster(node("fast", gpus=1, cpu=1, model=FAST), node("slow", gpus=1, model=SLOW))
    run(made, "r", spec(cpu=1, expected_runtime_s=60.0), placed("fast", cpu=1), since=NOW)
    made.enqueue(state("j", NOW), spec(gpus=1, expected_runtimes_s={FAST: 10.0, SLOW: 7200.0}))
    assert nodes_of(plan(made)) == [("j", "slow")]


def test_whoever_can_have_nothing_now_may_have_room_made() -> None:
    made = cluster(node("fast", gpus=1, model=FAST))
    _hold(made, 3600.0, since=NOW - 600.0, priority="LOW")
    made.enqueue(state("j", NOW), spec(gpus=1, priority="CRITICAL", expected_runtimes_s={FAST: 10.0}))
    assert [one.victims for one in plan(made).evictions] == [("r",)]


def test_jobs_without_run_times_of_higher_rank_come_first() -> None:
    made = _fleet()
    made.enqueue(state("paced", NOW), spec(gpus=1, expected_runtimes_s={FAST: 10.0, SLOW: 7200.0}))
    made.enqueue(state("high", NOW), spec(gpus=1, model=FAST, priority="HIGH"))
    assert ("high", "fast") in nodes_of(plan(made))


def test_a_job_of_several_gpus_waits_for_the_better_ones_too() -> None:
    made = cluster(node("fast", gpus=2, model=FAST), node("slow", gpus=2, model=SLOW))
    _hold(made, 600.0)
    made.enqueue(state("j", NOW), spec(gpus=2, expected_runtimes_s={FAST: 3600.0, SLOW: 7200.0}))
    decided = plan(made)
    assert (decided.placed, decided.left) == ((), ())
    why = waits_for_faster(paced_jobs(made, NOW)["j"], NOW)
    assert why is not None
    assert (why.numbers["waitsS"], why.numbers["soonerS"]) == (600, 3000)
    made.release("r")
    assert nodes_of(plan(made)) == [("j", "fast")]


def test_a_gpu_that_is_booked_is_not_counted_on() -> None:
    made = cluster(node("fast", gpus=1, model=FAST), node("slow", gpus=1, model=SLOW))
    room = Placement(node="fast", incarnation=1, cpu_milli=1000, memory_mib=1, gpus=(0,))
    made.book(
        Reservation(
            name="r", tenant="u", start=NOW + 60.0, until=NOW + 7200.0, placements=(room,), asked=RoomAsked(gpus=1)
        )
    )
    made.enqueue(state("j", NOW), spec(gpus=1, expected_runtimes_s={FAST: 600.0, SLOW: 900.0}))
    assert nodes_of(plan(made)) == [("j", "slow")]


@pytest.mark.parametrize(("runs_s", "starts"), [(59.0, ["j"]), (61.0, [])])
def test_a_short_job_runs_on_a_booked_gpu_before_its_time(runs_s: float, starts: list[str]) -> None:
    made = cluster(node("fast", gpus=1, model=FAST))
    room = Placement(node="fast", incarnation=1, cpu_milli=1000, memory_mib=1, gpus=(0,))
    made.book(
        Reservation(
            name="r", tenant="u", start=NOW + 60.0, until=NOW + 7200.0, placements=(room,), asked=RoomAsked(gpus=1)
        )
    )
    made.enqueue(state("j", NOW), spec(gpus=1, expected_runtimes_s={FAST: runs_s, SLOW: 900.0}))
    assert [one.job for one in plan(made).placed] == starts


def test_a_gpu_that_is_promised_is_not_counted_on() -> None:
    made = cluster(node("fast", gpus=2, model=FAST), node("slow", gpus=1, model=SLOW))
    run(made, "r", spec(gpus=1, expected_runtime_s=60.0), placed("fast", gpus=(0,)), since=NOW)
    made.enqueue(state("wide", 0.0), spec(gpus=2, model=FAST, priority="HIGH", expected_runtime_s=3600.0))
    made.promise(plan(made).promises)
    assert made.promises["wide"].start == NOW + 60.0
    made.enqueue(state("j", NOW), spec(gpus=1, expected_runtimes_s={FAST: 600.0, SLOW: 900.0}))
    assert nodes_of(plan(made)) == [("j", "slow")]


def test_who_waits_for_a_cheaper_gpu_is_told_so() -> None:
    pools = {"dear": Pool(gpu_hour=4.0), "cheap": Pool(gpu_hour=1.0)}
    fast, slow = node("a", gpus=1, model="A100", pool="dear"), node("b", gpus=1, model="V100", pool="cheap")
    made = cluster(fast, slow, profile=Profile(pools=pools))
    run(made, "r", spec(gpus=1, expected_runtime_s=600.0), placed("b", gpus=(0,)), since=NOW)
    wanted = spec(gpus=1, expected_runtimes_s={"A100": 3600.0, "V100": 7200.0}, deadline_at=NOW + 20_000)
    made.enqueue(state("j", at=NOW), wanted)
    assert plan(made).placed == ()
    why = waits_for_faster(paced_jobs(made, NOW)["j"], NOW)
    assert why is not None
    assert why.message.startswith("waits for a V100")
    assert why.message.endswith("there it meets its deadline too, and costs less than on the A100 that is free now")
    # When that GPU comes too late, the dear one is taken while it is in time.
    assert nodes_of(plan(made, NOW + 16_300)) == [("j", "a")]
