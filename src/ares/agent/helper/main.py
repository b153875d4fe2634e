"""The main process of a rank with a runtime: meets the other ranks, starts what the plan says, and ends as that does.

The first failure of a process in the slot ends the rank at once and as that process ended: the job is repeated by Ares,
never by a launcher, and the verdict names this rank.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

from ares.agent.helper.hub import Hub, Message, Wire, call_hub
from ares.agent.helper.orders import HelperOrders, HelperWorld, command_of, filled
from ares.agent.helper.slot import HelperEnd, SlotProcesses, end_of, free_ports, is_free, listens

_LOOK_S = 0.2
_READY_S = 120.0
_SERVICE_S = 1.0
# So long the first rank waits for the word of the rank that made its launcher fail.
_WORD_S = 0.5


def main() -> None:
    orders = HelperOrders(sys.argv[1])
    # What it has to say goes to the agent: its output is the job's.
    logging.disable()
    _leave(orders, asyncio.run(_run(orders)))


async def _run(orders: HelperOrders) -> HelperEnd:
    return await HelperRank(orders).run()


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
    def __init__(self, orders: HelperOrders) -> None:
        self._orders = orders
        self._plan = orders.plan
        self._world = orders.world()
        # Its own ports, and those of the first rank.
        self._ports = list[int]()
        self._first = self._ports
        self._stopping = asyncio.Event()
        self._decided: asyncio.Future[HelperEnd] = asyncio.get_running_loop().create_future()
        self._processes = SlotProcesses(orders.ends, self._decide)
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
        for part in ("watch", "rsh"):
            self._write_program(part)
        self._ports = self._first = await free_ports(self._plan["ports"])
        if not self._plan["meets"]:
            return await self._alone()
        return await (self._lead() if self._world.place == 0 else self._follow())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _write_program(self, part: str) -> None:
        """ares-watch and ares-rsh, for launchers: a single word to them, found by PATH, and of each machine its own."""
        path = f"{self._orders.folder}/ares-{part}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {shlex.join(command_of(part))} "$@"\n')

    # ---- every rank by itself

    async def _alone(self) -> HelperEnd:
        while True:
            world = self._world = await self._placed(self._orders.world())
            if world.place == 0 and world.size > 1 and not await is_free(world.port):
                message = f"port {world.port}, where its ranks were to meet, is taken on this machine"
                return HelperEnd(code=1, message=message, failure="staging")
            end = await self._program(self._moved(world.generation) if self._plan["elastic"] else None)
            if end is None or (end.failed and self._plan["elastic"] and await self._smaller(world.generation)):
                await self._processes.stop_all()
                self._decided = asyncio.get_running_loop().create_future()
                continue
            return end

    async def _placed(self, world: HelperWorld) -> HelperWorld:
        """With a port of its own where no other rank has to know it."""
        return world if world.port else world._replace(port=(await free_ports(1))[0])

    async def _program(self, moved: Coroutine[Any, Any, None] | None = None) -> HelperEnd | None:
        """Runs the launcher with the job's command. None: the gang has changed first."""
        argv = [*filled(self._plan["launcher"], self._known()), *self._orders.command]
        process = await self._processes.start(argv, self._environment())
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

    # ---- what texts of the plan stand for

    def _known(self) -> dict[str, str]:
        world, plan = self._world, self._plan
        hosts = ("localhost", *(f"ares-rank-{place}" for place in range(1, world.size)))
        named = {
            "PLACE": str(world.place),
            "SIZE": str(world.size),
            "ADDRESS": world.addresses[0],
            "OWN": world.addresses[world.place],
            "PORT": str(world.port),
            "HOSTS": ",".join(f"{host}:{plan['procs']}" for host in hosts),
            "PROCS": str(plan["procs"] * world.size),
            "WATCH": "ares-watch",
        }
        for name, ports in (("PORT", self._ports), ("FIRST", self._first)):
            named |= {f"{name}{number}": str(port) for number, port in enumerate(ports, start=1)}
        return {f"@{name}@": value for name, value in named.items()}

    def _environment(self) -> dict[str, str]:
        """For all that it starts. Programs meet on the first rank's first own port where it has one."""
        world, known = self._world, self._known()
        names = list(self._plan["env"])
        meeting = f"{world.size} {world.addresses[0]} {self._first[0] if self._first else world.port}"
        return {
            **os.environ,
            **dict(zip(names, filled(list(self._plan["env"].values()), known), strict=True)),
            "ARES_MEETING": meeting,
            "ARES_HUB": f"{world.size} {world.addresses[0]} {world.port}",
            "ARES_HELPER_ORDERS": self._orders.path,
            "ARES_HELPER_ENDS": self._orders.ends,
            "ARES_HELPER_OUTPUT": f"/proc/{os.getpid()}/fd",
            "PATH": f"{os.environ.get('PATH', '')}:{self._orders.folder}",
        }

    # ---- the first rank of those that meet

    async def _lead(self) -> HelperEnd:
        world = self._world = await self._placed(self._world)
        hub = Hub(self._orders.key, world.size, self._lost)
        try:
            await hub.open(world.addresses[0], world.port)
        except OSError as error:
            message = f"port {world.port}, where its ranks were to meet, cannot be had: {error.strerror or error}"
            return HelperEnd(code=1, message=message, failure="staging")
        end = await self._serve(self._plan["service_first"]) or await self._met(hub)
        end = end or await self._program() or HelperEnd()
        if end.failed and end.blames is None and not self._decided.done():
            # The launcher failed: most often because a rank did, whose word is on its way.
            await asyncio.wait([self._decided], timeout=_WORD_S)
            end = self._decided.result() if self._decided.done() else end
        await hub.close(end.code or end.signum)
        return end

    def _lost(self, place: int, why: str) -> None:
        if self._plan["elastic"]:
            # Workers come and go. What became of the rank is for the control plane to say.
            return
        rank = self._world.ranks[place] if place < self._world.size else place
        self._decide(HelperEnd(code=1, message=f"rank {rank} {why}", blames=rank))

    async def _met(self, hub: Hub) -> HelperEnd | None:
        """Waits until all other ranks have come and are ready. An end when they do not, or a failure comes first."""
        await hub.greet(first=self._ports)
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
                    self._first = list(said["first"])
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
        argv = ["/bin/sh", "-c", str(said["command"])]
        process = await self._processes.start(argv, self._environment())
        code = 127 if isinstance(process, HelperEnd) else await process.wait()
        wire.say(ran=said["run"], code=code if code >= 0 else 128 - code)
        if code and self._processes.terminated is None and not self._stopping.is_set():
            self._decide(end_of(code)._replace(message="the launcher's daemon on this rank ended"))

    # ---- services

    async def _serve(self, texts: "list[str]") -> HelperEnd | None:
        """Starts a service beside the program, and waits until it is ready. An end when it cannot be."""
        if not texts:
            return None
        if self._plan["service_least"] and (end := await self._too_old(texts[0])) is not None:
            return end
        process = await self._processes.start(filled(texts, self._known()), self._environment(), apart=True)
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
        process = await self._processes.start([program, "--version"], self._environment(), heard=True)
        if isinstance(process, HelperEnd):
            return process
        try:
            said = (await asyncio.wait_for(process.communicate(), _READY_S))[0].decode(errors="replace")
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
        address, port = self._world.addresses[self._world.place], self._ports[number - 1]
        while await listens(address, port):
            await asyncio.sleep(_SERVICE_S)
        self._decide(HelperEnd(code=1, message=f"what {name} had started on this rank is gone"))


async def _never() -> None:
    await asyncio.get_running_loop().create_future()
