"""Writes down what a platform of real processes does, in the words of `ares.check.invariants.history`.

Commits come from a watch on the store itself, attempts from the marks they leave, the rest from who does it.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from ares.adapters.clocks import SystemClock
from ares.adapters.store.open import open_store
from ares.check.invariants.history import Commit, Effect, Ended, Event, Healed, ProcessStarted, Settings, Write
from ares.core import keys
from ares.model.node import NodeLease
from ares.model.state import JobState, LeaderRecord, LedgerEvent
from ares.model.timing import Timing
from ares.ports.store import Changes, StoreChange, StoreError

_AGAIN_S = 0.1


def now() -> float:
    """What `/proc/uptime` shows to jobs."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Recorder:
    """Watches an etcd from its first revision, in a thread of its own. Calls from any thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._commits: list[Commit] = []
        self._events: list[Event] = []
        self._task: asyncio.Task[None] | None = None
        self.states: dict[str, JobState] = {}
        self.leases: dict[str, NodeLease] = {}
        # Who leads by the store, which knows before who was deposed in its sleep.
        self.leader = ""
        self.ledger: list[LedgerEvent] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join()

    def note(self, event: Event) -> None:
        self._events.append(event)

    def kinds(self, job: str) -> list[str]:
        return [event.kind for event in tuple(self.ledger) if event.job == job]

    @property
    def revision(self) -> int:
        return self._commits[-1].revision if self._commits else 0

    def catch_up(self, timeout_s: float = 30.0) -> None:
        """Returns when everything committed before the call is recorded."""
        last = asyncio.run_coroutine_threadsafe(self._last_revision(), self._loop).result(timeout_s)
        deadline = time.monotonic() + timeout_s
        while self.revision < last:
            assert time.monotonic() < deadline, f"recorded up to {self.revision} of {last}"
            time.sleep(_AGAIN_S)

    # ---- the whole history

    def history(self, marks: Path, timing: Timing, *, slack_s: float) -> list[Event]:
        """In order of time. `slack_s` is what a busy machine may take to kill, or to look after it was woken."""
        seen = [*self._events, *self._attempts(marks)]
        began = {(event.job, event.fence): event.t for event in seen if isinstance(event, ProcessStarted)}
        commits, latest = list[Event](), float("inf")
        for commit in reversed(self._commits):
            # The watch brings commits late; a cause is not later than what it caused.
            latest = min(latest, commit.t, *(began[grant] for grant in _grants(commit) if grant in began))
            commits.append(msgspec.structs.replace(commit, t=latest))
        commits.reverse()
        bounds = Settings(
            t=0.0, self_fence_s=timing.self_fence_s, kill_s=timing.kill_s + slack_s, check_s=slack_s, drift=0.01,
            recovery_s=timing.dead_after_s + timing.scan_every_s + 10 * slack_s, machines=False,
        )  # fmt: skip
        end = now()
        events = sorted([*commits, *seen], key=lambda event: event.t)
        return [bounds, *events, Healed(t=end), Ended(t=end, quiet=True)]

    def _attempts(self, marks: Path) -> list[Event]:
        events: list[Event] = []
        nodes = {(one.job, one.fence): one.data["node"] for one in self.ledger if one.kind == "bound"}
        for path in marks.glob("*.*.*"):
            job, _, fence = path.name.partition(".")
            beats = [float(line) for line in path.read_text().split()]
            if job == "twice" or not beats:
                continue
            node = nodes.get((job, fence), "nowhere")
            events.append(ProcessStarted(t=beats[0], node=node, job=job, fence=fence))
            events += [Effect(t=beat, node=node, job=job, fence=fence) for beat in beats[1:]]
        return events

    # ---- in the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._follow())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()

    def _end(self) -> None:
        assert self._task is not None
        self._task.cancel()

    async def _last_revision(self) -> int:
        store = await open_store(self._url, SystemClock())
        try:
            found = await store.range(keys.ROOT)
            return max((kv.mod_revision for kv in found.kvs), default=0)
        finally:
            await store.close()

    async def _follow(self) -> None:
        store = await open_store(self._url, SystemClock())
        try:
            while True:
                with contextlib.suppress(StoreError):
                    async for item in store.watch(keys.ROOT, self.revision + 1):
                        assert isinstance(item, Changes), "the store compacted its history; the judgement needs all"
                        self._take(item.changes)
                await asyncio.sleep(_AGAIN_S)
        finally:
            await store.close()

    def _take(self, changes: Sequence[StoreChange]) -> None:
        t = now()
        for revision, group in groupby(changes, key=lambda change: change.kv.mod_revision):
            commit = list(group)
            writes = tuple(
                Write(one.kv.key, None if one.deleted else one.kv.value.decode(), 0 if one.deleted else one.kv.version)
                for one in commit
            )
            for one in commit:
                self._read(one)
            self._commits.append(Commit(t=t, revision=revision, writes=writes))

    def _read(self, change: StoreChange) -> None:
        if change.kv.key.startswith(keys.LEADER):
            self.leader = "" if change.deleted else msgspec.json.decode(change.kv.value, type=LeaderRecord).replica
        if change.deleted:
            return
        if change.kv.key.startswith(keys.STATE):
            self.states[keys.job_of(change.kv.key)] = msgspec.json.decode(change.kv.value, type=JobState)
        elif change.kv.key.startswith(keys.LEASES):
            lease = msgspec.json.decode(change.kv.value, type=NodeLease)
            self.leases[lease.node] = lease
        elif change.kv.key.startswith(keys.EVENTS):
            self.ledger.append(msgspec.json.decode(change.kv.value, type=LedgerEvent))


def _grants(commit: Commit) -> list[tuple[str, str]]:
    events = [
        msgspec.json.decode(one.value, type=LedgerEvent)
        for one in commit.writes
        if one.value is not None and one.key.startswith(keys.EVENTS)
    ]
    return [(event.job, event.fence) for event in events if event.kind == "bound"]
