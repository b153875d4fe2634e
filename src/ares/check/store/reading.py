"""Goes through a store job by job. Of a job's kinds of records each is read in order, and all at once, so that
memory does not grow with the store."""

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from ares.check.store import kinds
from ares.check.store.findings import Findings
from ares.check.store.kinds import RecordKind, Whose
from ares.model.job import JobSpec
from ares.model.state import ArrayRecord, JobState, LedgerEvent, Result, RetryBudget
from ares.ports.store import KV, Snapshot

T = TypeVar("T")


class StoredRecord(msgspec.Struct, frozen=True, gc=False):
    """A record and what the store says about how it was written."""

    record: Any
    created: int
    changed: int
    version: int


class JobRecords(msgspec.Struct):
    """All there is of one job, or of an array as a whole. None: it is not there, or cannot be read."""

    tenant: str
    id: str
    spec: StoredRecord | None = None
    state: StoredRecord | None = None
    result: StoredRecord | None = None
    array: StoredRecord | None = None
    retries: StoredRecord | None = None
    progress: StoredRecord | None = None
    events: list[StoredRecord] = []
    # How many of its records cannot be read: nothing that needs them is judged.
    unread: int = 0

    @property
    def the_spec(self) -> JobSpec | None:
        return None if self.spec is None else self.spec.record

    @property
    def the_state(self) -> JobState | None:
        return None if self.state is None else self.state.record

    @property
    def the_result(self) -> Result | None:
        return None if self.result is None else self.result.record

    @property
    def the_array(self) -> ArrayRecord | None:
        return None if self.array is None else self.array.record

    @property
    def the_retries(self) -> RetryBudget | None:
        return None if self.retries is None else self.retries.record

    @property
    def ledger(self) -> list[LedgerEvent]:
        return [kept.record for kept in self.events]


_FIELDS = {
    kinds.SPECS: "spec",
    kinds.STATES: "state",
    kinds.RESULTS: "result",
    kinds.ARRAYS: "array",
    kinds.RETRIES: "retries",
    kinds.PROGRESS: "progress",
}


class Reader:
    """Decodes every record it comes across, and says which could not be. `tick` is told of each."""

    def __init__(self, snapshot: Snapshot, findings: Findings, tick: Callable[[], None]) -> None:
        self.snapshot = snapshot
        self._findings = findings
        self._tick = tick
        self._decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}

    def one(self, kind: RecordKind, kv: KV) -> StoredRecord | None:
        """None when it is not what its key says."""
        self._findings.looked("records")
        self._tick()
        decoder = self._decoders.get(kind.record)
        if decoder is None:
            decoder = self._decoders[kind.record] = msgspec.json.Decoder(kind.record)
        try:
            record = kv.value if kind.record is bytes else decoder.decode(kv.value)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._findings.wrong("records", f"{kv.key} cannot be read: {error}")
            return None
        if not kind.names(kv.key[len(kind.prefix) :], record):
            self._findings.wrong("records", f"{kv.key} holds the record of something else: {_shown(kv.value)}")
            return None
        return StoredRecord(record, kv.create_revision, kv.mod_revision, kv.version)

    def all(self, kind: RecordKind, scope: str = "") -> Iterator[tuple[str, StoredRecord]]:
        """What can be read of a kind, with the rest of its key."""
        for kv in self.snapshot.rows(f"{kind.prefix}{scope}"):
            kept = self.one(kind, kv)
            if kept is not None:
                yield kv.key[len(kind.prefix) :], kept

    def jobs(self, scope: str = "") -> Iterator[JobRecords]:
        """Every job under `scope`, such as "TENANT/", an array ahead of its tasks."""
        streams = [self._placed(kind, scope) for kind in kinds.PER_JOB]
        for place, rows in groupby(merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
            yield self._job(place, ((kind, kv) for _, kind, kv in rows))

    def job(self, tenant: str, job: str) -> JobRecords:
        """One job, by its keys alone."""
        place = f"{tenant}/{kinds.turned(job)}"
        found = [(kind, self.snapshot.get(f"{kind.prefix}{place}")) for kind in _FIELDS]
        rows = [(kind, kv) for kind, kv in found if kv is not None]
        rows += [(kinds.EVENTS, kv) for kv in self.snapshot.rows(f"{kinds.EVENTS.prefix}{place}/")]
        return self._job(f"{place}/", iter(rows))

    def _placed(self, kind: RecordKind, scope: str) -> Iterator[tuple[str, RecordKind, KV]]:
        start = len(kind.prefix)
        for kv in self.snapshot.rows(f"{kind.prefix}{scope}"):
            tail = kv.key[start:]
            # A ledger entry lies where its job does; the slash keeps the order of all kinds the same.
            yield (tail[: tail.rfind("/") + 1] if kind is kinds.EVENTS else f"{tail}/"), kind, kv

    def _job(self, place: str, rows: Iterator[tuple[RecordKind, KV]]) -> JobRecords:
        whose = kinds.of_job(place.rstrip("/")) or Whose("", place)
        found = JobRecords(tenant=whose.tenant, id=whose.job)
        for kind, kv in rows:
            kept = self.one(kind, kv)
            if kept is None:
                found.unread += 1
            elif kind is kinds.EVENTS:
                found.events.append(kept)
            else:
                setattr(found, _FIELDS[kind], kept)
        return found


def _shown(value: bytes) -> str:
    text = value.decode(errors="replace")
    return text if len(text) <= 160 else f"{text[:157]}..."
