"""What a rank with a runtime does: meets the other ranks, starts what the plan says, and ends as that does.

The first failure of a process in the slot ends the rank at once and as that process ended: the job is repeated by Ares,
never by a launcher, and the verdict names this rank.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
from collections.abc import Coroutine
from typing import Any, NoReturn

from ares.agent.helper.hub import Hub, Message, Wire, call_hub
from ares.agent.helper.launch import free_ports
from ares.agent.helper.orders import HelperOrders, HelperScene
from ares.agent.helper.slot import HelperEnd, HelperProcess, SlotProcesses, end_of, is_free, listens

_LOOK_S = 0.2
_READY_S = 120.0
_SERVICE_S = 1.0
# So long a rank waits for the word of the rank that made its launcher fail.
_WORD_S = 0.5
# A shell's word for the end of what it started by a signal.
_BY_SIGNAL = 128


def run_rank(scene: HelperScene, ends: int, begun: int | None) -> NoReturn:
    """`ends`: the open pipe of started processes. `begun`: the launcher, if it runs already."""
    # What it has to say goes to the agent: its output is the job's.
    logging.disable()
    _leave(scene.orders, asyncio.run(_run(scene, ends, begun)))


async def _run(scene: HelperScene, ends: int, begun: int | None) -> HelperEnd:
    return await HelperRank(scene, ends, begun).run()


def _leave(orders: HelperOrders, end: HelperEnd) -> NoReturn:
    said = {"message": end.message, "failure": end.failure, "blames": end.blames}
    if any(value not in ("", None) for value in said.values()):
        with contextlib.suppress(OSError), open(orders.note, "w", encoding="utf-8") as file:
            json.dump(said, file)
    if end.signum == signal.SIGSTOP:
        os.kill(os.getpid(), signal.SIGKILL)
    if end.signum:
        with contextlib.suppress(OSError):
            signal.signal(end.signum, signal.SIG_DFL)
        os.kill(os.getpid(), end.signum)
    os._exit(end.code or (1 if end.signum else 0))


class HelperRank:
    def __init__(self, scene: HelperScene, ends: int | None = None, begun: int | None = None) -> None:
        self._scene = scene
        self._orders = scene.orders
        self._plan = scene.orders.plan
        self._world = scene.world
        self._begun = begun
        self._hub: Hub | None = None
        # Whether its service is too old, where that is asked for ahead.
        self._aged: asyncio.Future[HelperEnd | None] | None = None
        self._stopping = asyncio.Event()
        self._decided: asyncio.Future[HelperEnd] = asyncio.get_running_loop().create_future()
        self._processes = SlotProcesses(self._orders.ends, self._decide, self._asked, ends)
        self._tasks = set[asyncio.Task[None]]()

    def _decide(self, end: HelperEnd) -> None:
        """The rank ends so, unless it is told to end already."""
        if not self._decided.done() and not self._stopping.is_set():
            self._decided.set_result(end)

    async def run(self) -> HelperEnd:
        loop = asyncio.get_running_loop()
        # Sent to the whole group: the launcher has it too. The rank ends when its program has.
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        self._spawn(self._processes.watch_frozen())
        if not self._plan["meets"]:
            return await self._alone()
        return await (self._lead() if self._world.place == 0 else self._follow())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _start(self, texts: "list[str]", *, apart: bool = False, heard: bool = False) -> HelperProcess | HelperEnd:
        return self._processes.start(texts, self._scene.environment(), apart=apart, heard=heard)

    # ---- every rank by itself

    async def _alone(self) -> HelperEnd:
        while True:
            world = self._world
            if world.place == 0 and world.size > 1 and not is_free(world.port):
                message = f"port {world.port}, where its ranks were to meet, is taken on this machine"
                return HelperEnd(code=1, message=message, failure="staging")
            end = await self._program(self._moved(world.generation) if self._plan["elastic"] else None)
            if end is None or (end.failed and self._plan["elastic"] and await self._smaller(world.generation)):
                await self._begin_anew()
                continue
            return end

    async def _begin_anew(self) -> None:
        """With the gang as it is now, and nothing of the earlier start."""
        await self._processes.stop_all()
        self._decided = asyncio.get_running_loop().create_future()
        world = self._orders.world()
        self._world = world if world.port else world._replace(port=free_ports(1)[0])
        self._scene = self._scene._replace(world=self._world)

    async def _program(self, moved: Coroutine[Any, Any, None] | None = None) -> HelperEnd | None:
        """Runs the launcher with the job's command. None: the gang has changed first."""
        if self._begun is not None:
            process = self._processes.adopt(self._begun)
        else:
            process = self._start([*self._scene.texts(self._plan["launcher"]), *self._orders.command])
        if isinstance(process, HelperEnd):
            if moved is not None:
                moved.close()
            return process
        ended, changed = asyncio.ensure_future(process.wait()), asyncio.ensure_future(moved or _never())
        await asyncio.wait([ended, changed, self._decided], return_when=asyncio.FIRST_COMPLETED)
        if self._stopping.is_set() and not self._decided.done():
            await ended
        changed.cancel()
        if self._decided.done():
            return self._decided.result()
        if not ended.done():
            return None
        end = end_of(ended.result())
        return self._processes.terminated or end if end.failed else end

    async def _moved(self, generation: int) -> None:
        while self._orders.world().generation == generation:
            await asyncio.sleep(_LOOK_S)

    async def _smaller(self, generation: int) -> bool:
        """Whether the gang goes on without the rank that made this one fail."""
        try:
            await asyncio.wait_for(self._moved(generation), self._orders.elastic_s)
        except TimeoutError:
            return False
        return True

    # ---- the first rank of those that meet

    async def _lead(self) -> HelperEnd:
        world = self._world
        hub = self._hub = Hub(self._orders.key, world.size, self._lost)
        try:
            await hub.open(world.addresses[0], world.port)
        except OSError as error:
            return _no_port(world.port, error)
        if self._begun is not None:
            self._spawn(self._meet(hub))
            end = await self._program() or HelperEnd()
        else:
            end = await self._serve_first(hub) or await self._met(hub)
            end = end or await self._program() or HelperEnd()
        if end.code and end.blames is None and not self._decided.done():
            # The launcher failed: most often because a rank did, whose word is on its way. One that was killed did not.
            await asyncio.wait([self._decided], timeout=_WORD_S)
            end = self._decided.result() if self._decided.done() else end
        await hub.close(end.code or end.signum)
        return end

    async def _meet(self, hub: Hub) -> None:
        if (end := await self._met(hub)) is not None:
            self._decide(end)

    async def _serve_first(self, hub: Hub) -> HelperEnd | None:
        """The others join as soon as the service can be reached, while the rest of it begins."""
        joined = asyncio.ensure_future(self._greet_early(hub))
        end = await self._serve(self._plan["service_first"])
        joined.cancel()
        return end

    async def _greet_early(self, hub: Hub) -> None:
        number: int = self._plan["service_joins"]
        if not number:
            return
        while not await listens(self._world.addresses[0], self._scene.ports[number - 1]):
            await asyncio.sleep(_LOOK_S)
        await hub.greet(first=self._scene.ports)

    def _asked(self, place: int) -> None:
        """A launcher wants its command to be run on another rank."""
        if self._hub is not None:
            self._spawn(self._answered(self._hub, place))

    async def _answered(self, hub: Hub, place: int) -> None:
        try:
            command = self._orders.command_for(place)
            # Open before the answer is there: the launcher may come to read it only later.
            pipe = os.open(self._orders.answer(place), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(pipe, b"%d\n" % await hub.run(place, command))
        except OSError:
            self._decide(HelperEnd(code=1, message=f"a launcher's call of place {place} cannot be answered"))

    def _lost(self, place: int, why: str) -> None:
        if self._plan["elastic"]:
            # Workers come and go. What became of the rank is for the control plane to say.
            return
        rank = self._world.ranks[place] if place < self._world.size else place
        self._decide(HelperEnd(code=1, message=f"rank {rank} {why}", blames=rank))

    async def _met(self, hub: Hub) -> HelperEnd | None:
        """Waits until all other ranks have come and are ready. An end when they do not, or a failure comes first."""
        if hub.greeting is None:
            await hub.greet(first=self._scene.ports)
        ready = asyncio.ensure_future(hub.all_ready(self._world.size - 1))
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait(
            [ready, stopping, self._decided], timeout=self._orders.meet_s, return_when=asyncio.FIRST_COMPLETED
        )
        stopping.cancel()
        if ready.done():
            return None
        ready.cancel()
        if self._decided.done():
            return self._decided.result()
        missing = [self._world.ranks[place] for place in range(1, self._world.size) if place not in hub.ready]
        message = f"ranks {missing[:8]} had not come to the first rank within {self._orders.meet_s:g} s"
        return HelperEnd(code=1, message=message, failure="staging")

    # ---- the other ranks

    async def _follow(self) -> HelperEnd:
        world = self._world
        if self._plan["service_least"]:
            # Meanwhile the first rank begins.
            self._aged = asyncio.ensure_future(self._too_old(self._plan["service"][0]))
        address, port = world.addresses[0], world.port
        wire = await call_hub(address, port, self._orders.key, self._orders.meet_s, place=world.place)
        if isinstance(wire, str):
            message = f"the first rank cannot be reached at {address}:{port}: {wire}"
            return HelperEnd(code=1, message=message, failure="staging")
        self._spawn(wire.speak())
        # A rank that is told to end waits for the first rank, which was told too and may have work to save. Only one
        # that an elastic gang lets go leaves by itself.
        leaving = asyncio.ensure_future(self._stopping.wait() if self._plan["elastic"] else _never())
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
                    self._scene = self._scene._replace(first=list(said["first"]))
                    self._spawn(self._ready(wire))
                elif "run" in said and self._plan["calls"]:
                    self._spawn(self._called(wire, said))
        except EOFError:
            said = {"end": 1}
        if said["end"] == 0:
            return HelperEnd()
        first = self._world.ranks[0]
        return HelperEnd(code=1, message=f"it ended with rank {first}, the first of the gang", blames=first)

    async def _ready(self, wire: Wire) -> None:
        end = await self._serve(self._plan["service"])
        if end is None:
            wire.say(ready=True)
        else:
            self._decide(end)

    async def _called(self, wire: Wire, said: Message) -> None:
        process = self._start(["/bin/sh", "-c", str(said["command"])])
        code = 127 if isinstance(process, HelperEnd) else await process.wait()
        end = end_of(_BY_SIGNAL - code if code > _BY_SIGNAL else code)
        if end.code and code != 127:
            # It ends so when the launcher is gone, too: the first rank says it in a moment.
            await asyncio.sleep(_WORD_S)
        wire.say(ran=said["run"], code=code if code >= 0 else _BY_SIGNAL - code)
        if end.failed and self._processes.terminated is None and not self._stopping.is_set():
            self._decide(end._replace(message="the launcher's daemon on this rank ended"))

    # ---- services

    async def _serve(self, texts: "list[str]") -> HelperEnd | None:
        """Starts a service beside the program, and waits until it is ready. An end when it cannot be."""
        if not texts:
            return None
        if self._plan["service_least"]:
            aged = self._too_old(texts[0]) if self._aged is None else self._aged
            if (end := await aged) is not None:
                return end
        process = self._start(self._scene.texts(texts), apart=True)
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
        self._spawn(self._outlived(name))
        return None

    async def _too_old(self, program: str) -> HelperEnd | None:
        process = self._start([program, "--version"], heard=True)
        if isinstance(process, HelperEnd):
            return process
        try:
            said = await asyncio.wait_for(process.heard(), _READY_S)
        except TimeoutError:
            said = ""
        found, least = re.search(r"\d+(\.\d+)+", said), self._plan["service_least"]
        if found is not None and [int(part) for part in found[0].split(".")] >= least:
            return None
        has = f"is version {found[0]}" if found is not None else "does not say its version"
        message = f"{program} {has}, and at least {'.'.join(map(str, least))} is needed"
        return HelperEnd(code=1, message=message, failure="staging")

    async def _outlived(self, name: str) -> None:
        """Ends the rank when its service is gone."""
        number: int = self._plan["service_port"]
        address, port = self._world.addresses[self._world.place], self._scene.ports[number - 1]
        while await listens(address, port):
            await asyncio.sleep(_SERVICE_S)
        self._decide(HelperEnd(code=1, message=f"what {name} had started on this rank is gone"))


def _no_port(port: int, error: OSError) -> HelperEnd:
    message = f"port {port}, where its ranks were to meet, cannot be had: {error.strerror or error}"
    return HelperEnd(code=1, message=message, failure="staging")


async def _never() -> None:
    await asyncio.get_running_loop().create_future()
