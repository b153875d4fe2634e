"""How many jobs a tenant has, with those that are still being written."""

import asyncio

from msgspec.json import encode
from msgspec.structs import replace

from ares.adapters.store.memory import MemoryStore
from ares.control.state.population import Population
from ares.control.state.view import View
from ares.core import keys
from ares.model.state import FlowRecord
from ares.ports.store import Delete, Op, Put
from tests.clocks import ManualClock


async def test_a_workflows_jobs_count_until_it_is_whole_given_up_or_gone() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    view = View(store, clock)
    await view.open()
    population = Population(view)
    following = asyncio.create_task(view.run())
    flows = {name: FlowRecord(id=name, tenant="t", name=name, jobs=2, tasks=5) for name in "abc"}

    async def write(*ops: Op) -> int:
        await store.txn([], ops)
        await view.catch_up()
        return population.live("t")

    def put(flow: FlowRecord) -> Put:
        return Put(keys.flow("t", flow.id), encode(flow))

    assert await write(*map(put, flows.values())) == 15
    assert await write(put(flows["a"])) == 15
    assert await write(put(replace(flows["a"], whole=True))) == 10
    assert await write(put(replace(flows["b"], abandoned=True)), Delete(keys.flow("t", "a"))) == 5
    assert await write(Delete(keys.flow("t", "c"))) == 0
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await store.close()
