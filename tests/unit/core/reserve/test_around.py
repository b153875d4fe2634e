"""Cycles around booked room: who may use it before it begins, who while it lasts, and who is not displaced for it."""

import pytest
from msgspec.structs import replace

from ares.core.schedule.plan import Plan
from ares.core.starts.alternatives import would_evict
from ares.model.job import Gang
from ares.model.profile import BackfillPolicy, Profile
from tests.unit.core.reserve.booked import ALL, HOUR, book, runs, wait
from tests.unit.core.world import NOW, cluster, node, placed, places, plan, spec, state

STRICT = Profile(actions=("claim", "allocate"))
STRATEGIES = [
    pytest.param(STRICT, id="strict"),
    *(
        pytest.param(Profile(backfill=BackfillPolicy(strategy=one)), id=one)
        for one in ("greedy", "easy", "conservative", "aggressive", "deadline")
    ),
]


def gpus(made: Plan) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {job: (place.node, place.gpus) for job, place in places(made).items()}


@pytest.mark.parametrize("profile", STRATEGIES)
def test_before_it_begins_only_those_who_end_in_time_use_the_room(profile: Profile) -> None:
    made = cluster(node("a", gpus=4), profile=profile)
    book(made, placed("a", gpus=ALL))
    wait(made, "short", NOW - 2, gpus=2, expected_runtime_s=HOUR)
    wait(made, "long", gpus=1, expected_runtime_s=HOUR + 1, memory=2)
    wait(made, "silent", gpus=1, memory=3)
    assert places(plan(made)).keys() == {"short"}


@pytest.mark.parametrize("profile", STRATEGIES)
def test_room_beside_it_is_anybodys(profile: Profile) -> None:
    made = cluster(node("a", gpus=4), profile=profile)
    book(made, placed("a", gpus=(0, 1)), start=NOW - 1)
    wait(made, "other", gpus=2)
    assert gpus(plan(made)) == {"other": ("a", (2, 3))}


@pytest.mark.parametrize("profile", STRATEGIES)
def test_while_it_lasts_its_jobs_have_that_room_and_no_other(profile: Profile) -> None:
    made = cluster(node("a", gpus=4), node("b", gpus=4), profile=profile)
    book(made, placed("b", cpu=2, memory=8, gpus=(1, 3)), start=NOW)
    for n in range(3):
        wait(made, f"mine{n}", gpus=1, reservation="demo")
    wait(made, "other", gpus=4, memory=2)
    found = gpus(plan(made))
    assert sorted(found[job] for job in ("mine0", "mine1")) == [("b", (1,)), ("b", (3,))]
    assert found.keys() == {"mine0", "mine1", "other"}
    assert found["other"] == ("a", ALL)


def test_cpus_beside_its_own_are_not_its_jobs() -> None:
    made = cluster(node("a", cpu=8, gpus=0))
    book(made, placed("a", cpu=3, memory=100), start=NOW)
    for n in range(3):
        wait(made, f"mine{n}", cpu=1.5, memory=10, reservation="demo")
    assert places(plan(made)).keys() == {"mine0", "mine1"}
    wait(made, "other", cpu=5, memory=1)
    assert "other" in places(plan(made))
    wait(made, "more", cpu=5.1, memory=1)
    assert "more" not in places(plan(made))


@pytest.mark.parametrize("profile", STRATEGIES)
def test_its_jobs_wait_for_it_to_begin_and_hold_up_nobody(profile: Profile) -> None:
    made = cluster(node("a", gpus=4), profile=profile)
    book(made, placed("a", gpus=(0,)))
    wait(made, "mine", gpus=1, reservation="demo")
    made.enqueue(state("other", NOW), spec(gpus=3))
    early = plan(made)
    assert places(early).keys() == {"other"}
    assert not early.promises
    assert "mine" in places(plan(made, NOW + HOUR))


def test_one_that_is_over_binds_nobody() -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", gpus=ALL), start=NOW - HOUR, length=HOUR)
    wait(made, "mine", gpus=1, reservation="demo")
    wait(made, "other", gpus=1, memory=2)
    assert places(plan(made)).keys() == {"mine", "other"}
    made.unbook("demo")
    assert places(plan(made)).keys() == {"mine", "other"}


def test_a_gang_of_it_stays_within_it() -> None:
    made = cluster(node("a", gpus=4), node("b", gpus=4))
    book(made, placed("a", cpu=4, memory=8, gpus=(0, 1)), placed("b", cpu=4, memory=8, gpus=(2, 3)), start=NOW)
    wait(made, "gang", gpus=1, gang=Gang(ranks=4), reservation="demo")
    (found,) = plan(made).placed
    assert sorted((place.node, place.gpus) for place in found.placements) == [
        ("a", (0,)),
        ("a", (1,)),
        ("b", (2,)),
        ("b", (3,)),
    ]
    made.dequeue("gang")
    wait(made, "larger", gpus=1, gang=Gang(ranks=5), reservation="demo")
    assert not plan(made).placed


# ---- making room


def test_nobody_is_displaced_into_booked_room_or_out_of_it() -> None:
    made = cluster(node("a", gpus=4), node("b", gpus=4))
    one = book(made, placed("a", cpu=8, memory=1024, gpus=ALL), start=NOW - 10, state="active")
    runs(made, "inside", placed("a", gpus=(0, 1)), gpus=2, priority="LOW", reservation="demo")
    wait(made, "urgent", gpus=4, priority="CRITICAL")
    runs(made, "b1", placed("b", gpus=(0, 1, 2)), gpus=3, priority="LOW")
    found = plan(made)
    assert [(each.job, each.victims) for each in found.evictions] == [("urgent", ("b1",))]
    made.unbook(one.name)
    free = plan(made)
    assert [each.victims for each in free.evictions] == [("inside",)]


def test_free_gpus_that_are_booked_are_no_help_to_who_displaces_others() -> None:
    made = cluster(node("a", gpus=4))
    one = book(made, placed("a", gpus=(2, 3)))
    runs(made, "there", placed("a", gpus=(0, 1)), gpus=2, priority="LOW")
    wait(made, "urgent", gpus=4, priority="CRITICAL")
    assert not plan(made).evictions
    made.unbook(one.name)
    assert [each.victims for each in plan(made).evictions] == [("there",)]


def test_a_job_in_it_is_displaced_for_nobody() -> None:
    made = cluster(node("a", gpus=4))
    one = book(made, placed("a", gpus=ALL), start=NOW - 10)
    runs(made, "inside", placed("a", gpus=ALL), gpus=4, priority="LOW", reservation="demo")
    wait(made, "urgent", gpus=4, priority="CRITICAL")
    assert not plan(made).evictions
    assert isinstance(would_evict(made, state("new"), spec(gpus=4, priority="CRITICAL"), NOW), str)
    made.unbook(one.name)
    assert [each.victims for each in plan(made).evictions] == [("inside",)]


def test_a_job_of_it_displaces_nobody_elsewhere() -> None:
    made = cluster(node("a", gpus=4), node("b", gpus=4))
    book(made, placed("a", cpu=8, memory=1024, gpus=(0,)), start=NOW - 10)
    runs(made, "inside", placed("a", gpus=(0,)), gpus=1, reservation="demo")
    runs(made, "b1", placed("b", gpus=ALL), gpus=4, priority="LOW")
    wait(made, "urgent", gpus=1, priority="CRITICAL", reservation="demo")
    assert not plan(made).evictions


def test_elastic_gangs_do_not_grow_into_it() -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", cpu=1, memory=10, gpus=(2, 3)), start=NOW + HOUR)
    gang = Gang(ranks=4, min_ranks=1)
    runs(made, "gang", placed("a", gpus=(0,)), gpus=1, gang=gang)
    (grown,) = plan(made).resized
    assert sorted(gpu for place in grown.placements for gpu in place.gpus) == [0, 1]


def test_what_it_says_about_ends_lets_others_be_promised_its_room_afterwards() -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", cpu=8, memory=1024, gpus=ALL), start=NOW - 10, length=HOUR, state="active")
    runs(made, "inside", placed("a", gpus=ALL), gpus=4, reservation="demo")
    wait(made, "next", gpus=4, expected_runtime_s=60.0)
    (promise,) = plan(made).promises
    assert promise.start == NOW - 10 + HOUR
    longer = replace(made.bookings["demo"], until=NOW + 2 * HOUR)
    made.book(longer)
    (promise,) = plan(made).promises
    assert promise.start == NOW + 2 * HOUR
