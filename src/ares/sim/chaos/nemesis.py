"""Does what the plan says, in the main thread: begins each fault in time and ends it in time."""

import heapq
import random
import signal
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from ares.check.invariants.history import Back, Event, Fault, Frozen, Healed, Lost, Woken
from ares.sim.chaos.agents import OwnAgent, job_processes, signal_all
from ares.sim.chaos.plan import ChaosStep
from ares.sim.chaos.proxy import BEHAVIOURS, Proxy
from ares.sim.chaos.record import ChaosRecorder, now

# Faults in which a machine renews nothing from the beginning to the end.
SILENT = {"kill", "freeze", "cut", "silence", "refuse", "blackhole-tx", "blackhole-rx", "half-open"}


class _Due(NamedTuple):
    at_s: float
    order: int
    act: Callable[[], None]


class ChaosNemesis:
    def __init__(self, agents: Sequence[OwnAgent], front: Proxy | None, folder: Path, recorder: ChaosRecorder) -> None:
        self._agents = agents
        # In front of some clients; none where their link cannot be led through one.
        self._front = front
        self._folder = folder
        self._recorder = recorder
        self._due: list[_Due] = []
        self._order = count()
        self._begin: dict[str, Callable[[ChaosStep], Callable[[], None] | None]] = {
            "kill": self._kill, "freeze": self._freeze, "cut": self._cut, "network": self._network,
            "kill-job": self._kill_job, "freeze-job": self._freeze_job, "drop": self._drop,
        }  # fmt: skip

    def run(self, steps: Sequence[ChaosStep], duration_s: float, wait: Callable[[float], None]) -> None:
        """`wait` is called with the seconds since the start until which nothing is to be done."""
        for step in steps:
            self._at(step.at_s, lambda step=step: self._start(step))
        while self._due:
            due = heapq.heappop(self._due)
            wait(due.at_s)
            due.act()
        wait(duration_s)

    def heal(self) -> None:
        """Whatever is still broken, is not any more."""
        signal_all(job_processes(self._folder), signal.SIGCONT)
        for agent in self._agents:
            agent.proxy.heal()
            agent.wake()
            agent.start()
        if self._front is not None:
            self._front.heal()
        self._recorder.add(Healed(t=now()))

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, _Due(at_s, next(self._order), act))

    def _start(self, step: ChaosStep) -> None:
        end = self._begin[step.kind](step)
        if end is not None:
            self._at(step.until_s, end)

    def _say(self, *events: Event) -> None:
        for event in events:
            self._recorder.add(event)

    # ---- machines

    def _kill(self, step: ChaosStep) -> Callable[[], None]:
        agent = self._agents[step.agent]
        self._broke(agent, "kill", f"kill -9, back after {step.length_s:.1f} s")
        agent.kill()

        def end() -> None:
            agent.start()
            self._mended(agent, "kill", "started again")

        return end

    def _freeze(self, step: ChaosStep) -> Callable[[], None]:
        agent = self._agents[step.agent]
        self._broke(agent, "freeze", f"frozen for {step.length_s:.1f} s")
        agent.freeze()
        self._say(Frozen(t=now(), who=f"agent {agent.name}"))

        def end() -> None:
            agent.wake()
            self._say(Woken(t=now(), who=f"agent {agent.name}"))
            self._mended(agent, "freeze", "woken")

        return end

    def _cut(self, step: ChaosStep) -> Callable[[], None]:
        agent = self._agents[step.agent]
        self._broke(agent, "cut", f"cut off for {step.length_s:.1f} s")
        agent.proxy.cut()

        def end() -> None:
            agent.proxy.heal()
            self._mended(agent, "cut", "connected again")

        return end

    def _network(self, step: ChaosStep) -> Callable[[], None]:
        agent = self._agents[step.agent]
        self._broke(agent, step.how, f"its network: {step.how} for {step.length_s:.1f} s")
        BEHAVIOURS[step.how](agent.proxy)

        def end() -> None:
            agent.proxy.heal()
            self._mended(agent, step.how, "its network is well again")

        return end

    def _broke(self, agent: OwnAgent, kind: str, what: str) -> None:
        t = now()
        self._say(Fault(t=t, kind=kind, who=f"agent {agent.name}", what=what))
        if kind in SILENT:
            self._say(Lost(t=t, node=agent.name))

    def _mended(self, agent: OwnAgent, kind: str, what: str) -> None:
        t = now()
        self._say(Fault(t=t, kind=kind, who=f"agent {agent.name}", what=what, over=True))
        if kind in SILENT:
            self._say(Back(t=t, node=agent.name))

    # ---- jobs and clients

    def _kill_job(self, step: ChaosStep) -> None:
        running = job_processes(self._folder)
        if running:
            who = running[random.Random(step.draw).choice(sorted(running))]
            # All of the attempt at once: what is left of a half-killed shell says nothing.
            signal_all({pid: name for pid, name in running.items() if name == who}, signal.SIGKILL)
            self._say(Fault(t=now(), kind="kill-job", who=f"job {who}", what="kill -9 of its processes", over=True))

    def _freeze_job(self, step: ChaosStep) -> Callable[[], None] | None:
        running = job_processes(self._folder)
        if not running:
            return None
        who = running[random.Random(step.draw).choice(sorted(running))]
        its = {pid: name for pid, name in running.items() if name == who}
        what = f"frozen for {step.length_s:.1f} s"
        self._say(Fault(t=now(), kind="freeze-job", who=f"job {who}", what=what), Frozen(t=now(), who=f"job {who}"))
        signal_all(its, signal.SIGSTOP)

        def end() -> None:
            still = {pid: name for pid, name in job_processes(self._folder).items() if name == who}
            signal_all(still, signal.SIGCONT)
            self._say(Woken(t=now(), who=f"job {who}"))
            self._say(Fault(t=now(), kind="freeze-job", who=f"job {who}", what="woken", over=True))

        return end

    def _drop(self, step: ChaosStep) -> Callable[[], None] | None:
        front = self._front
        if front is None:
            return None
        self._say(
            Fault(t=now(), kind="drop", who="client front", what="connections are reset in the middle of requests")
        )
        BEHAVIOURS["reset"](front)

        def end() -> None:
            front.reset()
            front.heal()
            self._say(Fault(t=now(), kind="drop", who="client front", what="connections last again", over=True))

        return end
