"""Any bookings, any jobs, any strategy: a slow checker goes over every plan, GPU by GPU."""

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Plan
from ares.model.profile import BackfillPolicy, Profile
from ares.model.reservation import Reservation, RoomAsked
from ares.model.state import Placement
from tests.unit.core.reserve.booked import runs, wait
from tests.unit.core.world import NOW, cluster, node, placed, plan

NODES = ("a", "b")
GPUS = 4
PROFILES = st.sampled_from(
    [Profile(actions=("claim", "allocate"))]
    + [
        Profile(backfill=BackfillPolicy(strategy=one))
        for one in ("greedy", "easy", "conservative", "aggressive", "deadline")
    ]
)
WINDOWS = st.tuples(st.integers(-1, 3), st.integers(1, 3)).map(lambda at: (NOW + at[0] * 600.0, at[1] * 600.0))
# For each reservation its window, and how many of the GPUs left on each node it takes.
BOOKINGS = st.lists(st.tuples(WINDOWS, st.tuples(st.integers(0, 2), st.integers(0, 2))), max_size=3)
JOBS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([None, 300.0, 600.0, 900.0, 4000.0]),
        st.sampled_from(["", "", "", "r0", "r1"]),
        st.sampled_from(["NORMAL", "CRITICAL"]),
    ),
    max_size=8,
)
RUNNING = st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 3), st.sampled_from([None, 200.0])), max_size=3)


def booked(found: list[tuple[tuple[float, float], tuple[int, int]]]) -> list[Reservation]:
    """No two share a GPU, whatever their times: simpler than booking, and any of it could be booked."""
    left = {name: list(range(GPUS)) for name in NODES}
    made: list[Reservation] = []
    for number, ((start, length), counts) in enumerate(found):
        places: list[Placement] = []
        for name, count in zip(NODES, counts, strict=True):
            gpus, left[name] = tuple(left[name][:count]), left[name][count:]
            if gpus:
                places.append(placed(name, cpu=len(gpus), memory=10 * len(gpus), gpus=gpus))
        if places:
            made.append(
                Reservation(
                    name=f"r{number}",
                    tenant="t",
                    start=start,
                    until=start + length,
                    asked=RoomAsked(gpus=1),
                    placements=tuple(places),
                )
            )
    return made


@settings(max_examples=150)
@given(PROFILES, BOOKINGS, JOBS, RUNNING)
def test_booked_room_is_for_those_it_is_booked_for(
    profile: Profile,
    bookings: list[tuple[tuple[float, float], tuple[int, int]]],
    jobs: list[tuple[int, float | None, str, str]],
    running: list[tuple[str, int, float | None]],
) -> None:
    made = cluster(*(node(name, cpu=8, memory=100, gpus=GPUS) for name in NODES), profile=profile)
    for number, (name, gpu, for_s) in enumerate(running):
        free = made.free(name)
        if free is not None and gpu in free.gpus:
            runs(made, f"run{number}", placed(name, gpus=(gpu,)), gpus=1, expected_runtime_s=for_s, priority="LOW")
    records = booked(bookings)
    for one in records:
        made.book(one)
    for number, (gpus, for_s, reservation, priority) in enumerate(jobs):
        said = {"gpus": gpus, "expected_runtime_s": for_s, "reservation": reservation or None, "priority": priority}
        wait(made, f"job{number}", NOW - number, memory=5, **said)
    before = made.table.gpu_left.tolist(), made.table.cpu_free.tolist(), made.table.memory_free.tolist()
    found = plan(made)
    check(found, made, {one.name: one for one in records}, jobs)
    assert (made.table.gpu_left.tolist(), made.table.cpu_free.tolist(), made.table.memory_free.tolist()) == before


def check(
    found: Plan, made: Cluster, records: dict[str, Reservation], jobs: list[tuple[int, float | None, str, str]]
) -> None:
    used: set[tuple[str, int]] = {
        (place.node, gpu) for one in made.holdings.values() for place in one.placements for gpu in place.gpus
    }
    within: dict[tuple[str, str], int] = {}
    for placing in found.placed:
        _, for_s, named, _ = jobs[int(placing.job.removeprefix("job"))]
        ends_at = inf if for_s is None else NOW + for_s
        own = records.get(named)
        own = own if own is not None and own.until > NOW else None
        for place in placing.placements:
            mine = {(place.node, gpu) for gpu in place.gpus}
            assert not mine & used, (placing, used)
            used |= mine
            if own is not None:
                assert own.start <= NOW, (placing, own)
                assert mine <= room(own), (placing, own)
                within[own.name, place.node] = within.get((own.name, place.node), 0) + place.cpu_milli
                continue
            for one in records.values():
                over = one.until <= NOW or ends_at <= one.start
                assert over or not mine & room(one), (placing, one)
    for (name, host), cpu_milli in within.items():
        assert cpu_milli <= sum(place.cpu_milli for place in records[name].placements if place.node == host)
    for eviction in found.evictions:
        kept = {(place.node, gpu) for place in eviction.hold for gpu in place.gpus}
        assert not any(kept & room(one) for one in records.values() if one.until > NOW), eviction


def room(one: Reservation) -> set[tuple[str, int]]:
    return {(place.node, gpu) for place in one.placements for gpu in place.gpus}
