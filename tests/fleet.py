"""Agents that keep the agent's side of the contract, without processes, and the machines they run on.

They start a rank once, repeat reports until they are acknowledged, stop what they are told to, and kill by
themselves when their right to run ends. The machines know what only machines can: that no two attempts of a job
are ever alive at once, and that no node carries more than it has.
"""

import asyncio
import random
from collections import Counter

from ares.model.link import (
    Ack,
    AttemptRef,
    Exited,
    Fenced,
    Hello,
    Renewed,
    ServerMessage,
    Start,
    Started,
    Stop,
    Welcome,
)
from tests.agents import ScriptedAgent
from tests.clocks import ManualClock
from tests.world import Replica

SELF_FENCE_S = 7.0
CPU_MILLI = 3000
GPUS = 2

# One rank of one attempt.
Rank = tuple[AttemptRef, int]


def rank_of(start: Start) -> Rank:
    return start.ref, start.placement.rank


class Machines:
    """Which processes are alive, everywhere."""

    def __init__(self) -> None:
        self.alive: dict[Rank, str] = {}
        self.cpu_milli: Counter[str] = Counter()
        # Thousandths of each GPU.
        self.gpu_milli: Counter[tuple[str, int]] = Counter()
        self.started: set[Rank] = set()

    def start(self, start: Start, capacity: int) -> None:
        node, rank = start.placement.node, rank_of(start)
        others = [(ref, n) for ref, n in self.alive if ref.job == start.ref.job and ref != start.ref]
        assert not others, f"{rank} starts while {others} is alive"
        assert rank not in self.started, f"{rank} was started twice"
        self.started.add(rank)
        self.alive[rank] = node
        self._count(start, +1)
        assert self.cpu_milli[node] <= capacity, f"{node} carries {self.cpu_milli[node]} of {capacity}"
        over = [gpu for gpu in start.placement.gpus if self.gpu_milli[node, gpu] > 1000]
        assert not over, f"{node}: GPUs {over} are given away more than whole"

    def end(self, start: Start) -> None:
        del self.alive[rank_of(start)]
        self._count(start, -1)

    def _count(self, start: Start, sign: int) -> None:
        place = start.placement
        self.cpu_milli[place.node] += sign * place.cpu_milli
        for gpu in place.gpus:
            self.gpu_milli[place.node, gpu] += sign * place.gpu_milli


class DutifulAgent(ScriptedAgent):
    """An agent as `ares.agent` is one, without processes."""

    def __init__(self, clock: ManualClock, name: str, machines: Machines, chance: random.Random) -> None:
        super().__init__(clock, name, cpu_milli=CPU_MILLI, gpus=GPUS)
        self._machines = machines
        self._chance = chance
        self._known: set[Rank] = set()
        self._running: dict[Rank, tuple[Start, asyncio.Task[None]]] = {}
        self._outbox: dict[int, Started | Exited | Fenced] = {}
        self._sent: dict[int, float] = {}
        self._right_from = float("-inf")
        self._boot = 1
        self.away_until = 0.0
        self.silent_until = 0.0
        self.complaints: list[BaseException] = []

    # ---- life

    async def come(self, replica: Replica) -> None:
        await self.drop()
        unheard = tuple(r.ref for r in self._outbox.values() if not isinstance(r, Started))
        alive = tuple(dict.fromkeys((*(ref for ref, _ in self._running), *unheard)))
        self.open(
            replica.sessions,
            Hello(info=self.info, incarnation=self.incarnation, alive=alive, boot=self._boot),
            *self._outbox.values(),
            renewing=False,
        )
        self.renew()

    async def restart(self, replica: Replica) -> None:
        """The process died and everything with it."""
        for start, task in list(self._running.values()):
            task.cancel()
            self._machines.end(start)
        self._running.clear()
        self._outbox.clear()
        self._known.clear()
        self._right_from = float("-inf")
        self.incarnation = 0
        self._boot += 1
        await self.come(replica)

    def renew(self) -> int:
        nonce = super().renew()
        self._sent[nonce] = self._clock.monotonic()
        return nonce

    async def vanish(self, seconds: float) -> None:
        """Its network is gone; its processes are not."""
        self.away_until = self._clock.monotonic() + seconds
        await self.drop()

    def fall_silent(self, seconds: float) -> None:
        """It is heard, but renews nothing."""
        self.silent_until = self._clock.monotonic() + seconds

    async def tick(self, replica: Replica) -> None:
        """What it does by the clock: renews, comes again, kills what it has no right to run."""
        now = self._clock.monotonic()
        if now >= self._right_from + SELF_FENCE_S:
            for rank in list(self._running):
                self._kill(rank, "its right to run ended")
        assert not self.complaints, self.complaints[0]
        if self.connected:
            if now % 2 < 0.25 and now >= self.silent_until:
                self.renew()
        elif now >= self.away_until:
            superseded = self.refused is not None and "superseded" in str(self.refused)
            await (self.restart if superseded else self.come)(replica)

    async def leave(self) -> None:
        for _, task in self._running.values():
            task.cancel()
        await self.drop()

    # ---- messages

    def _react(self, message: ServerMessage) -> None:
        try:
            self._obey(message)
        except BaseException as error:
            self.complaints.append(error)
            raise

    def _obey(self, message: ServerMessage) -> None:
        match message:
            case Welcome():
                if self.incarnation not in (0, message.incarnation):
                    self._right_from = float("-inf")
                self.incarnation = message.incarnation
                for rank in [rank for rank in self._running if rank[0] not in message.keep]:
                    self._end(rank, "not kept")
            case Renewed(nonce=nonce):
                self._right_from = max(self._right_from, self._sent.pop(nonce, float("-inf")))
            case Ack(numbers=numbers):
                for number in numbers:
                    self._outbox.pop(number, None)
            case Start() if rank_of(message) not in self._known and message.placement.incarnation == self.incarnation:
                self._begin(message)
            case Stop(ref=ref, ranks=ranks):
                for rank in ranks:
                    self._stop((ref, rank))
            case _:
                pass

    def _stop(self, rank: Rank) -> None:
        self._known.add(rank)
        if rank in self._running:
            self._end(rank, "stopped")
        else:
            self._report(self.fence_report(rank[0], "not here", rank[1]))

    def _begin(self, start: Start) -> None:
        rank = rank_of(start)
        self._known.add(rank)
        if self._clock.monotonic() >= self._right_from + SELF_FENCE_S:
            self._report(self.fence_report(start.ref, "no right to run", rank[1]))
            return
        self._machines.start(start, self.info.cpu_milli)
        self._running[rank] = (start, asyncio.create_task(self._run(start)))
        self._report(self.start_report(start))

    async def _run(self, start: Start) -> None:
        await self._clock.sleep(self._chance.choice([0.01, 0.5, 3.0, 12.0, 20.0]))
        del self._running[rank_of(start)]
        self._machines.end(start)
        self._report(self.exit_report(start, self._chance.choice([0, 0, 0, 0, 0, 1]), value=b"1"))

    def _end(self, rank: Rank, why: str) -> None:
        """Dying takes a while."""
        start, task = self._running[rank]
        task.cancel()
        self._running[rank] = (start, asyncio.create_task(self._die(rank, why)))

    async def _die(self, rank: Rank, why: str) -> None:
        await self._clock.sleep(self._chance.choice([0.01, 1.0, 3.0]))
        self._kill(rank, why)

    def _kill(self, rank: Rank, why: str) -> None:
        start, task = self._running.pop(rank)
        task.cancel()
        self._machines.end(start)
        self._report(self.fence_report(rank[0], why, rank[1]))

    def _report(self, report: Started | Exited | Fenced) -> None:
        self._outbox[report.number] = report
        self.send(report)
