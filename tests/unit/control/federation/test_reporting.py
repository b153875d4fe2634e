"""What a cluster reports of itself, in a whole control plane."""

import msgspec

from ares.control.federation.routing.capacity import report_of, rooms_of
from ares.control.federation.routing.reporting import ClusterReporter
from ares.model.uplink import ROOMS_MAX, ClusterReport, ReportedRoom, UplinkRecord
from tests.world import World

UPLINK = UplinkRecord(name="east", servers=("x:1",), api="x", sealed="", incarnation=3)  # pyright: ignore[reportArgumentType]


def test_room_in_too_many_sizes_is_told_as_the_least_of_those_alike() -> None:
    free = [(1000 * n, 1000, 0) for n in range(1, 21)]
    rooms = rooms_of([*free, (0, 500, 0)])
    assert len(rooms) <= ROOMS_MAX
    assert sum(room.machines for room in rooms) == 20
    # Never more than there is.
    assert sum(room.machines * room.cpu_milli for room in rooms) <= sum(cpu for cpu, _, _ in free)
    assert rooms[0] == ReportedRoom(machines=3, cpu_milli=1000, memory_mib=1000)


async def test_a_report_has_room_starts_prices_and_the_round_trip() -> None:
    async with World() as world:
        await world.agent("n1")
        reporter = ClusterReporter(world.one.planner, world.one.view, world.clock)
        first = await reporter.next(UPLINK)
        (shape,) = first.shapes
        assert (shape.nodes, len(shape.rooms), shape.etas) == (1, 1, ())
        assert "pool=default" in first.labels
        await world.advance(0.25)
        reporter.answered(first.seq, kept=True)
        # A job that holds all of it for an hour, and one that waits for it.
        for _ in range(2):
            await world.submit(cpu_milli=shape.cpu_milli, expected_runtime_s=3600.0)
        await world.advance(3.0)
        full = await reporter.next(UPLINK)
        assert (full.seq, full.rtt_ms, full.shapes[0].rooms) == (2, 250, ())
        assert full.shapes[0].drain_hour > 0.9
        # Behind the one that waits: two hours.
        assert full.shapes[0].etas[-1].eta80_s > 3000.0
        # As it arrives: within its bounds.
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(full), type=ClusterReport) == full


async def test_a_report_without_nodes_is_one() -> None:
    async with World() as world:
        assert report_of(world.one.planner, world.one.view, "east", 1, 1).shapes == ()
