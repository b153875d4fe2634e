"""A tap on every stream between agents and replicas of a simulated world: swaps, repeats and delays single messages.

Real services and real agents on virtual time. Each disturbed message waits for another of a chosen type to pass on the
same node's stream, so that every ordered pair of types meets.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args
from unittest import mock

from ares.agent.agent import Agent
from ares.model.link import (
    AgentFrame,
    AgentMessage,
    Checkpointed,
    DamageFound,
    Exited,
    Fenced,
    LogChunk,
    Moving,
    OpenAside,
    OutputChunk,
    Progress,
    Resize,
    ServerFrame,
    ServerMessage,
    Start,
    Started,
    Stop,
    TransferRates,
)
from ares.model.telemetry.program_span import ProgramSpans
from ares.sim.world.machine import SimulatedProcess
from ares.sim.world.network import Pipe
from ares.sim.world.node import SimulatedNode
from ares.sim.world.swarm import SwarmNemesis, mix

Message = AgentMessage | ServerMessage
# Never sent in these worlds: simulated people enter no running job, their jobs save no checkpoints (those of directed
# cases do), no tenant has a rate, and no program records spans.
ELSEWHERE = (OpenAside, Checkpointed, DamageFound, Moving, ProgramSpans, TransferRates)
TYPES: tuple[type[Message], ...] = tuple(
    kind for kind in (*get_args(AgentMessage), *get_args(ServerMessage)) if kind not in ELSEWHERE
)
# Held back until another passed; repeated after it once, nine times, or up to a minute later.
Act = Literal["swap", "twice", "tenfold", "late"]
ACTS: tuple[Act, ...] = get_args(Act)
COPIES = {"swap": 1, "twice": 1, "tenfold": 9, "late": 1}
LATE_S = (5.0, 20.0, 60.0)
WAITS_S = 60.0
# The contract of these lets them come in any later session of the node; the others belong to their stream.
REPEATABLE = (Started, Exited, Fenced, LogChunk, OutputChunk, Progress, Start, Stop, Resize)

QUIET = replace(
    mix(0), replicas=2, nodes=2, people=2, deeds=4, steers=1, safety_s=15.0, families=(), store_rate=0.0,
    store_slow=0.0, breaking=0.01, slow=0.0, doubled=0.0, lease_stretch=1.0, drift=0.0,
)  # fmt: skip


@dataclass(eq=False)
class Waiting:
    """A message under way: what it waits for, and where it goes."""

    node: str
    after: type[Message]
    message: Message
    pipe: "Pipe[AgentFrame] | Pipe[ServerFrame]"


@dataclass
class Tap:
    """Disturbs half the messages of one type in one way, each against a type drawn for it."""

    kind: type[Message]
    act: Act
    rng: random.Random
    # What happened: how many passed, and which pairs met.
    passed: Counter[str] = field(default_factory=Counter[str])
    met: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    _on: bool = True
    _waiting: list[Waiting] = field(default_factory=list[Waiting])
    _latest: dict[tuple[str, bool], "Pipe[AgentFrame] | Pipe[ServerFrame]"] = field(
        default_factory=dict[tuple[str, bool], "Pipe[AgentFrame] | Pipe[ServerFrame]"]
    )

    def take(self, pipe: "Pipe[AgentFrame] | Pipe[ServerFrame]", frame: "AgentFrame | ServerFrame") -> None:
        """In place of `Pipe.send`: every message becomes a frame of its own."""
        up = pipe.near.startswith("node ")
        node = pipe.near if up else pipe.far
        self._latest[node, up] = pipe
        for message in frame.messages:
            self.passed[type(message).__name__] += 1
            disturbed = self._on and isinstance(message, self.kind) and self.rng.random() < 0.5
            if not disturbed or self.act != "swap":
                _post(pipe, message)
            self._meet(node, message)
            if disturbed:
                self._hold(Waiting(node, self.rng.choice(TYPES), message, pipe))

    def calm(self) -> None:
        """No more disturbance; what was held back comes now."""
        self._on = False
        for one in tuple(self._waiting):
            self._deliver(one)

    def _hold(self, one: Waiting) -> None:
        self._waiting.append(one)
        loop = one.pipe._stream.loop
        loop.call_later(WAITS_S, self._deliver, one, context=one.pipe._stream.between)

    def _meet(self, node: str, passing: Message) -> None:
        for one in [one for one in self._waiting if one.node == node and isinstance(passing, one.after)]:
            self.met.add((self.kind.__name__, one.after.__name__, self.act))
            self._deliver(one)

    def _deliver(self, one: Waiting) -> None:
        if one not in self._waiting:
            return
        self._waiting.remove(one)
        stream = one.pipe._stream
        delay_s = self.rng.choice(LATE_S) if self.act == "late" else 0.0
        stream.loop.call_later(delay_s, self._arrive, one, context=stream.between)

    def _arrive(self, one: Waiting) -> None:
        up = one.pipe.near == one.node
        pipe = self._latest[one.node, up] if isinstance(one.message, REPEATABLE) else one.pipe
        for _ in range(COPIES[self.act]):
            _post(pipe, one.message)


_send = Pipe.send


def _post(pipe: "Pipe[AgentFrame] | Pipe[ServerFrame]", message: Message) -> None:
    frame = AgentFrame if pipe.near.startswith("node ") else ServerFrame
    _send(pipe, frame(messages=(message,)))  # type: ignore[arg-type]


@contextmanager
def tapped(tap: Tap) -> Iterator[None]:
    """Worlds that are played in the block have the tap, talkative jobs, and an agent that leaves in good order."""
    heal, effect, write_result, make_agent = (
        SwarmNemesis.heal,
        SimulatedProcess._effect,
        SimulatedProcess._write_result,
        SimulatedNode._agent,
    )

    def send(pipe: "Pipe[AgentFrame]", frame: object) -> None:
        if isinstance(frame, AgentFrame | ServerFrame):
            tap.take(pipe, frame)
        else:
            _send(pipe, frame)  # type: ignore[arg-type]

    def calm(nemesis: SwarmNemesis) -> None:
        tap.calm()
        heal(nemesis)

    def talk(process: SimulatedProcess) -> None:
        effect(process)
        log = Path(process._launch.log_path)
        if not log.exists():
            log.write_bytes(b"a line\n")
            Path(process._launch.env["ARES_PROGRESS_FILE"]).write_text(json.dumps({"fraction": 0.5}))

    def hand_over(process: SimulatedProcess) -> None:
        write_result(process)
        (Path(process._launch.env["ARES_OUTPUT_DIR"]) / "made").write_text(process.fence)

    def leaving(node: SimulatedNode) -> Agent:
        agent = make_agent(node)
        if node.name == "n2" and node._loop.time() == 0:
            node._loop.call_later(9.0, agent.stop)
        return agent

    patches: dict[type, dict[str, Callable[..., object]]] = {
        Pipe: {"send": send},
        SwarmNemesis: {"heal": calm},
        SimulatedProcess: {"_effect": talk, "_write_result": hand_over},
        SimulatedNode: {"_agent": leaving},
    }
    with ExitStack() as stack:
        for where, changed in patches.items():
            for name, value in changed.items():
                stack.enter_context(mock.patch.object(where, name, value))
        yield
