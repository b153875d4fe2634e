"""Judges what a platform did, from what clients were told, what the store holds and what jobs left on disk.

Independent of the services' code: only the records' shapes are shared. Each check names the promise it holds
the platform to; see the table of guarantees in docs/concepts.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from ares.adapters.clocks import SystemClock
from ares.adapters.store import epoch
from ares.adapters.store.open import open_store
from ares.check.invariants.history import Commit, Settings, Write
from ares.check.invariants.judge import check
from ares.core import keys
from ares.core.lifecycle.retry import limit_of
from ares.model.job import FAILURE_CLASSES, JobSpec
from ares.model.state import TERMINAL, Fence, JobState, LedgerEvent, RequestRecord, Result
from ares.ports.store import KV, Changes

# A job that proves how it ran: a mark per (job, fence) that can be made only once, a beat while it runs, a result.
# With GATE it runs until that file exists.
MARKED = r"""
mark="$MARKS/$ARES_JOB_ID.$ARES_FENCE"
now() { read -r up _ < /proc/uptime; echo "$up"; }
set -C
now > "$mark" || now >> "$MARKS/twice.$ARES_JOB_ID.$ARES_FENCE"
set +C
beats=${BEATS:-0}
[ "$ARES_ATTEMPT" -gt 1 ] && beats=$LATER_BEATS
[ "$ARES_ATTEMPT" -le "${FAILS:-0}" ] && exit 3
while [ "$beats" -gt 0 ]; do sleep 0.1; now >> "$mark"; beats=$((beats - 1)); done
while [ -n "${GATE:-}" ] && [ ! -e "$GATE" ]; do sleep 0.1; now >> "$mark"; done
echo "\"$ARES_FENCE\"" > "$ARES_RESULT_FILE"
"""


@dataclass(frozen=True)
class Acknowledged:
    """What a client was told: a job, or an array of so many tasks; and that it was cancelled."""

    request: str
    job: str
    array: bool = False
    tasks: int = 1
    cancelled: bool = False

    @property
    def states(self) -> list[str]:
        return [f"{self.job}_{index}" for index in range(self.tasks)] if self.array else [self.job]


@dataclass
class Contents:
    """The store's records, as found when all is quiet."""

    states: dict[str, JobState] = field(default_factory=dict)
    specs: dict[str, JobSpec] = field(default_factory=dict)
    results: dict[str, tuple[Result, int]] = field(default_factory=dict)
    requests: dict[str, tuple[RequestRecord, int]] = field(default_factory=dict)
    events: dict[str, list[tuple[LedgerEvent, int]]] = field(default_factory=lambda: defaultdict(list))

    def take(self, kv: KV) -> None:
        match keys.kind_of(kv.key):
            case keys.STATE:
                self.states[keys.job_of(kv.key)] = msgspec.json.decode(kv.value, type=JobState)
            case keys.JOBS:
                self.specs[keys.job_of(kv.key)] = msgspec.json.decode(kv.value, type=JobSpec)
            case keys.RESULTS:
                self.results[keys.job_of(kv.key)] = (msgspec.json.decode(kv.value, type=Result), kv.version)
            case keys.REQUESTS:
                self.requests[kv.key.rsplit("/", 1)[1]] = (
                    msgspec.json.decode(kv.value, type=RequestRecord),
                    kv.version,
                )
            case keys.EVENTS:
                event = msgspec.json.decode(kv.value, type=LedgerEvent)
                self.events[event.job].append((event, kv.version))
            case _:
                pass


def read_store(url: str) -> Contents:
    """Everything in the store. An embedded one must not be in use."""
    return asyncio.run(_read_store(url))


async def _read_store(url: str) -> Contents:
    store = await open_store(url, SystemClock())
    try:
        contents = Contents()
        for kv in (await store.range(keys.ROOT)).kvs:
            contents.take(kv)
        return contents
    finally:
        await store.close()


def read_epoch(url: str) -> int:
    return asyncio.run(_read_epoch(url))


async def _read_epoch(url: str) -> int:
    store = await open_store(url, SystemClock())
    try:
        kv = await store.get(keys.EPOCH)
        assert kv is not None, "the store has no epoch"
        return epoch.decode(kv.value).epoch
    finally:
        await store.close()


def audit_commits(url: str) -> int:
    """Judges every commit since the first, where the store keeps them (etcd). Returns how many."""
    return asyncio.run(_audit_commits(url))


async def _audit_commits(url: str) -> int:
    store = await open_store(url, SystemClock())
    seen: list[Changed] = []
    try:
        last = await store.revision()
        async for item in store.watch(keys.ROOT, 1):
            assert isinstance(item, Changes), "etcd has compacted its history; the audit needs all of it"
            seen += [
                Changed(one.kv.mod_revision, one.kv.key, None if one.deleted else one.kv.value, one.kv.version)
                for one in item.changes
            ]
            if item.revision >= last:
                break
    finally:
        await store.close()
    verdict = check([Settings(t=0.0, machines=False), *commits_of(seen)])
    assert not verdict.violations, verdict.violations
    return len(seen)


# ---- promises


def judge(
    acknowledged: Sequence[Acknowledged], found: Contents, marks: Path, frozen: Container[str] = ()
) -> Counter[str]:
    """Raises on the first broken promise. Returns what the history contained, so that tests can say what they saw.

    `frozen` has "job fence" of attempts that were stopped with all that could end them: they may be seen after others
    began."""
    _nothing_acknowledged_is_lost(acknowledged, found)
    for job, state in found.states.items():
        ledger = [event for event, _ in sorted(found.events[job], key=lambda pair: pair[0].seq)]
        spec = found.specs[state.array or job]
        _everything_ended(state)
        _ledger_is_whole(state, ledger, [version for _, version in found.events[job]])
        _fences_grow(ledger)
        _budget_is_kept(spec, state, ledger)
        _one_result(state, ledger, found.results.get(job))
    _attempts_started_once_and_never_overlapped(marks, found, frozen)
    return Counter(event.kind for events in found.events.values() for event, _ in events)


def _nothing_acknowledged_is_lost(acknowledged: Sequence[Acknowledged], found: Contents) -> None:
    told: dict[str, str] = {}
    for answer in acknowledged:
        assert told.setdefault(answer.request, answer.job) == answer.job, f"request {answer.request} made two jobs"
        for job in answer.states:
            assert job in found.states, f"job {job} was acknowledged and is gone"
            # A cancel of a job that had just ended is refused, so a "yes" means cancelled.
            ends = ("CANCELLED",) if answer.cancelled else ("SUCCEEDED", "FAILED", "UNKNOWN")
            assert found.states[job].phase in ends, f"{answer}: {found.states[job]}"
        record, version = found.requests[answer.request]
        assert (record.job, version) == (answer.job, 1), f"request {answer.request}: {record}, written {version} times"
    jobs = [record.job for record, _ in found.requests.values()]
    assert len(set(jobs)) == len(jobs), "one job stands for two requests"


def _everything_ended(state: JobState) -> None:
    assert state.phase in TERMINAL, f"job {state.id} is still {state.phase}: {state.reason}"
    assert not state.lingering, f"job {state.id} is {state.phase} and still holds its place"


def _ledger_is_whole(state: JobState, ledger: Sequence[LedgerEvent], versions: Iterable[int]) -> None:
    assert [event.seq for event in ledger] == list(range(1, state.seq + 1)), f"{state.id}: holes in its ledger"
    assert set(versions) == {1}, f"{state.id}: a ledger entry was overwritten"
    ends = [event.kind for event in ledger if event.kind in ("succeeded", "failed", "cancelled", "unknown")]
    assert len(ends) == 1, f"{state.id} ended {len(ends)} times: {ends}"


def _fences_grow(ledger: Sequence[LedgerEvent]) -> None:
    grants = [parse_fence(event.fence) for event in ledger if event.kind == "bound"]
    assert all(a < b for a, b in pairwise(grants)), f"{ledger[0].job}: fences {grants}"


def _budget_is_kept(spec: JobSpec, state: JobState, ledger: Sequence[LedgerEvent]) -> None:
    grants = sum(event.kind == "bound" for event in ledger)
    assert grants == state.attempt, f"{state.id}: {grants} grants, attempt {state.attempt}"
    assert grants <= 1 + sum(state.retries.values()) + state.restarts, f"{state.id}: {grants} grants for {state}"
    for failure in FAILURE_CLASSES:
        used = state.retries.get(failure, 0)
        assert used <= limit_of(spec, failure), f"{state.id}: {used} retries of class {failure}"


def _one_result(state: JobState, ledger: Sequence[LedgerEvent], kept: tuple[Result, int] | None) -> None:
    if state.phase not in ("SUCCEEDED", "FAILED"):
        assert kept is None, f"{state.id} is {state.phase} and has a result"
        return
    assert kept is not None, f"{state.id} is {state.phase} without a result"
    result, version = kept
    assert version == 1, f"{state.id}: its result was written {version} times"
    grants = [event.fence for event in ledger if event.kind == "bound"]
    assert str(result.fence) == grants[-1], f"{state.id}: result of fence {result.fence}, granted last: {grants[-1]}"
    if state.phase == "SUCCEEDED":
        assert result.value == str(result.fence), (
            f"{state.id}: the result says {result.value}, its fence {result.fence}"
        )


def _attempts_started_once_and_never_overlapped(marks: Path, found: Contents, frozen: Container[str]) -> None:
    twice = sorted(path.name for path in marks.glob("twice.*"))
    assert not twice, f"started twice under one fence: {twice}"
    runs: dict[str, list[tuple[Fence, float, float]]] = defaultdict(list)
    for path in marks.iterdir():
        job, _, fence = path.name.partition(".")
        beats = [float(line) for line in path.read_text().split()]
        # Killed between making the mark and writing to it.
        if beats:
            runs[job].append((parse_fence(fence), beats[0], beats[-1]))
    for job, attempts in runs.items():
        granted = {parse_fence(event.fence) for event, _ in found.events[job] if event.kind == "bound"}
        attempts.sort()
        assert {fence for fence, _, _ in attempts} <= granted, f"{job} ran without a grant: {attempts}, {granted}"
        for (early, _, last_beat), (late, start, _) in pairwise(attempts):
            asleep = f"{job} {early}" in frozen
            assert last_beat <= start or asleep, f"{job}: {early} was alive at {last_beat}, {late} began at {start}"
    for job, state in found.states.items():
        if state.phase == "SUCCEEDED":
            assert str(state.fence) in {str(fence) for fence, _, _ in runs[job]}, f"{job} succeeded without a run"


def parse_fence(text: str) -> Fence:
    epoch, _, counter = text.partition(".")
    return Fence(epoch=int(epoch), counter=int(counter))


# ---- what a store tells of its changes, as commits of a history


class Changed(NamedTuple):
    """One key of one revision. `value` is None when the key was deleted."""

    revision: int
    key: str
    value: bytes | None
    version: int = 0


def commit_of(changes: Iterable[Changed], t: float, by: str = "") -> Commit:
    """All of them are of one revision."""
    rows = tuple(changes)
    writes = tuple(
        Write(row.key, None if row.value is None else row.value.decode(), 0 if row.value is None else row.version)
        for row in rows
    )
    return Commit(t=t, revision=rows[0].revision, writes=writes, by=by)


def commits_of(changes: Iterable[Changed], t: float = 0.0) -> Iterator[Commit]:
    """One commit for each run of changes with the same revision, all at one time, which a log of changes has not."""
    for _, rows in groupby(changes, key=lambda row: row.revision):
        yield commit_of(rows, t)
