"""A rank of a gang that may shrink and grow, with a launcher on every rank: it is begun anew with each world.

The ranks meet in each world, so that a mistake of the program is told from the loss of a rank: when a program fails and
every rank is still heard, no rank is lost, and the gang ends at once. Otherwise it waits for the smaller world.
"""

import asyncio
import contextlib

from ares.agent.helper.hub import Hub, Wire, call_hub
from ares.agent.helper.launch import free_ports
from ares.agent.helper.rank import HelperRank, no_port
from ares.agent.helper.slot import HelperEnd

# A rank that is lost takes its programs' connections with it, and may have spoken a moment before.
_GRACE_S = 1.0


class ElasticRank(HelperRank):
    async def run(self) -> HelperEnd:
        self.heed_signals()
        while True:
            # The number of the rank whose program made the others fail.
            self._culprit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._wire: Wire | None = None
            end = await self._in_this_world()
            if end is not None:
                return end
            await self.begin_anew()

    async def _in_this_world(self) -> HelperEnd | None:
        """None: the gang has changed."""
        moved = asyncio.ensure_future(self.moved(self.world.generation))
        try:
            end = await (self._open() if self.world.place == 0 else self._join(moved))
            if end is None and not moved.done():
                end = await self.program(self.moved(self.world.generation))
                if end is not None and end.failed and not end.failure and not self.stopping.is_set():
                    end = await self._judged(end, moved)
            return None if moved.done() else end
        finally:
            moved.cancel()
            await self._part()

    async def _open(self) -> HelperEnd | None:
        """The first rank begins at once: its launcher waits for the others."""
        world = self.world
        hub = self.hub = Hub(self._key, world.size, lambda place, why: None, self._struck)
        try:
            await hub.open(world.addresses[0], world.port)
        except OSError as error:
            return no_port(world.port, error)
        ports = free_ports(self.plan["ports"])
        self.scene = self.scene._replace(ports=ports, first=ports)
        await hub.greet(first=ports)
        return None

    async def _join(self, moved: "asyncio.Future[None]") -> HelperEnd | None:
        world = self.world
        address, within_s = world.addresses[0], self.orders.meet_s
        calling = asyncio.ensure_future(call_hub(address, world.port, self._key, within_s, place=world.place))
        await asyncio.wait([calling, moved], return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            calling.cancel()
            return None
        wire = calling.result()
        if isinstance(wire, Wire):
            self._wire = wire
            with contextlib.suppress(EOFError):
                while "first" not in (said := await wire.read()):
                    continue
                self.scene = self.scene._replace(first=list(said["first"]))
                self.spawn(wire.speak())
                self.spawn(self._heed_first(wire))
                return None
            wire = "it went away again"
        message = f"the first rank cannot be reached at {address}:{world.port}: {wire}"
        failed = HelperEnd(code=1, message=message, failure="staging")
        return await self._judged(failed, moved)

    @property
    def _key(self) -> str:
        """A rank of an earlier world is not taken for one of this."""
        return f"{self.orders.key} {self.world.generation}"

    async def _heed_first(self, wire: Wire) -> None:
        with contextlib.suppress(EOFError):
            while True:
                said = await wire.read()
                if "culprit" in said:
                    self._blame(int(said["culprit"]))

    def _blame(self, rank: int) -> None:
        if not self._culprit.done():
            self._culprit.set_result(rank)
            # A program that would go on waits for the other for ever.
            self.decide(HelperEnd(code=1, message=f"it ended with rank {rank}", blames=rank))

    def _struck(self, place: int) -> None:
        """On the first rank: a program failed there."""
        if self.hub is not None and not self._culprit.done():
            self.spawn(self._told_all(self.hub, self.world.ranks[place]))

    async def _told_all(self, hub: Hub, rank: int) -> None:
        if await hub.all_heard(asyncio.get_running_loop().time() + _GRACE_S) and not self._culprit.done():
            for place in list(hub.wires):
                hub.tell(place, culprit=rank)
            self._blame(rank)

    async def _judged(self, end: HelperEnd, moved: "asyncio.Future[None]") -> HelperEnd | None:
        """How the rank ends whose program did so. None: the gang goes on without the rank that made it fail."""
        if self._wire is not None:
            self._wire.say(waits=True)
        elif self.world.place == 0:
            self._struck(0)
        stopping = asyncio.ensure_future(self.stopping.wait())
        waited = [self._culprit, moved, stopping]
        await asyncio.wait(waited, timeout=self.orders.elastic_s, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if moved.done():
            return None
        rank = self._culprit.result() if self._culprit.done() else self.world.ranks[self.world.place]
        return end if rank == self.world.ranks[self.world.place] else end._replace(blames=rank)

    async def _part(self) -> None:
        if self._wire is not None:
            await self._wire.close()
        if self.hub is not None:
            await self.hub.close(0)
            self.hub = None
