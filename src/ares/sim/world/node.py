"""A node: its machine, and the real agent on it, which may crash, freeze and come again."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from ares.agent.agent import Agent
from ares.agent.link.identity import begin_boot
from ares.agent.settings import AgentSettings
from ares.check.invariants.history import Back, Fault, Frozen, Lost, Woken
from ares.model.node import Gpu, NodeInfo
from ares.ports.executor import Launch
from ares.ports.link import LinkRefused, Witness
from ares.sim.world.clocks import Chance, SimClock
from ares.sim.world.loop import SimLoop
from ares.sim.world.machine import SimExecutor, SimulatedMachine
from ares.sim.world.network import Listener, Network, SimLink
from ares.sim.world.record import WorldRecorder

_SETTINGS = AgentSettings(poll_every_s=2.0, disk_look_every_s=10.0)
_COMES_AGAIN_S = 0.5


def runs(launch: Launch) -> tuple[float, int]:
    """How long a process runs and its exit code, by the job's environment: a code per attempt, the last for all."""
    codes = launch.env["CODES"].split()
    attempt = int(launch.env["ARES_ATTEMPT"])
    return float(launch.env["RUNS_S"]), int(codes[min(attempt, len(codes)) - 1])


class SimulatedNode:
    def __init__(
        self,
        loop: SimLoop,
        recorder: WorldRecorder,
        network: Network,
        chance: Chance,
        name: str,
        directory: Path,
        replicas: Callable[[], list[Listener]],
        *,
        drift: float,
        cpu_milli: int,
        gpus: int,
        witness: Witness | None = None,
    ) -> None:
        self.name = name
        self._loop = loop
        self._recorder = recorder
        self._network = network
        self._chance = chance
        self._directory = directory
        self._replicas = replicas
        self.clock = SimClock(loop, chance, 1.0 + drift)
        self.machine = SimulatedMachine(loop, recorder, self.clock, chance, name)
        self._cpu_milli = cpu_milli
        self.gpus = gpus
        self._witness = witness
        self._boots = 0
        self.component = ""
        self._executor: SimExecutor | None = None
        self._running: Agent | None = None
        self.up = False
        self._away = False
        directory.mkdir()

    @property
    def who(self) -> str:
        return f"agent {self.name}"

    # ---- its agent

    def start(self) -> None:
        self._boots += 1
        self.component = f"{self.who} #{self._boots}"
        self.up = True
        self._loop.spawn(self.component, self._live())
        self.reachable(True)

    async def _live(self) -> None:
        """Acts as a supervisor: an agent that ends by itself is started again."""
        while True:
            self._running = self._agent()
            with contextlib.suppress(LinkRefused):
                await self._running.run()
            await asyncio.sleep(_COMES_AGAIN_S)

    def _agent(self) -> Agent:
        cards = tuple(Gpu(index=n, uuid=f"gpu-{n}", model="Mock", memory_mib=1024) for n in range(self.gpus))
        info = NodeInfo(name=self.name, cpu_milli=self._cpu_milli, memory_mib=4096, gpus=cards)
        self._executor = SimExecutor(self.machine, runs)
        link = SimLink(self._loop, self._network, self._chance, self.name, self._replicas)
        return Agent(
            info=info,
            link=link,
            files=link,
            executor=self._executor,
            clock=self.clock,
            rng=self._chance,
            state_dir=self._directory,
            credential="known",
            boot=begin_boot(self._directory, self.clock.wall()),
            settings=_SETTINGS,
            witness=self._witness,
        )

    def tell_to_stop(self) -> None:
        """As by SIGTERM, or the notice that a spot machine is about to go."""
        assert self._running is not None, f"{self.name} has no agent"
        self._note("told-to-stop", "its agent is told to stop")
        self._running.stop()

    # ---- faults

    def crash(self) -> None:
        """kill -9 of the agent. The kernel ends what it started, a moment later."""
        self._note("crash", "its agent is killed")
        self._loop.kill(self.component)
        self.up = False
        if self._executor is not None:
            self._executor.dead = True
        self._loop.call_later(0.2 * self._chance.random(), self.machine.die, "crash", context=self.machine.context)
        self._cut_streams()
        self.reachable(False)

    def lose_power(self) -> None:
        self._note("power", "it loses its power")
        self._loop.kill(self.component)
        self.up = False
        if self._executor is not None:
            self._executor.dead = True
        self.machine.die("crash")
        self.reachable(False)

    def freeze(self, *, whole: bool) -> None:
        """The agent alone, or everything on the node as when a virtual machine is paused."""
        self._recorder.add(Frozen(t=self._recorder.now(), who=f"node {self.name}" if whole else self.who))
        self._loop.freeze(self.component)
        self.reachable(False)
        if whole:
            self._loop.freeze(self.machine.component)
            for process in self.machine.processes.values():
                self.freeze_process(process.pid)

    def thaw(self) -> None:
        self._recorder.add(Woken(t=self._recorder.now(), who=self.who))
        parts = [self.component, self.machine.component, *(p.component for p in self.machine.processes.values())]
        for process in self.machine.processes.values():
            if self._loop.halted(process.component):
                self._recorder.add(Woken(t=self._recorder.now(), who=f"job {process.job} {process.fence}"))
        # After a pause any component may run first.
        for part in self._chance.some(parts, len(parts)):
            self._loop.thaw(part)
        self.reachable(True)

    def freeze_process(self, pid: int) -> None:
        process = self.machine.processes[pid]
        self._loop.freeze(process.component)
        self._recorder.add(Frozen(t=self._recorder.now(), who=f"job {process.job} {process.fence}"))

    def reachable(self, reachable: bool) -> None:
        """For the history: whether the node can renew."""
        if reachable != self._away:
            return
        self._away = not reachable
        event = Back if reachable else Lost
        self._recorder.add(event(t=self._recorder.now(), node=self.name))

    def _cut_streams(self) -> None:
        for stream in self._network.streams:
            if stream.up.near == f"node {self.name}":
                stream.breaks("the agent is gone")

    def _note(self, kind: str, what: str) -> None:
        self._recorder.add(Fault(t=self._recorder.now(), kind=kind, who=self.who, what=what))
