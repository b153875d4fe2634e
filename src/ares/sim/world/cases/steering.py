"""Jobs that are changed, sent back and made at set times, at the worst moment."""

import asyncio

import msgspec

from ares.api.jobs import CronBody
from ares.api.updates import JobUpdate, ResourceUpdate
from ares.control.replica import Replica
from ares.core import keys
from ares.model.access import Principal, UserRecord
from ares.model.job import JobSpec, Resources
from ares.ports.store import Put
from ares.sim.world.plane import Plane
from ares.sim.world.stage import (
    DirectedCase,
    at_once,
    hold_back,
    leader_of,
    node_of,
    ordain,
    phase,
    ready,
    state_of,
    stream_of,
    submit,
    submit_past,
    until,
    writes,
)
from ares.sim.world.world import SimulatedWorld

_ADMIN = Principal(token_id="admin", tenant="alpha", role="admin")
_USER = Principal(token_id="t", tenant="alpha", role="submitter", user="cronner", user_id="u1")


def _other(world: SimulatedWorld, not_this: Plane) -> Replica:
    found = next(plane.replica for plane in world.planes if plane is not not_this and plane.replica is not None)
    assert found is not None, "nothing has broken yet"
    return found


async def _updated_under_grant(world: SimulatedWorld) -> None:
    """A grant is on its way while the job is changed to ask for less, by way of another replica."""
    await ready(world)
    leader, struck = leader_of(world), asyncio.Event()
    leader.wire.late_s = (3.0, 3.0)
    ordain(leader, keys.STATE, "late", struck.set)
    job = await submit_past(world, leader)
    await struck.wait()
    change = JobUpdate(resources=ResourceUpdate(cpu_milli=1000))
    await _other(world, leader).steering.update(_ADMIN, job, change)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")
    await asyncio.sleep(5.0)


async def _sent_back_under_report(world: SimulatedWorld) -> None:
    """A job is sent back to the queue when it has ended and no report of that has come."""
    await ready(world)
    leader = leader_of(world)
    job = await submit(world, 1.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    stream = stream_of(world, node_of(world, job))
    release = hold_back(world, stream)
    await asyncio.sleep(1.5)
    await _other(world, leader).steering.requeue(_ADMIN, job)
    release()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")
    assert state_of(world, job)["requeues"] == 1, "the case did not come about"
    await asyncio.sleep(2.0)


async def _leader_dies_at_a_firing(world: SimulatedWorld) -> None:
    """The leader dies when it has made the job of a schedule's moment and has not noted that."""
    await ready(world)
    user = UserRecord(tenant="alpha", name="cronner", role="submitter", id="u1")
    await world.store.txn([], [Put(keys.user("alpha", "cronner"), msgspec.json.encode(user))])
    leader = leader_of(world)
    spec = JobSpec(
        command=("work",), env={"RUNS_S": "1.0", "CODES": "0"}, resources=Resources(cpu_milli=500, memory_mib=64)
    )
    body = CronBody(schedule="* * * * *", spec=spec, missed="once", overlap="allow")
    await _other(world, leader).crons.put(_USER, "often", body)
    seen = at_once(world, writes(keys.REQUESTS), leader.crash)
    await until(world, lambda: bool(seen))
    await asyncio.sleep(3.0)
    leader.start()
    key = keys.cron("alpha", "often")
    await until(world, lambda: b'"history"' in world.store.snapshot()[key].value)
    await _other(world, leader).crons.pause(_USER, "often", "enough")
    await asyncio.sleep(5.0)


CASES: dict[str, DirectedCase] = {
    "updated-under-grant": DirectedCase("a job is changed while a grant is on its way", _updated_under_grant, nodes=1),
    "sent-back-under-report": DirectedCase(
        "a job is sent back when it has ended and its report has not come", _sent_back_under_report, nodes=1
    ),
    "leader-dies-at-a-firing": DirectedCase(
        "a leader dies between a schedule's job and its note of it", _leader_dies_at_a_firing
    ),
}
