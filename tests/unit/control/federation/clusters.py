"""A cluster that says what a test has it say, on a stream to a real global plane."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import msgspec

from ares.core.federation.buckets import bucket_of
from ares.model.access import Principal
from ares.model.base import Fence
from ares.model.cluster_link import (
    BUCKETS,
    Accepted,
    ClusterFrame,
    ClusterHello,
    ClusterMessage,
    ClusterWelcome,
    GlobalMessage,
    HeldJob,
    LedgerLine,
    ListedBucket,
    LocalJob,
    Offered,
    OwnedStanding,
    Reported,
)
from ares.model.job import JobSpec
from ares.model.state import EventKind
from ares.model.uplink import ClusterReport, OfferedJob, ReportedShape
from tests.world import Replica, World

M = TypeVar("M", bound=GlobalMessage)
ALL = tuple(range(BUCKETS))
_KINDS: dict[str, EventKind] = {"RUNNING": "started", "SUCCEEDED": "succeeded", "FAILED": "failed"}
SHAPE = ReportedShape(
    cpu_milli=64_000, memory_mib=64_000, gpus=8, free_cpu_milli=64_000, free_memory_mib=64_000, free_gpus=8
)


class ScriptedCluster:
    def __init__(self, world: World, name: str, replica: Replica | None = None) -> None:
        self.name = name
        self.heard: list[GlobalMessage] = []
        self._world, self._replica = world, replica or world.one
        self._frames: asyncio.Queue[ClusterFrame | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._seq = 0

    async def connect(self, *, incarnation: int = 1, store_epoch: int = 1, generation: int = 0, **more: Any) -> None:
        hello = ClusterHello(
            name=self.name, incarnation=incarnation, store_epoch=store_epoch, generation=generation,
            wall=self._world.clock.wall(), **more,
        )  # fmt: skip
        self._incarnation = incarnation
        self._task = asyncio.create_task(self._serve())
        await self.say(hello)

    async def _serve(self) -> None:
        who = Principal(token_id="", tenant="", role="cluster", cluster=self.name)
        async for frame in self._replica.federation.links.serve(who, self._read()):
            self.heard += frame.messages

    async def _read(self) -> AsyncIterator[ClusterFrame]:
        while (frame := await self._frames.get()) is not None:
            yield frame

    async def say(self, *messages: ClusterMessage) -> None:
        """As they arrive: encoded, and decoded within their bounds."""
        frame = ClusterFrame(messages=messages)
        self._frames.put_nowait(msgspec.msgpack.decode(msgspec.msgpack.encode(frame), type=ClusterFrame))
        await self._world.settle()

    async def list_(self, *held: HeldJob) -> None:
        """All that was asked for, each job in its bucket."""
        (welcome,) = self.of(ClusterWelcome)
        buckets = (
            ListedBucket(number=number, jobs=tuple(job for job in held if bucket_of(job.job) == number))
            for number in welcome.differing
        )
        await self.say(*buckets)

    async def report(self, **changes: Any) -> None:
        self._seq += 1
        report = ClusterReport(cluster=self.name, incarnation=self._incarnation, seq=self._seq, shapes=(SHAPE,))
        await self.say(Reported(report=msgspec.structs.replace(report, **changes)))

    async def join(self) -> None:
        """Connected, with nothing to settle, and with room."""
        await self.connect()
        await self.list_()
        await self.report()

    async def accept(self, job: str) -> int:
        """Waits for the offer, and has it confirmed."""
        await self._world.until(lambda: [o for o in self.of(Offered) if o.offer.job == job])
        epoch = [offer for offer in self.of(Offered) if offer.offer.job == job][-1].epoch
        await self.say(Accepted(job=job, epoch=epoch))
        return epoch

    def of(self, kind: type[M]) -> list[M]:
        return [message for message in self.heard if isinstance(message, kind)]

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    async def end(self) -> None:
        self._frames.put_nowait(None)
        await self._world.settle()


def standing(job: str, epoch: int, **changes: object) -> OwnedStanding:
    """With the entry that says so."""
    usual: dict[str, Any] = {"fence": Fence(epoch=1, counter=1), "seq": 3, "since": 0, "phase": "RUNNING"}
    said = {**usual, **changes}
    entry = LedgerLine(seq=said["seq"], kind=_KINDS[said["phase"]], phase=said["phase"], at=1.0)
    return OwnedStanding(job=job, epoch=epoch, **{"entries": (entry,), **said})


def local(job: str, tenant: str, epoch: int, **changes: object) -> LocalJob:
    encoded = msgspec.json.encode(JobSpec(name="local", command=("true",)))
    offer = OfferedJob(job=job, tenant=tenant, name="local", spec=encoded)
    return LocalJob(offer=offer, standing=standing(job, epoch, **changes))
