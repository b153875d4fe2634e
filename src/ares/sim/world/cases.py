"""Directed cases: small worlds in which a script brings about, at the exact point, what chance seldom does.

The product keeps every promise in each of them. A seed moves the details: delays, jitter, who is asked first.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ares.core import keys
from ares.model.job import JobSpec, Resources, RetryPolicy
from ares.model.link import ServerFrame, Start
from ares.ports.store import Op, Put
from ares.services.submit import SubmitRequest, Submitted
from ares.sim.invariants.history import Commit, Event, ProcessEnded, ProcessStarted
from ares.sim.world.network import Stream
from ares.sim.world.node import Node
from ares.sim.world.plane import Plane
from ares.sim.world.store import Backup, Trouble
from ares.sim.world.swarm import Mix, mix
from ares.sim.world.world import Script, Vain, World

_STEP_S = 0.005
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Case:
    what: str
    script: Script
    replicas: int = 2
    nodes: int = 2

    @property
    def shape(self) -> Mix:
        return replace(
            mix(0), replicas=self.replicas, nodes=self.nodes, people=1, families=(), drift=0.0, lease_stretch=1.0,
            store_rate=0.0, store_slow=0.0, breaking=0.0, slow=0.0, doubled=0.0,
        )  # fmt: skip


# ---- what scripts are made of


async def _until(world: World, holds: Callable[[], bool]) -> None:
    """Looks again and again; a case that waits in vain is a broken case."""
    for _ in range(int(_PATIENCE_S / _STEP_S)):
        if holds():
            return
        await asyncio.sleep(_STEP_S)
    raise Vain(f"what the case waits for did not happen until {world.loop.time():.1f} s")


def _at(world: World, point: Callable[[Event], bool], act: Callable[[], object]) -> list[Event]:
    """Acts at the very moment of the first such event, before anybody else can. The event is in the list then."""
    seen: list[Event] = []

    def look(event: Event) -> None:
        if not seen and point(event):
            seen.append(event)
            act()

    world.recorder.tell(look)
    return seen


async def _job(world: World, runs_s: float, number: int = 1, **spec: Any) -> str:
    """Submits a job and returns its id."""
    person = world.people[0]
    wanted = JobSpec(
        command=("work",), env={"RUNS_S": f"{runs_s}", "CODES": "0"},
        resources=Resources(cpu_milli=2000, memory_mib=64), retry=RetryPolicy(limit=2, base_s=0.2, max_s=0.5),
        grace_s=0.0, **spec,
    )  # fmt: skip
    while not isinstance(made := await person.send(SubmitRequest(spec=wanted, request_id=f"job-{number}")), Submitted):
        await asyncio.sleep(0.2)
    person.jobs.append(made.job)
    return made.job


def _state(world: World, job: str) -> dict[str, Any]:
    kv = world.store.snapshot().get(keys.state("alpha", job))
    return {} if kv is None else msgspec.json.decode(kv.value)


def _phase(world: World, job: str) -> str:
    return _state(world, job).get("phase", "")


def _node_of(world: World, job: str) -> Node:
    name = _state(world, job)["placements"][0]["node"]
    return next(node for node in world.nodes if node.name == name)


def _stream_of(world: World, node: Node) -> Stream:
    """Its newest."""
    return next(one for one in reversed(world.network.streams) if one.up.near == f"node {node.name}")


def _plane(world: World, name: str) -> Plane:
    return next(plane for plane in world.planes if plane.name == name)


def _leader(world: World) -> Plane:
    kv = world.store.snapshot()[keys.leader("local")]
    return _plane(world, msgspec.json.decode(kv.value)["replica"])


async def _ready(world: World) -> None:
    """Everybody is up, every node can be placed on, and somebody leads."""
    await _until(world, lambda: sum(key.startswith(keys.LEASES) for key in world.store.snapshot()) == len(world.nodes))
    await _until(world, lambda: keys.leader("local") in world.store.snapshot())
    await asyncio.sleep(1.0)


def _cut(world: World, node: Node, planes: Sequence[str], *, cut: bool, back: bool = False) -> None:
    """The way from a node to these replicas, and back."""
    for plane in planes:
        world.network.set_cut(f"node {node.name}", plane, cut)
        if back:
            world.network.set_cut(plane, f"node {node.name}", cut)


def _ordain(plane: Plane, kind: str, trouble: Trouble, then: Callable[[], object] = lambda: None) -> None:
    """The replica's next transaction that writes a key of this kind has this trouble."""
    wire = plane.wire

    def fate(ops: Sequence[Op]) -> Trouble | None:
        if not any(isinstance(op, Put) and op.key.startswith(kind) for op in ops):
            return None
        wire.ordained = None
        then()
        return trouble

    wire.ordained = fate


def _starts(event: Event) -> bool:
    return isinstance(event, ProcessStarted)


def _ends(event: Event) -> bool:
    return isinstance(event, ProcessEnded)


def _writes(kind: str, text: str = "") -> Callable[[Event], bool]:
    def point(event: Event) -> bool:
        return isinstance(event, Commit) and any(
            one.key.startswith(kind) and text in (one.value or "") for one in event.writes
        )

    return point


# ---- zombies


async def _zombie(world: World) -> None:
    """An agent is frozen between the end of its process and the report. Its job is taken away and runs again; the old
    report, held back on the way to one replica, arrives while the new attempt runs on the same node."""
    await _ready(world)
    node = world.nodes[0]
    _at(world, _ends, lambda: node.freeze(whole=False))
    job = await _job(world, 6.0)
    await _until(world, lambda: _phase(world, job) == "RETRYING")
    old = _stream_of(world, node).up.far
    _cut(world, node, [old], cut=True)
    again = _at(world, _starts, lambda: None)
    node.thaw()
    await _until(world, lambda: bool(again))
    _cut(world, node, [old], cut=False)
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")


async def _zombie_elsewhere(world: World) -> None:
    """A whole node is frozen while its job runs, long enough for another attempt to begin elsewhere, then wakes."""
    await _ready(world)
    again: list[Event] = []
    job = await _job(world, 12.0)
    await _until(world, lambda: _phase(world, job) == "RUNNING")
    node = _node_of(world, job)
    node.freeze(whole=True)
    again = _at(world, _starts, lambda: None)
    await _until(world, lambda: bool(again))
    node.thaw()
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")


async def _frozen_agent(world: World) -> None:
    """An agent is frozen, and its job is not: nobody but its slot can end it before another attempt begins."""
    await _ready(world)
    job = await _job(world, 20.0)
    await _until(world, lambda: _phase(world, job) == "RUNNING")
    node = _node_of(world, job)
    node.freeze(whole=False)
    again = _at(world, _starts, lambda: None)
    await _until(world, lambda: bool(again))
    node.thaw()
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")


async def _late_commit(world: World) -> None:
    """A replica is frozen between its check of an attempt's end and the write, which arrives when the end is long
    committed through another replica."""
    await _ready(world)
    job = await _job(world, 2.0)
    await _until(world, lambda: _phase(world, job) == "RUNNING")
    plane = _plane(world, _stream_of(world, _node_of(world, job)).up.far)
    plane.wire.late_s = (14.0, 14.0)
    _ordain(plane, keys.RESULTS, "late", plane.freeze)
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")
    await asyncio.sleep(15.0)
    plane.thaw()


# ---- answers that are lost or late


async def _lost_reply(world: World) -> None:
    """The commit of an attempt's end is carried out, and its answer is lost."""
    await _ready(world)
    for plane in world.planes:
        _ordain(plane, keys.RESULTS, "reply-lost")
    job = await _job(world, 2.0)
    await _until(world, lambda: _phase(world, job) in ("SUCCEEDED", "FAILED"))
    await asyncio.sleep(5.0)


async def _late_answer(world: World) -> None:
    """A renewal is acknowledged to a node that is frozen just then. It wakes within its right, and no later renewal
    gets through: the right must end by the time that the renewal was sent."""
    await _ready(world)
    job = await _job(world, 30.0)
    await _until(world, lambda: _phase(world, job) == "RUNNING")
    node = _node_of(world, job)
    renewed = _at(world, _writes(f"{keys.LEASES}{node.name}"), lambda: node.freeze(whole=True))
    await _until(world, lambda: bool(renewed))
    await asyncio.sleep(1.0)
    _cut(world, node, [plane.name for plane in world.planes], cut=True)
    await asyncio.sleep(5.0)
    again = _at(world, _starts, lambda: None)
    # Who runs first after a pause is nobody's choice: here it is the agent, before its slot looks at the clock.
    world.loop.thaw(node.component)
    await asyncio.sleep(_STEP_S)
    node.thaw()
    await _until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    _cut(world, node, [plane.name for plane in world.planes], cut=False)


async def _unrecorded(world: World) -> None:
    """A replica is cut off from the store while an agent renews through it: what it cannot write it must not grant."""
    await _ready(world)
    job = await _job(world, 30.0)
    await _until(world, lambda: _phase(world, job) == "RUNNING")
    node = _node_of(world, job)
    plane = _plane(world, _stream_of(world, node).up.far)
    _cut(world, node, [one.name for one in world.planes if one is not plane], cut=True, back=True)
    again = _at(world, _starts, lambda: None)
    plane.wire.set_cut(True)
    await _until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    plane.wire.set_cut(False)
    _cut(world, node, [one.name for one in world.planes], cut=False, back=True)


# ---- messages


async def _doubled(world: World) -> None:
    """Every message comes twice, and the start once more when the attempt is over."""
    starts: list[tuple[Stream, ServerFrame]] = []
    await _ready(world)
    world.network.doubled = 1.0
    for stream in world.network.streams:
        stream.down.send = _noting(stream, starts)  # pyright: ignore[reportAttributeAccessIssue]
    job = await _job(world, 2.0)
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")
    await asyncio.sleep(1.0)
    for stream, frame in tuple(starts):
        stream.down.send(frame)
    await asyncio.sleep(5.0)


def _noting(stream: Stream, starts: list[tuple[Stream, ServerFrame]]) -> Callable[[Any], None]:
    send = stream.down.send

    def noted(frame: Any) -> None:
        if isinstance(frame, ServerFrame) and any(isinstance(one, Start) for one in frame.messages):
            starts.append((stream, frame))
        send(frame)

    return noted


async def _old_hello(world: World) -> None:
    """The greeting of an agent that is dead by now arrives when its successor runs a job."""
    world.network.slow = 1.0
    await _until(world, lambda: any(one.up.near == "node n1" for one in world.network.streams))
    node = world.nodes[0]
    far = _stream_of(world, node).up.far
    _cut(world, node, [far], cut=True)
    world.network.slow = 0.0
    node.crash()
    await asyncio.sleep(1.0)
    # The second node comes later: the job goes to the first.
    world.nodes[1].crash()
    node.start()
    job = await _job(world, 20.0)
    await _until(world, lambda: _phase(world, job) == "RUNNING")
    world.nodes[1].start()
    await asyncio.sleep(6.0)
    # It does not hear at once what the control plane thinks of it.
    served = _stream_of(world, node).up.far
    world.network.set_cut(served, f"node {node.name}", True)
    _cut(world, node, [far], cut=False)
    await asyncio.sleep(6.0)
    world.network.set_cut(served, f"node {node.name}", False)


# ---- leaders


async def _late_grant(world: World) -> None:
    """A binding is on its way for so long that it is made anew, and arrives when the job has ended."""
    await _ready(world)
    leader = _leader(world)
    leader.wire.late_s = (8.0, 8.0)
    _ordain(leader, keys.STATE, "late")
    # Submissions write the same kind of key: they go through the other replica.
    job = await _through(world, leader)
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")
    await asyncio.sleep(10.0)


async def _through(world: World, not_this: Plane) -> str:
    way = (world.people[0].name, not_this.name)
    world.network.set_cut(*way, True)
    job = await _job(world, 1.0)
    world.network.set_cut(*way, False)
    return job


async def _old_leader(world: World) -> None:
    """A leader is frozen inside a binding and replaced. The binding arrives when another leads, and the job still
    waits, as its node is away."""
    await _ready(world)
    leader, node = _leader(world), world.nodes[0]
    await _served_by_another(world, node, leader)
    leader.wire.late_s = (12.0, 12.0)

    def strike() -> None:
        leader.freeze()
        node.crash()

    _ordain(leader, keys.STATE, "late", strike)
    job = await _through(world, leader)
    await asyncio.sleep(14.0)
    leader.thaw()
    node.start()
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")


async def _unsettled_grant(world: World) -> None:
    """A leader cannot find out whether a binding was made. The place looks free, a more urgent job comes for it, and
    the binding arrives after all."""
    await _ready(world)
    leader = _leader(world)
    leader.wire.late_s = (6.5, 6.5)
    wire = leader.wire

    def strike() -> None:
        # Just when it would look.
        world.loop.call_later(1.8, wire.set_cut, True)
        world.loop.call_later(2.4, wire.set_cut, False)

    _ordain(leader, keys.STATE, "late", strike)
    way = (world.people[0].name, leader.name)
    world.network.set_cut(*way, True)
    first = await _job(world, 6.0, priority="LOW")
    second = await _job(world, 6.0, 2, priority="CRITICAL")
    world.network.set_cut(*way, False)
    await _until(world, lambda: _phase(world, first) == _phase(world, second) == "SUCCEEDED")


async def _served_by_another(world: World, node: Node, not_this: Plane) -> None:
    """The node's session is with another replica."""
    while _stream_of(world, node).up.far == not_this.name:
        _stream_of(world, node).breaks("elsewhere, please")
        await asyncio.sleep(3.0)


# ---- the store


async def _restored(world: World) -> None:
    """The store goes back to before a job was bound, while the attempt that it forgot runs."""
    await _ready(world)
    backup = _at(world, _writes(keys.REQUESTS), lambda: copies.append(world.store.backup()))
    copies: list[Backup] = []
    job = await _job(world, 12.0)
    await _until(world, lambda: bool(backup) and _phase(world, job) == "RUNNING")
    for plane in world.planes:
        plane.crash()
    world.store.restore(copies[0])
    for plane in world.planes:
        plane.start()
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")


# ---- watches


async def _gap(world: World) -> None:
    """The leader's watch falls so far behind that the store has forgotten what it missed: a job among that."""
    await _ready(world)
    leader = _leader(world)
    leader.wire.hold_watch()
    # What it has in hand it is still given: something else than the job.
    await asyncio.sleep(5.0)
    job = await _through(world, leader)
    world.store.compact()
    leader.wire.release_watch()
    await asyncio.sleep(5.0)
    await world.people[0].look(job)


async def _behind(world: World) -> None:
    """One replica's watch stands still while a client asks this one and the other in turn."""
    await _ready(world)
    job = await _job(world, 4.0)
    await _until(world, lambda: _phase(world, job) == "RUNNING")
    served = _stream_of(world, _node_of(world, job)).up.far
    plane = next(plane for plane in world.planes if plane.name != served)
    plane.wire.hold_watch()
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")
    for _ in range(12):
        await world.people[0].look(job)
    plane.wire.release_watch()


async def _blind_leader(world: World) -> None:
    """The leader's watch stands still while all nodes renew: silence that only it hears takes nothing away. The node
    could not be told just then, and has every right to go on."""
    await _ready(world)
    leader = _leader(world)
    for node in world.nodes:
        await _served_by_another(world, node, leader)
    job = await _job(world, 25.0)
    await _until(world, lambda: _phase(world, job) == "RUNNING")
    node = _node_of(world, job)
    served = _stream_of(world, node).up.far
    leader.wire.hold_watch()
    await asyncio.sleep(8.0)
    renewed = _at(world, _writes(f"{keys.LEASES}{node.name}"), lambda: None)
    await _until(world, lambda: bool(renewed))
    await asyncio.sleep(0.1)
    world.network.set_cut(served, f"node {node.name}", True)
    await asyncio.sleep(3.0)
    world.network.set_cut(served, f"node {node.name}", False)
    leader.wire.release_watch()
    await _until(world, lambda: _phase(world, job) == "SUCCEEDED")


CASES: dict[str, Case] = {
    "zombie": Case("frozen between its process's end and the report, which comes late", _zombie, nodes=1),
    "zombie-elsewhere": Case("a frozen node wakes while its job runs elsewhere", _zombie_elsewhere),
    "frozen-agent": Case("a frozen agent's job runs on", _frozen_agent),
    "late-commit": Case("frozen between check and commit, for longer than another needs", _late_commit),
    "lost-reply": Case("the answer to a commit is lost", _lost_reply),
    "late-answer": Case("a renewal is acknowledged late", _late_answer),
    "unrecorded-renewal": Case("renewals reach a replica that cannot write them down", _unrecorded),
    "doubled": Case("every message comes twice, and a start again when all is over", _doubled),
    "old-hello": Case("a dead agent's greeting arrives after its successor's", _old_hello),
    "late-grant": Case("a binding arrives when the job has ended", _late_grant, nodes=1),
    "old-leader": Case("a leader is frozen inside a binding and replaced", _old_leader, nodes=1),
    "unsettled-grant": Case("a binding whose outcome is unknown arrives late", _unsettled_grant, nodes=1),
    "restored": Case("a restored store has forgotten an attempt that runs", _restored),
    "gap": Case("a watch outrun by a compaction", _gap),
    "behind": Case("a replica whose watch stands still answers", _behind),
    "blind-leader": Case("a leader whose watch stands still judges nodes", _blind_leader),
}  # fmt: skip
