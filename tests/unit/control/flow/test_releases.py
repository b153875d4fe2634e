"""What releases go by, batch by batch of the view's changes."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from msgspec.json import encode
from msgspec.structs import replace

from ares.adapters.store.memory import MemoryStore
from ares.control.execution.transitions import JobChange, MissingJob, Outcome, Transitions
from ares.control.flow.flow_index import FlowIndex
from ares.control.flow.releases import Releases
from ares.control.state.view import View
from ares.core import keys
from ares.core.lifecycle.inputs import Input, NeedsMet, NeedsOverdue, NeedsUnmet
from ares.model.job import JobSpec, Need, NeedsTimeout
from ares.model.state import ArrayRecord, JobState, Phase
from ares.ports.store import Put
from tests.clocks import ManualClock
from tests.world import spec

_T = "alpha"


class _Decided:
    """Notes what is decided; nothing comes of it."""

    def __init__(self) -> None:
        self.last: dict[str, Input] = {}

    async def apply(self, changes: Sequence[JobChange]) -> list[Outcome]:
        self.last.update((change.job, change.inputs[-1]) for change in changes)
        return [MissingJob() for _ in changes]


class _Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.view = View(self.store, self.clock)
        self.decided = _Decided()
        transitions = cast(Transitions, self.decided)
        self.releases = Releases(self.view, FlowIndex(self.view), transitions, self.clock)

    async def put(self, *puts: Put) -> None:
        """In one transaction, so in one batch."""
        await self.store.txn([], puts)
        await self.view.catch_up()
        await self.clock.advance(0.1)


@asynccontextmanager
async def _scene() -> AsyncGenerator[_Scene]:
    scene = _Scene()
    await scene.view.open()
    running = [asyncio.create_task(scene.view.run()), asyncio.create_task(scene.releases.run())]
    await scene.clock.advance(0.1)
    yield scene
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await scene.store.close()


def _state(job: str, phase: Phase, **changes: Any) -> Put:
    state = JobState(id=job, tenant=_T, name=job, phase=phase, submitted_by="u", trace="t", submitted_at=0.0)
    return Put(keys.state(_T, job), encode(replace(state, **changes)))


def _spec(job: str, asked: JobSpec) -> Put:
    return Put(keys.job(_T, job), encode(asked))


def _array(array: str, tasks: int, *, expanded: bool = True) -> Put:
    record = ArrayRecord(
        id=array, tenant=_T, name=array, indices=f"0-{tasks - 1}", tasks=tasks, submitted_by="u", trace="t",
        submitted_at=0.0, expanded=expanded,
    )  # fmt: skip
    return Put(keys.array(_T, array), encode(record))


def _task(array: str, index: int, phase: Phase) -> Put:
    return _state(f"{array}_{index}", phase, array=array, index=index)


def _child(job: str, parent: str, **need: Any) -> tuple[Put, Put]:
    return _spec(job, spec(needs=(Need(job=parent, **need),))), _state(job, "WAITING")


async def test_a_task_that_ends_in_the_batch_of_the_childs_creation_counts_once() -> None:
    async with _scene() as scene:
        await scene.put(_array("p", 2), _task("p", 0, "RUNNING"), _task("p", 1, "RUNNING"))
        await scene.put(*_child("c", "p", on="end"), _task("p", 0, "SUCCEEDED"))
        assert scene.decided.last == {}
        await scene.put(_task("p", 1, "SUCCEEDED"))
        assert isinstance(scene.decided.last["c"], NeedsMet)


async def test_a_child_that_comes_with_a_task_of_an_array_that_is_counted_already() -> None:
    async with _scene() as scene:
        await scene.put(_array("p", 3), *(_task("p", n, "RUNNING") for n in range(3)))
        await scene.put(*_child("c", "p"))
        await scene.put(*_child("d", "p"), _task("p", 0, "SUCCEEDED"))
        await scene.put(_task("p", 1, "SUCCEEDED"))
        assert scene.decided.last == {}
        await scene.put(_task("p", 2, "SUCCEEDED"))
        assert {job: type(what) for job, what in scene.decided.last.items()} == {"c": NeedsMet, "d": NeedsMet}


async def test_an_array_that_comes_after_what_waits_for_it_is_counted_along() -> None:
    async with _scene() as scene:
        await scene.put(*_child("c", "p"), _state("other", "PENDING"))
        scene.decided.last.clear()
        await scene.put(_array("p", 2), _task("p", 0, "RUNNING"), _task("p", 1, "RUNNING"))
        await scene.put(_task("p", 0, "SUCCEEDED"))
        assert scene.decided.last == {}
        assert "p" in scene.releases._standings._arrays  # pyright: ignore[reportPrivateUsage]
        await scene.put(_task("p", 1, "SUCCEEDED"))
        assert isinstance(scene.decided.last["c"], NeedsMet)


async def test_a_task_that_is_not_written_yet_is_waited_for() -> None:
    async with _scene() as scene:
        wants = spec(array="0-1", needs=(Need(job="p", each=True),))
        await scene.put(_array("p", 2, expanded=False), _task("p", 0, "RUNNING"))
        await scene.put(_spec("c", wants), _array("c", 2), _state("c_1", "WAITING", array="c", index=1))
        assert scene.decided.last == {}
        await scene.put(_task("p", 1, "SUCCEEDED"), _array("p", 2))
        assert isinstance(scene.decided.last["c_1"], NeedsMet)


async def test_a_task_that_a_whole_array_does_not_have_is_not_waited_for() -> None:
    async with _scene() as scene:
        wants = spec(array="0-1", needs=(Need(job="p", each=True),))
        await scene.put(_array("p", 2), _task("p", 0, "RUNNING"))
        await scene.put(_spec("c", wants), _array("c", 2), _state("c_1", "WAITING", array="c", index=1))
        assert isinstance(scene.decided.last["c_1"], NeedsUnmet)


async def test_timers_of_jobs_that_no_longer_wait_are_not_kept_until_they_are_due() -> None:
    month = NeedsTimeout(after_s=30 * 86_400.0)
    async with _scene() as scene:
        await scene.put(_state("p", "RUNNING"))
        for job in ("a", "b", "c", "d", "e"):
            await scene.put(_spec(job, spec(needs=(Need(job="p"),), needs_timeout=month)), _state(job, "WAITING"))
        timers = lambda: {job for _, job in scene.releases._timers}  # noqa: E731 # pyright: ignore[reportPrivateUsage]
        assert timers() == {"a", "b", "c", "d", "e"}
        for job in ("a", "b", "c"):
            await scene.put(_state(job, "CANCELLED", seq=2))
        assert timers() == {"d", "e"}
        await scene.clock.advance(31 * 86_400.0)
        assert {job: type(what) for job, what in scene.decided.last.items()} == {"d": NeedsOverdue, "e": NeedsOverdue}
