"""What a rank with a runtime does: meets the other ranks, starts what the plan says, and ends as that does.

The first failure of a process in the slot ends the rank at once and as that process ended: the job is repeated by Ares,
never by a launcher, and the verdict names this rank.
"""

import asyncio
import os
import re
import signal
from collections.abc import Coroutine
from typing import Any

from ares.agent.helper.hub import Hub, Message, Wire, call_hub
from ares.agent.helper.launch import free_ports
from ares.agent.helper.orders import HelperScene
from ares.agent.helper.slot import HelperEnd, HelperProcess, SlotProcesses, end_of, is_free, listens

_LOOK_S = 0.2
_READY_S = 120.0
_SERVICE_S = 1.0
# So long a rank waits for the word of the rank that made its launcher fail.
_WORD_S = 0.5
_OVER_S = 2.0
# A shell's word for the end of what it started by a signal.
_BY_SIGNAL = 128


class HelperRank:
    def __init__(self, scene: HelperScene, ends: int | None = None, begun: int | None = None) -> None:
        self.scene = scene
        self.orders = scene.orders
        self.plan = scene.orders.plan
        self.world = scene.world
        self._begun = begun
        self.hub: Hub | None = None
        # Whether its service is too old, where that is asked for ahead.
        self._aged: asyncio.Future[HelperEnd | None] | None = None
        self.stopping = asyncio.Event()
        self._decided: asyncio.Future[HelperEnd] = asyncio.get_running_loop().create_future()
        self._processes = SlotProcesses(self.orders.ends, self.decide, self._asked, ends)
        self._tasks = set[asyncio.Task[None]]()

    def decide(self, end: HelperEnd) -> None:
        """The rank ends so, unless it is told to end already."""
        if not self._decided.done() and not self.stopping.is_set():
            self._decided.set_result(end)

    def heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        # Sent to the whole group: the launcher has it too. The rank ends when its program has.
        loop.add_signal_handler(signal.SIGTERM, self.stopping.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        self.spawn(self._processes.watch_frozen())

    async def run(self) -> HelperEnd:
        self.heed_signals()
        if not self.plan["meets"]:
            return await self._alone()
        return await (self._lead() if self.world.place == 0 else self._follow())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _start(self, texts: "list[str]", *, apart: bool = False, heard: bool = False) -> HelperProcess | HelperEnd:
        return self._processes.start(texts, self.scene.environment(), apart=apart, heard=heard)

    # ---- every rank by itself

    async def _alone(self) -> HelperEnd:
        while True:
            world = self.world
            if world.place == 0 and world.size > 1 and not is_free(world.port):
                message = f"port {world.port}, where its ranks were to meet, is taken on this machine"
                return HelperEnd(code=1, message=message, failure="staging")
            end = await self.program(self.moved(world.generation) if self.plan["elastic"] else None)
            if end is None or (end.failed and self.plan["elastic"] and await self._smaller(world.generation)):
                await self.begin_anew()
                continue
            return end

    async def begin_anew(self) -> None:
        """With the gang as it is now, and nothing of the earlier start."""
        await self._processes.stop_all()
        self._decided = asyncio.get_running_loop().create_future()
        world = self.orders.world()
        self.world = world if world.port else world._replace(port=free_ports(1)[0])
        self.scene = self.scene._replace(world=self.world)

    async def program(self, moved: Coroutine[Any, Any, None] | None = None) -> HelperEnd | None:
        """Runs the launcher with the job's command. None: the gang has changed first."""
        if self._begun is not None:
            process = self._processes.adopt(self._begun)
        else:
            process = self._start([*self.scene.texts(self.plan["launcher"]), *self.orders.command])
        if isinstance(process, HelperEnd):
            if moved is not None:
                moved.close()
            return process
        ended, changed = asyncio.ensure_future(process.wait()), asyncio.ensure_future(moved or _never())
        await asyncio.wait([ended, changed, self._decided], return_when=asyncio.FIRST_COMPLETED)
        if self.stopping.is_set() and not self._decided.done():
            await ended
        changed.cancel()
        if self._decided.done():
            return self._decided.result()
        if not ended.done():
            return None
        end = end_of(ended.result())
        return self._processes.terminated or end if end.failed else end

    async def moved(self, generation: int) -> None:
        while self.orders.world().generation == generation:
            await asyncio.sleep(_LOOK_S)

    async def _smaller(self, generation: int) -> bool:
        """Whether the gang goes on without the rank that made this one fail."""
        try:
            await asyncio.wait_for(self.moved(generation), self.orders.elastic_s)
        except TimeoutError:
            return False
        return True

    # ---- the first rank of those that meet

    async def _lead(self) -> HelperEnd:
        world = self.world
        hub = self.hub = Hub(self.orders.key, world.size, self._lost)
        try:
            await hub.open(world.addresses[0], world.port)
        except OSError as error:
            return no_port(world.port, error)
        if self._begun is not None:
            self.spawn(self._meet(hub))
            end = await self.program() or HelperEnd()
        else:
            end = await self._serve_first(hub) or await self._met(hub)
            end = end or await self.program() or HelperEnd()
        if end.code and end.blames is None and not self._decided.done():
            # The launcher failed: most often because a rank did, whose word is on its way. One that was killed did not.
            await asyncio.wait([self._decided], timeout=_WORD_S)
            end = self._decided.result() if self._decided.done() else end
        await hub.close(end.code or end.signum)
        return end

    async def _meet(self, hub: Hub) -> None:
        if (end := await self._met(hub)) is not None:
            self.decide(end)

    async def _serve_first(self, hub: Hub) -> HelperEnd | None:
        """The others join as soon as the service can be reached, while the rest of it begins."""
        joined = asyncio.ensure_future(self._greet_early(hub))
        end = await self._serve(self.plan["service_first"])
        joined.cancel()
        return end

    async def _greet_early(self, hub: Hub) -> None:
        number: int = self.plan["service_joins"]
        if not number:
            return
        while not await listens(self.world.addresses[0], self.scene.ports[number - 1]):
            await asyncio.sleep(_LOOK_S)
        await hub.greet(first=self.scene.ports)

    def _asked(self, place: int) -> None:
        """A launcher wants its command to be run on another rank."""
        if self.hub is not None:
            self.spawn(self._answered(self.hub, place))

    async def _answered(self, hub: Hub, place: int) -> None:
        try:
            command = self.orders.command_for(place)
            # Open before the answer is there: the launcher may come to read it only later.
            pipe = os.open(self.orders.answer(place), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(pipe, b"%d\n" % await hub.run(place, command))
        except OSError:
            self.decide(HelperEnd(code=1, message=f"a launcher's call of place {place} cannot be answered"))

    def _lost(self, place: int, why: str) -> None:
        if self.plan["elastic"]:
            # Workers come and go. What became of the rank is for the control plane to say.
            return
        rank = self.world.ranks[place] if place < self.world.size else place
        self.decide(HelperEnd(code=1, message=f"rank {rank} {why}", blames=rank))

    async def _met(self, hub: Hub) -> HelperEnd | None:
        """Waits until all other ranks have come and are ready. An end when they do not, or a failure comes first."""
        if hub.greeting is None:
            await hub.greet(first=self.scene.ports)
        ready = asyncio.ensure_future(hub.all_ready(self.world.size - 1))
        stopping = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait(
            [ready, stopping, self._decided], timeout=self.orders.meet_s, return_when=asyncio.FIRST_COMPLETED
        )
        stopping.cancel()
        if ready.done():
            self.orders.write_ranks(self.world, hub.ports)
            return None
        ready.cancel()
        if self._decided.done():
            return self._decided.result()
        missing = [self.world.ranks[place] for place in range(1, self.world.size) if place not in hub.ready]
        message = f"ranks {missing[:8]} had not come to the first rank within {self.orders.meet_s:g} s"
        return HelperEnd(code=1, message=message, failure="staging")

    # ---- the other ranks

    async def _follow(self) -> HelperEnd:
        world = self.world
        if self.plan["service_least"]:
            # Meanwhile the first rank begins.
            self._aged = asyncio.ensure_future(self._too_old(self.plan["service"][0]))
        address, port = world.addresses[0], world.port
        wire = await call_hub(address, port, self.orders.key, self.orders.meet_s, place=world.place)
        if isinstance(wire, str):
            message = f"the first rank cannot be reached at {address}:{port}: {wire}"
            return HelperEnd(code=1, message=message, failure="staging")
        self.spawn(wire.speak())
        # A rank that is told to end waits for the first rank, which was told too and may have work to save. Only one
        # that an elastic gang lets go leaves by itself.
        leaving = asyncio.ensure_future(self.stopping.wait() if self.plan["elastic"] else _never())
        heeding = asyncio.ensure_future(self._heed(wire))
        await asyncio.wait([self._decided, heeding, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        end = heeding.result() if heeding.done() else self._decided.result() if self._decided.done() else HelperEnd()
        heeding.cancel()
        if end.failed and end.blames is None:
            wire.say(failed=end.message or f"ended with {end.code or -end.signum}")
        # What it started ends with the slot, at once.
        await wire.close()
        return end

    async def _heed(self, wire: Wire) -> HelperEnd:
        """Does what the first rank says, until that says how the program ended, or goes away."""
        said: Message = {}
        try:
            while "end" not in said:
                said = await wire.read()
                if "first" in said:
                    self.scene = self.scene._replace(first=list(said["first"]))
                    self.spawn(self._ready(wire))
                elif "run" in said and self.plan["calls"]:
                    self.spawn(self._called(wire, said))
        except EOFError:
            said = {"end": 1}
        if said["end"] == 0:
            return HelperEnd()
        first = self.world.ranks[0]
        return HelperEnd(code=1, message=f"it ended with rank {first}, the first of the gang", blames=first)

    async def _ready(self, wire: Wire) -> None:
        end = await self._serve(self.plan["service"])
        if end is None:
            wire.say(ready=True, ports=self.scene.ports)
        else:
            self.decide(end)

    async def _called(self, wire: Wire, said: Message) -> None:
        process = self._start(["/bin/sh", "-c", str(said["command"])])
        code = 127 if isinstance(process, HelperEnd) else await process.wait()
        end = end_of(_BY_SIGNAL - code if code > _BY_SIGNAL else code)
        if end.code and code != 127:
            # It ends so when the launcher is gone, too: the first rank says it in a moment.
            await asyncio.sleep(_WORD_S)
        wire.say(ran=said["run"], code=code if code >= 0 else _BY_SIGNAL - code)
        if end.failed and self._processes.terminated is None and not self.stopping.is_set():
            self.decide(end._replace(message="the launcher's daemon on this rank ended"))

    # ---- services

    async def _serve(self, texts: "list[str]") -> HelperEnd | None:
        """Starts a service beside the program, and waits until it is ready. An end when it cannot be."""
        if not texts:
            return None
        if self.plan["service_least"]:
            aged = self._too_old(texts[0]) if self._aged is None else self._aged
            if (end := await aged) is not None:
                return end
        if self.plan["service_stays"]:
            return await self._stay(texts)
        process = self._start(self.scene.texts(texts), apart=True)
        if isinstance(process, HelperEnd):
            return process
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait([ended, self._decided], timeout=_READY_S, return_when=asyncio.FIRST_COMPLETED)
        if self._decided.done():
            return self._decided.result()
        name = " ".join(texts[:2])
        if not ended.done() or ended.result():
            how = f"ended with {ended.result()}" if ended.done() else f"was not ready after {_READY_S:g} s"
            return HelperEnd(code=1, message=f"{name} {how}", failure="staging")
        self.spawn(self._outlived(name))
        return None

    async def _stay(self, texts: "list[str]") -> HelperEnd | None:
        """A service of one process for each of its ports. The rank ends when one of them does."""
        address, until = self.world.addresses[self.world.place], asyncio.get_running_loop().time() + _READY_S
        for number, port in enumerate(self.scene.ports[: self.plan["procs"]], start=1):
            process = self._start(self.scene.texts(texts, port))
            if isinstance(process, HelperEnd):
                return process
            self.spawn(self._stayed(process, f"worker {number} of this rank"))
            while not await listens(address, port):
                if self._decided.done():
                    return self._decided.result()
                if asyncio.get_running_loop().time() > until:
                    message = f"worker {number} of this rank did not listen at its port {port} within {_READY_S:g} s"
                    return HelperEnd(code=1, message=message, failure="staging")
                await asyncio.sleep(_LOOK_S / 2)
        return None

    async def _stayed(self, process: HelperProcess, name: str) -> None:
        end = end_of(await process.wait())
        if not end.signum:
            # It ends so when the program is over, too: the first rank says it in a moment.
            await asyncio.sleep(_OVER_S)
        how = f"killed by signal {end.signum}" if end.signum else f"exit code {end.code}"
        self.decide((end if end.failed else HelperEnd(code=1))._replace(message=f"{name}: {how}"))

    async def _too_old(self, program: str) -> HelperEnd | None:
        process = self._start([program, "--version"], heard=True)
        if isinstance(process, HelperEnd):
            return process
        try:
            said = await asyncio.wait_for(process.heard(), _READY_S)
        except TimeoutError:
            said = ""
        found, least = re.search(r"\d+(\.\d+)+", said), self.plan["service_least"]
        if found is not None and [int(part) for part in found[0].split(".")] >= least:
            return None
        has = f"is version {found[0]}" if found is not None else "does not say its version"
        message = f"{program} {has}, and at least {'.'.join(map(str, least))} is needed"
        return HelperEnd(code=1, message=message, failure="staging")

    async def _outlived(self, name: str) -> None:
        """Ends the rank when its service is gone, or on the first rank what the others have joined."""
        numbers: list[int] = [self.plan["service_port"]]
        if self.world.place == 0 and self.plan["service_joins"]:
            numbers.append(self.plan["service_joins"])
        address, ports = self.world.addresses[self.world.place], [self.scene.ports[number - 1] for number in numbers]
        while all([await listens(address, port) for port in ports]):
            await asyncio.sleep(_SERVICE_S)
        self.decide(HelperEnd(code=1, message=f"what {name} had started on this rank is gone"))


def no_port(port: int, error: OSError) -> HelperEnd:
    message = f"port {port}, where its ranks were to meet, cannot be had: {error.strerror or error}"
    return HelperEnd(code=1, message=message, failure="staging")


async def _never() -> None:
    await asyncio.get_running_loop().create_future()
