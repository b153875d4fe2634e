"""Booked room and jobs around it, said in few words."""

from typing import Any

from ares.core.schedule.cluster import Cluster
from ares.core.schedule.follower import follow
from ares.model.reservation import Reservation, RoomAsked
from ares.model.state import Placement
from tests.unit.core.world import NOW, spec, state

HOUR = 3600.0
# The GPUs of a node with four.
ALL = tuple(range(4))


def book(
    made: Cluster, *at: Placement, name: str = "demo", start: float = NOW + HOUR, length: float = HOUR, **more: Any
) -> Reservation:
    one = Reservation(
        name=name, tenant="t", start=start, until=start + length, asked=RoomAsked(gpus=1), placements=at, **more
    )
    made.book(one)
    return one


def wait(made: Cluster, job: str, at: float = NOW - 1, **said: Any) -> None:
    made.enqueue(state(job, at), spec(**said))


def runs(made: Cluster, job: str, place: Placement, **said: Any) -> None:
    planned_s = said.get("expected_runtime_s")
    now = state(job, phase="RUNNING", placements=(place,), bound_at=NOW - 100, planned_s=planned_s)
    follow(made, None, now, spec(**said), NOW)
