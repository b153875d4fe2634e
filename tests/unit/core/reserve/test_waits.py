"""What a job is told that booked room keeps waiting."""

from math import inf
from typing import Any

import pytest

from ares.api.reasons import Reason
from ares.core.explain.smallest_change import smallest_change
from ares.core.queue.waiting import class_key
from ares.core.reserve.waits import held_for, waits_within
from ares.core.schedule.cluster import Cluster
from ares.core.starts.alternatives import offers
from ares.core.starts.starts import Course, course
from ares.model.job import JobSpec
from tests.unit.core.reserve.booked import ALL, HOUR, book, runs
from tests.unit.core.world import NOW, cluster, node, placed, spec, state


def told(made: Cluster, wanted: JobSpec, runs_s: float = inf, tenant: str = "t") -> Reason | None:
    key = class_key(state("j", tenant=tenant), wanted)
    return waits_within(made, key, NOW) or held_for(made, key, runs_s, NOW)


def test_who_would_run_into_it_hears_how_long_it_could_run() -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", gpus=(0, 1, 2)), start=NOW + 2100)
    found = told(made, spec(gpus=4), 2101.0)
    assert found is not None
    assert (found.code, found.remedy, found.numbers) == ("RESERVED", "wait", {"free": 3, "fitsS": 2100})
    assert found.message == (
        "3 GPUs are free, held for reservation demo from 03:21 UTC; a job of at most 35 min would fit"
    )
    assert told(made, spec(gpus=4), 2100.0) is None
    assert told(made, spec(gpus=1), inf) is None


def test_other_tenants_do_not_hear_its_name() -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", gpus=ALL), start=NOW - 1)
    found = told(made, spec(gpus=1), tenant="u")
    assert found is not None
    assert found.message == "4 GPUs are free, held for a reservation of another tenant until 03:46 UTC"


def test_what_others_hold_is_no_reservations_fault() -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", gpus=(3,)), start=NOW - 1)
    runs(made, "r", placed("a", gpus=(0, 1)), gpus=2)
    assert told(made, spec(gpus=3)) is None
    found = told(made, spec(gpus=2), 1.0)
    assert found is not None
    assert found.code == "RESERVED"


def test_of_two_the_one_that_is_in_the_way_is_named() -> None:
    made = cluster(node("a", gpus=4), node("b", gpus=2))
    book(made, placed("b", gpus=(0, 1)), start=NOW + 60)
    book(made, placed("a", gpus=ALL), name="late", start=NOW + HOUR)
    found = told(made, spec(gpus=4), 2 * HOUR)
    assert found is not None
    assert "reservation late from" in found.message


def test_a_held_up_job_hears_when_it_could_start() -> None:
    made = cluster(node("a", gpus=4))
    one = book(made, placed("a", gpus=(0, 1)), start=NOW + 60)

    def starts(**asked: Any) -> float:
        found = course(made, state("j"), spec(**asked), NOW)
        assert isinstance(found, Course), found
        return found.start

    assert starts(gpus=3, expected_runtime_s=HOUR) == one.until
    assert starts(gpus=3, expected_runtime_s=60.0) == NOW
    assert starts(gpus=1, reservation="demo", expected_runtime_s=HOUR) == NOW + 60


def test_the_smallest_change_beside_a_reservation_counts_how_long_the_job_runs() -> None:
    """A job of known length fits beside a reservation without giving up what a job for ever would have to."""
    made = cluster(node("a", gpus=4), node("b", gpus=1))
    book(made, placed("a", gpus=ALL), start=NOW + HOUR)
    short = spec(gpus=4, model="H100", expected_runtime_s=HOUR / 2)
    found = smallest_change(made, state("j"), short, NOW)
    assert found is not None
    assert found.fields == {"resources.gpuModel": None}
    longer = smallest_change(made, state("j"), spec(gpus=4, expected_runtime_s=HOUR + 60), NOW)
    assert longer is not None
    assert longer.fields == {"expectedRuntimeS": HOUR - 30.0, "timeLimitS": HOUR - 30.0}, "a limit has its grace"
    assert "59 min 30 s" in longer.message


def test_plans_and_offers_leave_the_cluster_as_it_was_and_know_of_it() -> None:
    made = cluster(node("a", gpus=4), node("b", gpus=2))
    book(made, placed("a", gpus=ALL), start=NOW + 60)
    before = made.table.gpu_left.tolist(), made.table.cpu_free.tolist()
    found = offers(made, state("j"), spec(gpus=4, expected_runtime_s=HOUR), NOW)
    assert [(one.asked, one.starts.earliest) for one in found] == [
        ("with 2 GPUs", NOW),
        ("as asked", NOW + 60 + HOUR),
        ("on NVIDIA A100-SXM4-80GB", NOW + 60 + HOUR),
    ]
    assert smallest_change(made, state("j"), spec(gpus=4), NOW) is not None
    assert (made.table.gpu_left.tolist(), made.table.cpu_free.tolist()) == before


@pytest.mark.parametrize(
    ("start", "asks", "code"),
    [(NOW + 60, 1, "RESERVATION_PLANNED"), (NOW - 1, 2, "RESERVATION_FULL"), (NOW - 1, 1, None), (NOW - 1, 9, None)],
)
def test_its_own_jobs_hear_that_it_has_not_begun_or_is_full(start: float, asks: int, code: str | None) -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", cpu=4, memory=100, gpus=(0, 1)), start=start)
    runs(made, "inside", placed("a", gpus=(0,)), gpus=1, reservation="demo")
    found = told(made, spec(gpus=asks, reservation="demo"))
    assert (None if found is None else found.code) == code


def test_a_full_one_says_how_much_is_left() -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", cpu=4, memory=100, gpus=(0, 1)), start=NOW - 1)
    runs(made, "inside", placed("a", gpus=(0,)), gpus=1, reservation="demo")
    found = told(made, spec(gpus=2, reservation="demo"))
    assert found is not None
    assert found.message == "asks for 2 GPUs; of the 2 of its reservation demo 1 are free now"
