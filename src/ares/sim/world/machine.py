"""The machine below an agent: it starts processes, enforces their deadlines, and records what really happened.

Its processes are simulated: each runs for a while, shows effects, writes the result that names its fence, and ends.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from math import inf

from ares.check.invariants.history import Effect, ProcessEnded, ProcessStarted
from ares.model.node import Containment
from ares.ports.executor import CannotStart, Finished, Launch, Running, Sandbox
from ares.sim.world.clocks import Chance, SimClock
from ares.sim.world.data import found
from ares.sim.world.loop import SimLoop, context_of
from ares.sim.world.record import WorldRecorder

_KILLED = 9
_EFFECT_EVERY_S = 0.7


class SimulatedMachine:
    """One node's hardware and kernel. It outlives its agents."""

    def __init__(self, loop: SimLoop, recorder: WorldRecorder, clock: SimClock, chance: Chance, node: str) -> None:
        self.loop = loop
        self.recorder = recorder
        self.clock = clock
        self.chance = chance
        self.node = node
        self.component = f"machine {node}"
        self.context = context_of(self.component)
        self.processes: dict[int, SimulatedProcess] = {}
        self._pids = 0
        # Faults: how long a start and a kill take at most, and a disk that takes nothing.
        self.start_s = 0.02
        self.kill_s = 0.02
        self.disk_full = False

    def pid(self) -> int:
        self._pids += 1
        return self._pids

    def die(self, how: str) -> None:
        """Everything that runs here ends at once."""
        for process in list(self.processes.values()):
            process.ends(how)


class SimulatedProcess:
    """`ports.executor.Running`: one rank of an attempt."""

    def __init__(self, machine: SimulatedMachine, launch: Launch, runs_s: float, code: int) -> None:
        self._machine = machine
        self._launch = launch
        self._code = code
        self.pid = machine.pid()
        self.component = f"process {machine.node} {self.pid}"
        env = launch.env
        self.job, self.fence, self.rank = env["ARES_JOB_ID"], env["ARES_FENCE"], int(env["ARES_RANK_ID"])
        self._deadline = launch.deadline
        self._done: list[tuple[Callable[[Finished], None], Context]] = []
        self._finished: Finished | None = None
        self._killing = False
        self._saved = 0
        machine.processes[self.pid] = self
        machine.recorder.add(
            ProcessStarted(
                t=machine.recorder.now(),
                node=machine.node,
                job=self.job,
                fence=self.fence,
                rank=self.rank,
                resumed=env.get("ARES_RESTORE_ID", ""),
                inputs=found(env.get("ARES_INPUTS_DIR", "")),
            )
        )
        self._work = machine.loop.spawn(self.component, self._run(runs_s))
        self._guard: asyncio.TimerHandle | None = None
        self._arm()

    # ---- the run of a process

    async def _run(self, runs_s: float) -> None:
        left = runs_s
        while left > 0:
            step = min(left, _EFFECT_EVERY_S)
            await asyncio.sleep(step)
            left -= step
            self._effect()
            self._save()
        self._write_result()
        self.ends(f"exit {self._code}")

    def _effect(self) -> None:
        machine = self._machine
        machine.recorder.add(
            Effect(t=machine.recorder.now(), node=machine.node, job=self.job, fence=self.fence, rank=self.rank)
        )

    def _save(self) -> None:
        """A checkpoint, as a program without the SDK leaves it; each names its attempt and its number."""
        folder = self._launch.env.get("ARES_CHECKPOINT_DIR", "")
        if not folder or not os.path.isdir(folder):
            return
        self._saved += 1
        seq = max(self._saved, int(self._launch.env.get("ARES_RESTORE_SEQ", "0")) + self._saved)
        with open(f"{folder}/{seq}.json", "w") as file:
            json.dump({"step": 10 * seq, "stallS": 0.1, "takenAt": self._machine.clock.wall()}, file)
        os.mkdir(f"{folder}/.new")
        with open(f"{folder}/.new/state", "w") as file:
            file.write(f"{self.job} {seq} by {self.fence}, rank {self.rank}")
        os.rename(f"{folder}/.new", f"{folder}/{seq}")

    def _write_result(self) -> None:
        env = self._launch.env
        if says := env.get("SAYS"):
            with open(self._launch.log_path, "a") as file:
                file.write(says)
        if self._code == 0 and self.rank == 0:
            with open(env["ARES_RESULT_FILE"], "w") as file:
                json.dump({"job": self.job, "fence": self.fence}, file)
        for number in range(int(env.get("FILES", "0")) if self._code == 0 else 0):
            os.makedirs(env["ARES_OUTPUT_DIR"], exist_ok=True)
            with open(f"{env['ARES_OUTPUT_DIR']}/{number}.txt", "w") as file:
                file.write(f"file {number} of {self.job} by {self.fence}, rank {self.rank}\n")

    def ends(self, how: str) -> None:
        if self._finished is not None:
            return
        machine = self._machine
        code = int(how.removeprefix("exit ")) if how.startswith("exit ") else None
        self._finished = Finished(
            code=code, signal=None if code is not None else _KILLED, oom=False, max_rss_mib=1, cpu_s=0.0,
            expired=how == "expired",
        )  # fmt: skip
        del machine.processes[self.pid]
        machine.loop.kill(self.component)
        if self._guard is not None:
            self._guard.cancel()
        machine.recorder.add(
            ProcessEnded(
                t=machine.recorder.now(), node=machine.node, job=self.job, fence=self.fence, rank=self.rank, how=how
            )
        )
        for callback, context in self._done:
            machine.loop.call_soon(callback, self._finished, context=context)

    # ---- its slot

    def _arm(self) -> None:
        """Kills it when its deadline passes, by the machine's own clock."""
        if self._guard is not None:
            self._guard.cancel()
        if self._deadline == inf:
            return
        left = self._deadline - self._machine.clock.monotonic()
        self._guard = self._machine.loop.call_later(max(0.0, left), self._expire, context=self._machine.context)

    def _expire(self) -> None:
        if self._machine.clock.monotonic() < self._deadline:
            self._arm()
        else:
            self._kill("expired")

    def _kill(self, how: str) -> None:
        if not self._killing:
            self._killing = True
            delay = self._machine.kill_s * self._machine.chance.random()
            self._machine.loop.call_later(delay, self.ends, how, context=self._machine.context)

    # ---- `ports.executor.Running`

    def signal(self, signum: int) -> None:
        """The process ends soon after SIGTERM and the like."""
        if signum in (15, 10, 12) and not self._killing and self._machine.chance(0.8):
            delay = self._machine.chance.between(0.0, 2.0)
            self._machine.loop.call_later(delay, self.ends, "terminated", context=self._machine.context)

    def tell(self, signum: int) -> None:
        self.signal(signum)

    def kill(self) -> None:
        self._kill("killed")

    def extend(self, deadline: float) -> None:
        self._deadline = deadline
        self._arm()

    def on_finished(self, callback: Callable[[Finished], None]) -> None:
        context = copy_context()
        if self._finished is not None:
            self._machine.loop.call_soon(callback, self._finished, context=context)
        else:
            self._done.append((callback, context))


class SimExecutor:
    """`ports.executor.Executor` of one agent process. Dies with it: what it started is killed by the kernel."""

    def __init__(self, machine: SimulatedMachine, plan: Callable[[Launch], tuple[float, int]]) -> None:
        self._machine = machine
        self._plan = plan
        self.dead = False

    async def open(self) -> None:
        """Ends the processes of an earlier agent before this one registers."""
        while self._machine.processes:
            self._machine.die("killed")
            await asyncio.sleep(0.01)

    def isolation(self) -> tuple[Containment, ...]:
        return ("none",)

    def sandbox(self) -> Sandbox:
        return Sandbox()

    def start(self, launch: Launch) -> Awaitable[Running | CannotStart]:
        answer: asyncio.Future[Running | CannotStart] = self._machine.loop.create_future()
        delay = self._machine.start_s * self._machine.chance.random()
        self._machine.loop.call_later(delay, self._begin, launch, answer, context=self._machine.context)
        return answer

    def _begin(self, launch: Launch, answer: "asyncio.Future[Running | CannotStart]") -> None:
        if self.dead or answer.cancelled():
            return
        machine = self._machine
        if machine.disk_full:
            answer.set_result(CannotStart("no space left on the device"))
        elif launch.deadline <= machine.clock.monotonic():
            answer.set_result(CannotStart("its right to run ended before it began", expired=True))
        else:
            answer.set_result(SimulatedProcess(machine, launch, *self._plan(launch)))

    async def close(self) -> None:
        self._machine.die("killed")
