"""A new epoch is one further, also when nobody can say whether it was written."""

import itertools

import pytest

from ares.adapters.store.epoch import begin_epoch, decode, ensure_epoch
from ares.adapters.store.memory import MemoryStore, StoreFault
from ares.core.keys import EPOCH
from tests.clocks import ManualClock, SeededRng


@pytest.mark.parametrize("faults", list(itertools.product(("reply_lost", "request_lost", None), repeat=2)))
async def test_one_step_whatever_the_store_can_say(faults: tuple[str | None, ...]) -> None:
    store, rng = MemoryStore(ManualClock()), SeededRng()
    assert await ensure_epoch(store, rng) == 1
    before = await store.get(EPOCH)
    store.faults.next(*(None if kind is None else StoreFault(kind) for kind in faults))  # type: ignore[arg-type]
    assert await begin_epoch(store, rng) == 2
    after = await store.get(EPOCH)
    assert before is not None
    assert after is not None
    assert decode(after.value).epoch == 2
    assert decode(after.value).id != decode(before.value).id
    await store.close()
