"""Booking room ahead: what is free by then, never twice, and what is said when it cannot be had."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.reserve.booking import NotBooked, book, extendable
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.follower import follow
from ares.model.node import NodeRecord
from ares.model.reservation import Reservation, RoomAsked
from ares.model.state import Placement
from tests.unit.core.world import NOW, cluster, node, placed, spec, state

HOUR = 3600.0


def runs(
    made: Cluster, job: str, *places: Placement, for_s: float | None = None, since: float = NOW, **more: Any
) -> None:
    """The job runs there since then, for so long by its own words."""
    wants = spec(expected_runtime_s=for_s, **more)
    now = state(job, phase="RUNNING", placements=places, bound_at=since, planned_s=for_s)
    follow(made, None, now, wants, NOW)


def booked(name: str, start: float, until: float, *places: Placement, **more: Any) -> Reservation:
    return Reservation(
        name=name, tenant="t", start=start, until=until, asked=RoomAsked(gpus=1), placements=places, **more
    )


def eight(*names: str, **more: Any) -> list[NodeRecord]:
    return [node(name, cpu=16, memory=1600, gpus=8, **more) for name in names]


def said(found: object) -> NotBooked:
    assert isinstance(found, NotBooked), found
    return found


def where(found: object) -> dict[str, int]:
    assert isinstance(found, tuple), found
    return {place.node: len(place.gpus) for place in found}


# ---- what is chosen


def test_gpus_come_with_their_part_of_the_machine_on_as_few_machines_as_will_do() -> None:
    made = cluster(*eight("a", "b", "c"))
    runs(made, "j", placed("a", cpu=2, memory=100, gpus=(0, 1)))
    found = book(made, (), RoomAsked(gpus=14), NOW, NOW + HOUR, NOW)
    assert where(found) == {"a": 6, "b": 8}
    assert [(place.cpu_milli, place.memory_mib) for place in found] == [(12_000, 1200), (16_000, 1600)]
    assert found[0].gpus == (2, 3, 4, 5, 6, 7)


def test_cpus_and_memory_in_all_are_shared_out_among_the_gpus() -> None:
    (place,) = book(cluster(*eight("a")), (), RoomAsked(gpus=4, cpu_milli=6000, memory_mib=10), NOW, NOW + 1, NOW)
    assert (len(place.gpus), place.cpu_milli, place.memory_mib) == (4, 6000, 12)


def test_whole_machines_are_those_on_which_nobody_is_left() -> None:
    made = cluster(*eight("a", "b", "c"))
    runs(made, "j", placed("a", cpu=1), for_s=600.0)
    runs(made, "k", placed("b", cpu=1))
    now = said(book(made, (), RoomAsked(nodes=2), NOW, NOW + HOUR, NOW))
    assert (now.most, now.nearest_start) == (1, NOW + 600)
    assert where(book(made, (), RoomAsked(nodes=2), NOW + 600, NOW + HOUR, NOW)) == {"a": 8, "c": 8}
    named = said(book(made, (), RoomAsked(node_names=("b",)), NOW + HOUR, NOW + 2 * HOUR, NOW))
    assert named.message.endswith("1 job there does not say how long it runs")


def test_the_same_on_each_of_so_many_machines() -> None:
    made = cluster(*eight("a", "b"), node("c", cpu=16, memory=1600, gpus=4))
    assert where(book(made, (), RoomAsked(gpus=8, nodes=2), NOW, NOW + 1, NOW)) == {"a": 4, "c": 4}
    assert said(book(made, (), RoomAsked(gpus=7, nodes=2), NOW, NOW + 1, NOW)).fix.startswith("ask for 8 GPUs")


def test_only_the_pool_the_model_and_the_machines_asked_for() -> None:
    made = cluster(*eight("a"), *eight("b", pool="gold"), *eight("c", model="NVIDIA H100"))
    assert where(book(made, (), RoomAsked(gpus=2, pool="gold"), NOW, NOW + 1, NOW)) == {"b": 2}
    assert where(book(made, (), RoomAsked(gpus=2, gpu_model="H100"), NOW, NOW + 1, NOW)) == {"c": 2}
    assert where(book(made, (), RoomAsked(gpus=2, node_names=("c",)), NOW, NOW + 1, NOW)) == {"c": 2}


def test_cpus_alone_come_with_memory_in_proportion() -> None:
    found = book(cluster(*eight("a", "b")), (), RoomAsked(cpu_milli=20_000), NOW, NOW + 1, NOW)
    assert [(place.node, place.cpu_milli, place.memory_mib) for place in found] == [
        ("a", 16_000, 1600),
        ("b", 4000, 400),
    ]


# ---- who is counted on


def test_a_job_that_ends_in_time_is_counted_on_and_one_that_does_not_say_is_not() -> None:
    made = cluster(*eight("a", "b"))
    runs(made, "ends", placed("a", gpus=tuple(range(8))), for_s=HOUR)
    runs(made, "silent", placed("b", gpus=(0, 1, 2)))
    early = said(book(made, (), RoomAsked(gpus=12), NOW + HOUR / 2, NOW + 2 * HOUR, NOW))
    assert (early.most, early.nearest_start) == (5, NOW + HOUR)
    assert "of 12 GPUs 5 can be had" in early.message
    assert "3 are held by 1 job that does not say how long it runs; 8 are held by jobs that end later" in early.message
    assert where(book(made, (), RoomAsked(gpus=12), NOW + HOUR, NOW + 2 * HOUR, NOW)) == {"a": 8, "b": 4}


def test_a_job_beyond_its_time_is_counted_on_no_more() -> None:
    made = cluster(*eight("a"))
    runs(made, "late", placed("a", gpus=(0,)), for_s=60.0, since=NOW - 100)
    found = said(book(made, (), RoomAsked(gpus=8), NOW + HOUR, NOW + 2 * HOUR, NOW))
    assert "1 are held by 1 job that does not say" in found.message


def test_a_job_of_a_reservation_ends_with_it() -> None:
    made = cluster(*eight("a"))
    first = booked("r", NOW - 10, NOW + HOUR, placed("a", cpu=16, memory=1600, gpus=tuple(range(8))), state="active")
    runs(made, "inside", placed("a", gpus=(0,)), reservation="r")
    made.book(first)
    assert where(book(made, [first], RoomAsked(gpus=8), NOW + HOUR, NOW + 2 * HOUR, NOW)) == {"a": 8}
    assert said(book(made, [first], RoomAsked(gpus=1), NOW, NOW + HOUR, NOW)).nearest_start == NOW + HOUR


def test_cpus_that_two_reservations_have_one_after_the_other_count_once() -> None:
    made = cluster(*eight("a"))
    half = {"cpu": 8, "memory": 800}
    one = booked("one", NOW, NOW + HOUR, placed("a", gpus=(0,), **half))
    two = booked("two", NOW + HOUR, NOW + 2 * HOUR, placed("a", gpus=(1,), **half))
    asked = RoomAsked(gpus=2, cpu_milli=8000, memory_mib=800)
    (place,) = book(made, [one, two], asked, NOW, NOW + 2 * HOUR, NOW)
    assert not {0, 1} & set(place.gpus)
    more = replace(asked, cpu_milli=8002)
    assert said(book(made, [one, two], more, NOW, NOW + 2 * HOUR, NOW)).code == "reservation-no-room"


def test_room_of_a_reservation_that_is_over_is_free() -> None:
    made = cluster(*eight("a"))
    gone = booked("gone", NOW, NOW + HOUR, placed("a", gpus=tuple(range(8))), state="cancelled")
    assert where(book(made, [gone], RoomAsked(gpus=8), NOW, NOW + 1, NOW)) == {"a": 8}


# ---- what cannot be


@pytest.mark.parametrize(
    ("asked", "start", "until", "words"),
    [
        (RoomAsked(gpus=1), NOW - 61, NOW + HOUR, "it would begin 1 min 1 s ago"),
        (RoomAsked(gpus=1), NOW, NOW, "end when it begins"),
        (RoomAsked(gpus=1), NOW, NOW + 400 * 86_400, "it would last 400 d"),
        (RoomAsked(), NOW, NOW + 1, "asks for no GPUs, CPUs or nodes"),
        (RoomAsked(memory_mib=5), NOW, NOW + 1, "asks for no GPUs, CPUs or nodes"),
        (RoomAsked(gpus=1, pool="x"), NOW, NOW + 1, "there is no pool 'x'"),
        (RoomAsked(gpus=1, node_names=("a", "z")), NOW, NOW + 1, "there is no node z"),
        (RoomAsked(nodes=1, node_names=("a",)), NOW, NOW + 1, "it counts nodes and names them"),
        (RoomAsked(nodes=1, gpu_model="H100"), NOW, NOW + 1, "names a GPU model and asks for no GPUs"),
        (RoomAsked(gpus=9), NOW, NOW + 1, "of that kind 8 could be had even if everything were free"),
        (RoomAsked(gpus=9, gpu_model="H200"), NOW, NOW + 1, "none of that kind could be had"),
        (RoomAsked(nodes=2), NOW, NOW + 1, "2 nodes are asked for, and of that kind 1 could be had"),
    ],
)
def test_what_can_never_be_booked(asked: RoomAsked, start: float, until: float, words: str) -> None:
    found = said(book(cluster(*eight("a")), (), asked, start, until, NOW))
    assert found.code == "reservation-invalid"
    assert words in found.message
    assert found.fix


def test_longer_only_as_far_as_nobody_comes_after() -> None:
    made = cluster(*eight("a"))
    one = booked("one", NOW, NOW + HOUR, placed("a", cpu=8, memory=800, gpus=(0, 1)))
    other = booked("other", NOW + 2 * HOUR, NOW + 3 * HOUR, placed("a", cpu=8, memory=800, gpus=(2,)))
    assert extendable(made, [one, other], one, NOW + 3 * HOUR) is None
    taken = replace(other, placements=(placed("a", cpu=1, gpus=(1,)),))
    assert extendable(made, [one, taken], one, NOW + 2 * HOUR) is None
    assert said(extendable(made, [one, taken], one, NOW + 2 * HOUR + 1)).code == "reservation-no-room"
    full = replace(other, placements=(placed("a", cpu=9, gpus=(2,)),))
    assert said(extendable(made, [one, full], one, NOW + 3 * HOUR)).code == "reservation-no-room"


def test_how_much_longer_counts_only_what_is_in_its_way_and_at_once() -> None:
    made = cluster(*eight("a"))
    one = booked("one", NOW, NOW + HOUR, placed("a", cpu=8, gpus=(0, 1)))
    beside = booked("beside", NOW, NOW + 2 * HOUR, placed("a", cpu=8, gpus=(2,)))
    after = booked("after", NOW + 2 * HOUR, NOW + 3 * HOUR, placed("a", cpu=8, gpus=(3,)))
    # One after the other they fit beside it.
    assert extendable(made, [one, beside, after], one, NOW + 3 * HOUR) is None
    taken = booked("taken", NOW + 2.5 * HOUR, NOW + 3 * HOUR, placed("a", cpu=1, gpus=(1,)))
    found = said(extendable(made, [one, beside, taken], one, NOW + 3 * HOUR))
    assert found.fix == "extend it by 1 h 30 min at most, or book other room from then on"
    at_once = replace(taken, start=NOW + HOUR)
    assert said(extendable(made, [one, at_once], one, NOW + 2 * HOUR)).fix == "book other room from then on"


# ---- any bookings, one after the other

TIMES = st.integers(0, 12).map(lambda n: NOW + n * 600.0)
ASKS = st.one_of(
    st.builds(RoomAsked, gpus=st.integers(1, 9), cpu_milli=st.sampled_from([0, 0, 3000])),
    st.builds(RoomAsked, cpu_milli=st.integers(1, 20).map(lambda n: n * 1000), memory_mib=st.sampled_from([0, 500])),
    st.builds(RoomAsked, nodes=st.integers(1, 2)),
    st.builds(RoomAsked, gpus=st.sampled_from([2, 4]), nodes=st.just(2)),
)
WISHES = st.lists(st.tuples(ASKS, TIMES, st.integers(1, 6).map(lambda n: n * 600.0)), min_size=1, max_size=8)
RUNNING = st.lists(
    st.tuples(st.sampled_from("abc"), st.sets(st.integers(0, 3), max_size=3), st.sampled_from([None, 600.0, 3000.0])),
    max_size=4,
)


@given(WISHES, RUNNING)
def test_no_gpu_is_booked_twice_and_all_that_is_booked_is_there(
    wishes: list[tuple[RoomAsked, float, float]], running: list[tuple[str, set[int], float | None]]
) -> None:
    made = cluster(*(node(name, cpu=8, memory=1000, gpus=4) for name in "abc"))
    held: list[tuple[Placement, float | None]] = []
    for number, (name, gpus, for_s) in enumerate(running):
        free = set(made.free(name).gpus) & gpus
        place = placed(name, cpu=1, memory=10, gpus=tuple(sorted(free)))
        runs(made, f"j{number}", place, for_s=for_s)
        held.append((place, None if for_s is None else NOW + for_s))
    records: list[Reservation] = []
    for number, (asked, start, length) in enumerate(wishes):
        found = book(made, records, asked, start, start + length, NOW)
        if isinstance(found, NotBooked):
            if found.nearest_start is not None:
                later = book(made, records, asked, found.nearest_start, found.nearest_start + length, NOW)
                assert isinstance(later, tuple)
            continue
        records.append(booked(f"r{number}", start, start + length, *found))
        if asked.gpus:
            assert sum(len(place.gpus) for place in found) == asked.gpus
    moments = sorted({moment for one in records for moment in (one.start, one.until)})
    for at, _ in pairwise(moments):
        check_moment(at, records, held)


def check_moment(at: float, records: list[Reservation], held: list[tuple[Placement, float | None]]) -> None:
    """One node at a time, one GPU at a time, without any of the arithmetic under test."""
    for name in "abc":
        places = [place for one in records if one.start <= at < one.until for place in one.placements]
        mine = [place for place in places if place.node == name]
        stay = [place for place, end in held if place.node == name and (end is None or end > at)]
        used = [gpu for place in (*mine, *stay) for gpu in place.gpus]
        assert len(used) == len(set(used)), (at, name, used)
        assert set(used) <= {0, 1, 2, 3}
        assert sum(place.cpu_milli for place in (*mine, *stay)) <= 8000
        assert sum(place.memory_mib for place in (*mine, *stay)) <= 1000
