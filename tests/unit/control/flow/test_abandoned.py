"""Workflows whose submission broke off are given up, others are not."""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.json import encode
from msgspec.structs import replace

from ares.adapters.store.memory import MemoryStore
from ares.control.flow.abandoned import AbandonedFlows
from ares.control.flow.flow_index import FlowIndex
from ares.control.state.view import View
from ares.core import keys
from ares.model.state import FlowRecord, JobState
from ares.ports.store import Committed, Compare, Delete, Op, Put, Unknown
from tests.clocks import ManualClock

_T = "alpha"


def _flow(name: str) -> FlowRecord:
    return FlowRecord(id=name, tenant=_T, name=name, jobs=1000, tasks=1000)


def _put(flow: FlowRecord) -> Put:
    return Put(keys.flow(_T, flow.id), encode(flow))


class Meanwhile(MemoryStore):
    """When the first workflow is given up, the others change before the answer comes."""

    view: View
    then: tuple[Op, ...] = ()

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> Committed | Unknown:
        written = await super().txn(compares, then, otherwise)
        if self.then and b'"abandoned":true' in b"".join(op.value for op in then if isinstance(op, Put)):
            ops, self.then = self.then, ()
            await super().txn([], ops)
            await self.view.catch_up()
        return written


class _Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Meanwhile(self.clock)
        self.view = self.store.view = View(self.store, self.clock)
        self.abandoned = AbandonedFlows(self.store, self.view, FlowIndex(self.view), self.clock)

    async def __aenter__(self) -> "_Scene":
        await self.view.open()
        self.running = [asyncio.create_task(self.view.run()), asyncio.create_task(self.abandoned.run())]
        await self.clock.advance(0.1)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not any(task.done() for task in self.running)
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        await self.store.close()

    async def kept(self, name: str) -> FlowRecord:
        kv = await self.store.get(keys.flow(_T, name))
        assert kv is not None
        return msgspec.json.decode(kv.value, type=FlowRecord)


async def test_what_becomes_whole_or_is_forgotten_meanwhile_is_not_given_up() -> None:
    async with _Scene() as scene:
        await scene.store.txn([], [_put(_flow(name)) for name in "abc"])
        scene.store.then = (_put(replace(_flow("b"), whole=True)), Delete(keys.flow(_T, "c")))
        await scene.clock.advance(140.0)
        assert (await scene.kept("a")).abandoned
        kept = await scene.kept("b")
        assert (kept.whole, kept.abandoned) == (True, False)
        assert await scene.store.get(keys.flow(_T, "c")) is None


async def test_a_submission_that_gets_on_has_all_the_time_it_takes() -> None:
    async with _Scene() as scene:
        await scene.store.txn([], [_put(_flow("a"))])
        for number in range(4):
            await scene.clock.advance(100.0)
            state = JobState(id=f"a{number}", tenant=_T, name="x", phase="WAITING", flow="a")
            await scene.store.txn([], [Put(keys.state(_T, state.id), encode(state))])
        await scene.clock.advance(100.0)
        assert not (await scene.kept("a")).abandoned
        await scene.clock.advance(40.0)
        assert (await scene.kept("a")).abandoned
