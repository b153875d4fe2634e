"""Random histories on the whole control plane: lossy store, breaking streams, crashing replicas, cancels.

The agents here keep the agent's side of the contract: they start an attempt once, repeat reports until
they are acknowledged, stop what they are told to, and kill by themselves when their right to run ends.
Beside the auditor's rules for every commit, this checks what only the machines can know: that no two
attempts of a job are ever alive at once, and that no node carries more than it has.
"""

import asyncio
import random
from collections.abc import Callable

import pytest

from ares.adapters.store.memory import Fault
from ares.adapters.store.memory.faults import Faults
from ares.model.job import RetryPolicy
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
from ares.model.state import TERMINAL
from ares.services.submit import SubmitRequest, Submitted
from tests.agents import ScriptedAgent
from tests.clocks import ManualClock
from tests.world import ALICE, Replica, World, spec

SELF_FENCE_S = 7.0


class Machines:
    """Which processes are alive, everywhere."""

    def __init__(self) -> None:
        self.alive: dict[AttemptRef, str] = {}
        self.cpu_milli: dict[str, int] = {}
        self.started: dict[AttemptRef, int] = {}

    def start(self, start: Start, capacity: int) -> None:
        node, ref = start.placement.node, start.ref
        others = [other for other in self.alive if other.job == ref.job]
        assert not others, f"{ref} starts while {others} is alive"
        self.alive[ref] = node
        self.started[ref] = self.started.get(ref, 0) + 1
        assert self.started[ref] == 1, f"{ref} was started twice"
        self.cpu_milli[node] = self.cpu_milli.get(node, 0) + start.placement.cpu_milli
        assert self.cpu_milli[node] <= capacity, f"{node} carries {self.cpu_milli[node]} of {capacity}"

    def end(self, start: Start) -> None:
        del self.alive[start.ref]
        self.cpu_milli[start.placement.node] -= start.placement.cpu_milli


class DutifulAgent(ScriptedAgent):
    """An agent as `services.agent` is one, without processes."""

    def __init__(self, clock: ManualClock, name: str, machines: Machines, chance: random.Random) -> None:
        super().__init__(clock, name, cpu_milli=3000)
        self._machines = machines
        self._chance = chance
        self._known: set[AttemptRef] = set()
        self._running: dict[AttemptRef, tuple[Start, asyncio.Task[None]]] = {}
        self._outbox: dict[int, Started | Exited | Fenced] = {}
        self._sent: dict[int, float] = {}
        self._right_from = float("-inf")
        self._boot = 1
        self.away_until = 0.0
        self.complaints: list[BaseException] = []

    # ---- life

    async def come(self, replica: Replica) -> None:
        await self.drop()
        unheard = tuple(r.ref for r in self._outbox.values() if not isinstance(r, Started))
        alive = tuple(dict.fromkeys((*self._running, *unheard)))
        self.open(
            replica.sessions,
            Hello(info=self.info, incarnation=self.incarnation, alive=alive, boot=self._boot),
            *self._outbox.values(),
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

    def watch_the_clock(self) -> None:
        if self._clock.monotonic() >= self._right_from + SELF_FENCE_S:
            for ref in list(self._running):
                self._kill(ref, "its right to run ended")

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
                for ref in [ref for ref in self._running if ref not in message.keep]:
                    self._end(ref, "not kept")
            case Renewed(nonce=nonce):
                self._right_from = max(self._right_from, self._sent.pop(nonce, float("-inf")))
            case Ack(numbers=numbers):
                for number in numbers:
                    self._outbox.pop(number, None)
            case Start() if message.ref not in self._known and message.placement.incarnation == self.incarnation:
                self._begin(message)
            case Stop(ref=ref):
                self._known.add(ref)
                if ref in self._running:
                    self._end(ref, "stopped")
                else:
                    self._report(self.fence_report(ref, "not here"))
            case _:
                pass

    def _begin(self, start: Start) -> None:
        self._known.add(start.ref)
        if self._clock.monotonic() >= self._right_from + SELF_FENCE_S:
            self._report(self.fence_report(start.ref, "no right to run"))
            return
        self._machines.start(start, self.info.cpu_milli)
        self._running[start.ref] = (start, asyncio.create_task(self._run(start)))
        self._report(self.start_report(start))

    async def _run(self, start: Start) -> None:
        await self._clock.sleep(self._chance.choice([0.01, 0.5, 3.0, 12.0, 20.0]))
        del self._running[start.ref]
        self._machines.end(start)
        self._report(self.exit_report(start, self._chance.choice([0, 0, 0, 1]), value=b"1"))

    def _end(self, ref: AttemptRef, why: str) -> None:
        """Dying takes a while."""
        start, task = self._running[ref]
        task.cancel()
        self._running[ref] = (start, asyncio.create_task(self._die(ref, why)))

    async def _die(self, ref: AttemptRef, why: str) -> None:
        await self._clock.sleep(self._chance.choice([0.01, 1.0, 3.0]))
        self._kill(ref, why)

    def _kill(self, ref: AttemptRef, why: str) -> None:
        start, task = self._running.pop(ref)
        task.cancel()
        self._machines.end(start)
        self._report(self.fence_report(ref, why))

    def _report(self, report: Started | Exited | Fenced) -> None:
        self._outbox[report.number] = report
        self.send(report)

    async def leave(self) -> None:
        for _, task in self._running.values():
            task.cancel()
        await self.drop()


class Weather(Faults):
    """Faults at random while it is bad."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self.bad = True

    def take(self) -> Fault | None:
        if not self.bad or self._chance.random() > 0.15:
            return None
        kind = self._chance.choice(["refused", "delayed", "request_lost", "reply_lost", "late"])
        return Fault(kind, self._chance.choice([0.0, 0.05, 0.4, 2.0]))  # type: ignore[arg-type]


class History:
    """One seed's world and what happens in it."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.machines = Machines()
        self.weather = Weather(self.chance)
        self.jobs: set[str] = set()
        self.cancelled: set[str] = set()
        self.calls: list[asyncio.Task[None]] = []
        self.fleet: list[DutifulAgent] = []

    def begin(self) -> None:
        self.world.store.faults = self.weather
        for n in range(3):
            agent = DutifulAgent(self.world.clock, f"n{n}", self.machines, self.chance)
            self.fleet.append(agent)
            self.world.agents.append(agent)

    def pick(self) -> Replica:
        return self.chance.choice(self.world.replicas)

    async def play(self, steps: int) -> None:
        for _ in range(steps):
            await self._one_step()
            for _ in range(self.chance.choice([1, 1, 4])):
                await self._tick()

    async def _tick(self) -> None:
        await self.world.advance(0.25)
        for agent in self.fleet:
            agent.watch_the_clock()
            assert not agent.complaints, agent.complaints[0]
            if not agent.connected:
                if self.world.clock.monotonic() < agent.away_until:
                    continue
                if agent.refused is not None and "superseded" in str(agent.refused):
                    await agent.restart(self.pick())
                else:
                    await agent.come(self.pick())
            elif self.world.clock.monotonic() % 2 < 0.25:
                agent.renew()

    async def _one_step(self) -> None:
        deeds: list[tuple[float, Callable[[], None]]] = [
            (0.5, lambda: self._call(self._submit())),
            (0.15, lambda: self._call(self._cancel())),
            (0.15, lambda: self._call(self.chance.choice(self.fleet).vanish(self.chance.choice([0, 2, 6, 8, 12])))),
            (0.05, lambda: self._call(self.chance.choice(self.fleet).restart(self.pick()))),
            (0.06, self._hold),
            (0.06, self._release),
            (0.04, self._relist),
            (0.04, self._cut),
        ]
        weights = [weight for weight, _ in deeds]
        (_, deed) = self.chance.choices(deeds, weights)[0]
        deed()

    def _call(self, coroutine) -> None:  # type: ignore[no-untyped-def]
        self.calls.append(asyncio.create_task(coroutine))

    def _hold(self) -> None:
        self.pick().wire.hold_watch()

    def _release(self) -> None:
        self.pick().wire.release_watch()

    def _relist(self) -> None:
        self.world.store.compact()
        self.pick().wire.break_watch()

    def _cut(self) -> None:
        wire = self.pick().wire
        wire.up = not wire.up

    async def _submit(self) -> None:
        request = SubmitRequest(
            spec=spec(
                cpu_milli=self.chance.choice([500, 1000, 3000]),
                array=self.chance.choice([None, None, "0-4"]),
                retry=RetryPolicy(limit=5, class_limits={"node-lost": 100}),
                effects=self.chance.choice(["staged", "staged", "unsafe"]),
            ),
            request_id=f"r{self.chance.randrange(1_000_000)}",
        )
        for _ in range(2):
            (outcome,) = await self.pick().submit.submit(ALICE, [request])
            if isinstance(outcome, Submitted):
                self.jobs.add(outcome.job)

    async def _cancel(self) -> None:
        known = sorted(job for job, state in self.world.audit.states.items() if state.phase not in TERMINAL)
        if known:
            job = self.chance.choice(known)
            try:
                state = await self.pick().jobs.cancel(ALICE, job)
            except Exception:
                return
            if state is not None and getattr(state, "phase", "") == "CANCELLED":
                self.cancelled.add(job)

    async def calm(self) -> None:
        """All faults stop; whatever was acknowledged must come to its end."""
        self.weather.bad = False
        for replica in self.world.replicas:
            replica.wire.up = True
            replica.wire.release_watch()
        for _ in range(3000):
            await self._tick()
            if all(call.done() for call in self.calls) and self._all_ended():
                return
        states = [s for s in self.world.audit.states.values() if s.phase not in TERMINAL or s.lingering]
        raise AssertionError(f"{len(states)} jobs did not end, such as {states[:2]}")

    def _all_ended(self) -> bool:
        return all(s.phase in TERMINAL and not s.lingering for s in self.world.audit.states.values())

    def judge(self) -> None:
        kept = {state.array or job for job, state in self.world.audit.states.items()}
        assert self.jobs <= kept, "an acknowledged job is gone"
        for job in self.cancelled:
            assert self.world.state(job).phase == "CANCELLED"
        for call in self.calls:
            assert call.exception() is None
        for array in self.world.one.view.arrays.values():
            assert sum(state.array == array.id for state in self.world.audit.states.values()) == array.tasks


@pytest.mark.parametrize("seed", range(12))
async def test_any_history_keeps_its_promises(seed: int) -> None:
    async with World(replicas=3) as world:
        history = History(world, seed)
        history.begin()
        await history.play(60)
        await history.calm()
        history.judge()
        for agent in history.fleet:
            await agent.leave()
