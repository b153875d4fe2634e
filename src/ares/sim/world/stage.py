"""Building blocks of directed cases: wait for a point, act at it, and find the components."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ares.check.invariants.history import Commit, Event, ProcessEnded, ProcessStarted
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core import keys
from ares.model.access import Principal
from ares.model.job import JobSpec, Resources, RetryPolicy
from ares.model.link import AgentFrame, ServerFrame, Start
from ares.ports.store import Op, Put
from ares.sim.world.network import Stream
from ares.sim.world.node import SimulatedNode
from ares.sim.world.plane import Plane
from ares.sim.world.store import Trouble
from ares.sim.world.swarm import Mix, mix
from ares.sim.world.world import TENANTS, Script, SimulatedWorld, Vain

STEP_S = 0.005
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class DirectedCase:
    what: str
    script: Script
    replicas: int = 2
    nodes: int = 2
    people: int = 1
    beside: bool = False
    planners: int = 1
    data: bool = False

    @property
    def shape(self) -> Mix:
        return replace(
            mix(0), replicas=self.replicas, nodes=self.nodes, people=self.people, families=(), drift=0.0,
            lease_stretch=1.0, store_rate=0.0, store_slow=0.0, breaking=0.0, slow=0.0, doubled=0.0, beside=self.beside,
            planners=self.planners, data=self.data,
        )  # fmt: skip


async def until(world: SimulatedWorld, holds: Callable[[], bool]) -> None:
    """Waits for a condition. A case that waits in vain is broken."""
    for _ in range(int(_PATIENCE_S / STEP_S)):
        if holds():
            return
        await asyncio.sleep(STEP_S)
    raise Vain(f"what the case waits for did not happen until {world.loop.time():.1f} s")


def at_once(world: SimulatedWorld, point: Callable[[Event], bool], act: Callable[[], object]) -> list[Event]:
    """Acts at the moment of the first such event, before any other component. The event is in the list then."""
    seen: list[Event] = []

    def look(event: Event) -> None:
        if not seen and point(event):
            seen.append(event)
            act()

    world.recorder.tell(look)
    return seen


async def submit(
    world: SimulatedWorld,
    runs_s: float,
    number: int = 1,
    *,
    by: int = 0,
    cpu_milli: int = 2000,
    says: str = "",
    codes: str = "0",
    **spec: Any,
) -> str:
    """Submits a job, by one of the people, and returns its id. `codes`: how its attempts exit, the last for all."""
    person = world.people[by]
    wanted = JobSpec(
        command=("work",), env={"RUNS_S": f"{runs_s}", "CODES": codes, **({"SAYS": says} if says else {})},
        resources=Resources(cpu_milli=cpu_milli, memory_mib=64), retry=RetryPolicy(limit=2, base_s=0.2, max_s=0.5),
        grace_s=0.0, **spec,
    )  # fmt: skip
    while not isinstance(
        made := await person.send(SubmitRequest(spec=wanted, request_id=f"job-{number}")), AcceptedJob
    ):
        await asyncio.sleep(0.2)
    person.jobs.append(made.job)
    return made.job


def state_of(world: SimulatedWorld, job: str) -> dict[str, Any]:
    records = world.store.snapshot()
    kv = next((kv for tenant in TENANTS if (kv := records.get(keys.state(tenant, job))) is not None), None)
    return {} if kv is None else msgspec.json.decode(kv.value)


def phase(world: SimulatedWorld, job: str) -> str:
    return state_of(world, job).get("phase", "")


def node_of(world: SimulatedWorld, job: str) -> SimulatedNode:
    name = state_of(world, job)["placements"][0]["node"]
    return next(node for node in world.nodes if node.name == name)


def stream_of(world: SimulatedWorld, node: SimulatedNode) -> Stream:
    """The newest stream of the node."""
    return next(stream for stream in reversed(world.network.streams) if stream.up.near == f"node {node.name}")


def plane_of(world: SimulatedWorld, name: str) -> Plane:
    return next(plane for plane in world.planes if plane.name == name)


def leader_of(world: SimulatedWorld) -> Plane:
    kv = world.store.snapshot()[keys.leader("local")]
    return plane_of(world, msgspec.json.decode(kv.value)["replica"])


async def ready(world: SimulatedWorld) -> None:
    """Waits until every component is up, every node can be placed on, and there is a leader."""
    await until(world, lambda: sum(key.startswith(keys.LEASES) for key in world.store.snapshot()) == len(world.nodes))
    await until(world, lambda: keys.leader("local") in world.store.snapshot())
    await asyncio.sleep(1.0)


def cut_off(
    world: SimulatedWorld, node: SimulatedNode, planes: Sequence[str], *, cut: bool, back: bool = False
) -> None:
    """Cuts or heals the way from a node to these replicas, with `back` also the way back."""
    for plane in planes:
        world.network.set_cut(f"node {node.name}", plane, cut)
        if back:
            world.network.set_cut(plane, f"node {node.name}", cut)


def ordain(plane: Plane, kind: str, trouble: Trouble, then: Callable[[], object] = lambda: None) -> None:
    """The replica's next transaction that writes a key of this kind has this trouble."""
    wire = plane.wire

    def fate(ops: Sequence[Op]) -> Trouble | None:
        if not any(isinstance(op, Put) and op.key.startswith(kind) for op in ops):
            return None
        wire.ordained = None
        then()
        return trouble

    wire.ordained = fate


def starts(event: Event) -> bool:
    return isinstance(event, ProcessStarted)


def ends(event: Event) -> bool:
    return isinstance(event, ProcessEnded)


def writes(kind: str, text: str = "") -> Callable[[Event], bool]:
    def point(event: Event) -> bool:
        return isinstance(event, Commit) and any(
            write.key.startswith(kind) and text in (write.value or "") for write in event.writes
        )

    return point


async def serve_past(world: SimulatedWorld, node: SimulatedNode, not_this: Plane) -> None:
    """Breaks the node's stream until its session is with another replica."""
    while stream_of(world, node).up.far == not_this.name:
        stream_of(world, node).breaks("elsewhere, please")
        await asyncio.sleep(3.0)


async def submit_past(world: SimulatedWorld, not_this: Plane) -> str:
    """Submits a short job through another replica."""
    ask_only(world, [plane for plane in world.planes if plane is not not_this])
    return await submit(world, 1.0)


async def cordon(world: SimulatedWorld, node: SimulatedNode, not_by: Plane) -> None:
    """Cordons the node through another replica."""
    other = next(plane.replica for plane in world.planes if plane is not not_by and plane.replica is not None)
    await other.nodes.cordon(Principal(token_id="operator", tenant="alpha", role="admin"), node.name, True)


def ask_only(world: SimulatedWorld, planes: list[Plane]) -> None:
    """From now on the person calls these replicas only."""
    world.people[0].planes = planes


def hold_back(world: SimulatedWorld, stream: Stream) -> Callable[[], None]:
    """Nothing that the agent sends on this stream arrives until the function that is returned is called. That the
    stream has ended is heard a moment later."""
    pipe, held, send = stream.up, list[Any](), stream.up.send
    pipe.send = held.append  # pyright: ignore[reportAttributeAccessIssue]

    def release() -> None:
        pipe.send = send
        for frame in held:
            world.loop.call_later(0.0 if isinstance(frame, AgentFrame) else 1.0, send, frame)

    return release


def noting_starts(stream: Stream, starts: list[tuple[Stream, ServerFrame]]) -> Callable[[Any], None]:
    send = stream.down.send

    def noted(frame: Any) -> None:
        if isinstance(frame, ServerFrame) and any(isinstance(message, Start) for message in frame.messages):
            starts.append((stream, frame))
        send(frame)

    return noted
