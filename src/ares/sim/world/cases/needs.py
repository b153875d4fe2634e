"""Jobs that wait for jobs: releases at the worst moments."""

import asyncio
from typing import Any

import msgspec

from ares.control.flow.submission import AcceptedFlow, FlowRequest
from ares.control.submit.submit import SubmitRequest
from ares.core import keys
from ares.model.access import Principal, TokenRecord
from ares.model.job import JobSpec, Need, NeedsTimeout, Parent, Resources
from ares.model.job_session import ChildAnswer, ChildCall
from ares.model.link import AttemptRef
from ares.model.state import Fence
from ares.ports.store import Put
from ares.sim.world.plane import Plane
from ares.sim.world.stage import (
    DirectedCase,
    at_once,
    leader_of,
    node_of,
    ordain,
    phase,
    ready,
    serve_past,
    state_of,
    submit,
    until,
    writes,
)
from ares.sim.world.world import SimulatedWorld


def _job(**changes: Any) -> JobSpec:
    env = {"RUNS_S": "0.5", "CODES": changes.pop("codes", "0")}
    resources = Resources(cpu_milli=1000, memory_mib=64)
    return JobSpec(command=("work",), env=env, resources=resources, grace_s=0.0, **changes)


async def _flow(world: SimulatedWorld, **jobs: JobSpec) -> AcceptedFlow:
    """Submits a workflow, by the first person, until it is accepted."""
    request = FlowRequest(jobs=jobs, request_id="flow-1")
    while not isinstance(made := await world.people[0].submit_flow(request), AcceptedFlow):
        await asyncio.sleep(0.2)
    return made


async def _late_release(world: SimulatedWorld) -> None:
    """A release is on its way for so long that it is made anew, and arrives when the job has ended."""
    await ready(world)
    leader = leader_of(world)
    leader.wire.late_s = (8.0, 8.0)
    parent = await submit(world, 1.0)
    child = await submit(world, 1.0, 2, needs=(Need(job=parent),))
    at_once(world, writes(keys.EVENTS, '"succeeded"'), lambda: ordain(leader, keys.STATE, "late"))
    await until(world, lambda: phase(world, child) == "SUCCEEDED")
    await asyncio.sleep(10.0)


async def _lost_with_the_leader(world: SimulatedWorld) -> None:
    """The leader dies at the very commit that ends a parent, and knows of no release any more when another leads."""
    await ready(world)
    leader = leader_of(world)
    for node in world.nodes:
        await serve_past(world, node, leader)
    parent = await submit(world, 1.0)
    child = await submit(world, 1.0, 2, needs=(Need(job=parent),))
    at_once(world, writes(keys.EVENTS, '"succeeded"'), leader.crash)
    await until(world, lambda: phase(world, parent) == "SUCCEEDED")
    await asyncio.sleep(8.0)
    leader.start()
    await until(world, lambda: phase(world, child) == "SUCCEEDED")


async def _skipped_chain(world: SimulatedWorld) -> None:
    """The first of a chain fails. All that need its success are skipped in turn; what needs an end runs."""
    await ready(world)
    first = await submit(world, 0.5, codes="1", restart="never")
    chain = [first]
    for number in range(2, 5):
        chain.append(await submit(world, 0.5, number, needs=(Need(job=chain[-1]),)))
    last = await submit(world, 0.5, 9, needs=(Need(job=chain[-1], on="end"),))
    await until(world, lambda: phase(world, last) == "SUCCEEDED")


async def _last_job(world: SimulatedWorld) -> None:
    """A workflow fails on the way; the job that runs at the end of all runs."""
    await ready(world)
    made = await _flow(
        world, a=_job(codes="1", restart="never"), b=_job(needs=(Need(job="a"),)), clean=_job(finally_=True)
    )
    await until(world, lambda: phase(world, made.ids["clean"]) == "SUCCEEDED")


async def _unknown_parent(world: SimulatedWorld) -> None:
    """A job names one that is not kept: it is refused."""
    await ready(world)
    gone = Need(job="0000000000000000")
    await world.people[0].send(SubmitRequest(spec=_job(needs=(gone,), needs_timeout=NeedsTimeout(after_s=1.0))))
    await asyncio.sleep(5.0)


async def _set_clock(world: SimulatedWorld) -> None:
    """The wall clocks of all servers are set ahead by an hour while a job waits for another, for half a minute. Then
    another replica leads, and looks at all that waits."""
    await ready(world)
    parent = await submit(world, 60.0)
    patience = NeedsTimeout(after_s=30.0, then="skip")
    child = await submit(world, 1.0, 2, needs=(Need(job=parent),), needs_timeout=patience)
    await asyncio.sleep(2.0)
    for plane in world.planes:
        plane.clock.jump_wall(3600.0)
    leader = leader_of(world)
    leader.crash()
    await asyncio.sleep(8.0)
    leader.start()
    await until(world, lambda: phase(world, child) == "SKIPPED")


async def _late_timeout(world: SimulatedWorld) -> None:
    """The leader does not hear that one of two parents ended in time, and the child has waited long enough."""
    await ready(world)
    leader = leader_of(world)
    for node in world.nodes:
        await serve_past(world, node, leader)
    parents = [await submit(world, 3.0, 1, cpu_milli=500), await submit(world, 30.0, 2, cpu_milli=500)]
    of = tuple(Parent(job=parent) for parent in parents)
    patience = NeedsTimeout(after_s=5.0, then="skip")
    child = await submit(world, 1.0, 9, needs=(Need(of=of, k=1),), needs_timeout=patience)
    await until(world, lambda: phase(world, parents[0]) == "RUNNING")
    leader.wire.hold_watch()
    await until(world, lambda: phase(world, parents[0]) == "SUCCEEDED")
    await asyncio.sleep(10.0)
    leader.wire.release_watch()
    await until(world, lambda: phase(world, child) in ("SKIPPED", "SUCCEEDED"))


async def _family(world: SimulatedWorld) -> tuple[str, Principal, AttemptRef]:
    """A running job that may submit others, its node and its attempt."""
    await ready(world)
    parent = await submit(world, 6.0, children=2)
    submitter = state_of(world, parent)["submittedBy"]
    token = TokenRecord(id=submitter, sha256="", tenant=state_of(world, parent)["tenant"], role="submitter")
    await world.store.txn([], [Put(keys.token(submitter), msgspec.json.encode(token))])
    await until(world, lambda: phase(world, parent) == "RUNNING")
    return parent, *_attempt(world, parent)


def _attempt(world: SimulatedWorld, job: str) -> tuple[Principal, AttemptRef]:
    state = state_of(world, job)
    node = node_of(world, job).name
    ref = AttemptRef(job=job, tenant=state["tenant"], fence=msgspec.convert(state["fence"], Fence))
    return Principal(token_id=node, tenant="", role="node", node=node), ref


async def _call(plane: Plane, who: Principal, ref: AttemptRef) -> ChildAnswer:
    assert plane.replica is not None, "nothing has broken yet"
    return await plane.replica.children.submit(who, ChildCall(ref=ref, call=1, spec=msgspec.json.encode(_job())))


async def _late_child(world: SimulatedWorld) -> None:
    """An attempt submits a job; that is on its way for so long that the attempt is taken away before it arrives."""
    parent, who, ref = await _family(world)
    leader, struck = leader_of(world), asyncio.Event()
    other = next(plane for plane in world.planes if plane is not leader)
    other.wire.late_s = (4.0, 4.0)
    ordain(other, keys.REQUESTS, "late", struck.set)
    asking = asyncio.create_task(_call(other, who, ref))
    await struck.wait()
    assert leader.replica is not None, "nothing has broken yet"
    admin = Principal(token_id="admin", tenant=ref.tenant, role="admin")
    await leader.replica.steering.requeue(admin, parent)
    await asking
    await until(world, lambda: phase(world, parent) == "SUCCEEDED")


async def _repeated_call(world: SimulatedWorld) -> None:
    """An attempt submits a job and is taken away; the next one makes the same call. Then the job is cancelled."""
    parent, who, ref = await _family(world)
    leader = leader_of(world)
    child = (await _call(leader, who, ref)).job
    assert leader.replica is not None, "nothing has broken yet"
    admin = Principal(token_id="admin", tenant=ref.tenant, role="admin")
    await leader.replica.steering.requeue(admin, parent)
    await until(world, lambda: state_of(world, parent)["attempt"] == 2 and phase(world, parent) == "RUNNING")
    await _call(leader, *_attempt(world, parent))
    await leader.replica.jobs.cancel(admin, parent)
    await until(world, lambda: phase(world, child) in ("CANCELLED", "SUCCEEDED"))


CASES: dict[str, DirectedCase] = {
    "late-release": DirectedCase("a release arrives again when its job has ended", _late_release),
    "release-lost": DirectedCase("the leader dies at the commit that ends a parent", _lost_with_the_leader),
    "skipped-chain": DirectedCase("a chain of jobs is skipped one after the other", _skipped_chain),
    "last-job": DirectedCase("the last job of a workflow that fails", _last_job),
    "unknown-parent": DirectedCase("a job waits for one that is not kept", _unknown_parent),
    "late-child": DirectedCase("a job of an attempt arrives when the attempt is over", _late_child),
    "repeated-call": DirectedCase("the next attempt submits the same job again", _repeated_call),
    "late-timeout": DirectedCase("a timeout of needs by a leader that lags behind", _late_timeout),
    "set-clock": DirectedCase("wall clocks are set while jobs wait", _set_clock),
}
