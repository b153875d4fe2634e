"""Judges every commit of a store by the promises made about it, independently of the services' code."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ares.core import keys
from ares.model.event import LedgerEvent
from ares.model.node import NodeRecord
from ares.model.state import JobState, RequestRecord, Result
from ares.ports.store import KV, Change

_ENDED = {"SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN"}
_HOLDING = {"STAGING", "RUNNING"}


class Audit:
    """Raises at the commit that breaks a promise; `finish` looks at what only the whole can show."""

    def __init__(self) -> None:
        self.states: dict[str, JobState] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.events: dict[str, list[LedgerEvent]] = defaultdict(list)
        self.results: dict[str, Result] = {}
        self.requests: dict[str, str] = {}
        # Fences that were granted, per job, in order.
        self.grants: dict[str, list[str]] = defaultdict(list)
        # Whoever made the commit may swallow the complaint.
        self.broken: list[AssertionError] = []

    def take(self, changes: Sequence[Change]) -> None:
        try:
            self._take(changes)
        except AssertionError as broken:
            self.broken.append(broken)
            raise

    def _take(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.deleted:
                self.states.pop(keys.job_of(change.kv.key), None)
                continue
            judge = _JUDGES.get(keys.kind_of(change.kv.key))
            if judge is not None:
                judge(self, change.kv)
        if any(change.kv.key.startswith(keys.STATE) for change in changes):
            self._check_capacity()

    def _take_state(self, kv: KV) -> None:
        new = msgspec.json.decode(kv.value, type=JobState)
        old = self.states.get(new.id)
        self.states[new.id] = new
        if old is None:
            assert (new.phase, new.seq) == ("PENDING", 1), f"{new.id} was born as {new}"
            return
        assert new.seq > old.seq, f"{new.id}: {old.phase} -> {new.phase} without a ledger entry"
        assert new.fence >= old.fence, f"{new.id}: its fence fell from {old.fence} to {new.fence}"
        if old.phase in _ENDED:
            assert new.phase == old.phase, f"{new.id}: {old.phase} became {new.phase}"
            assert (old.lingering, new.lingering) == (True, False), f"{new.id}: changed after its end"
        if new.phase == "STAGING":
            assert old.phase == "PENDING", f"{new.id}: granted while {old.phase}"
            assert new.fence > old.fence, f"{new.id}: granted without a new fence"
            self.grants[new.id].append(str(new.fence))

    def _take_node(self, kv: KV) -> None:
        record = msgspec.json.decode(kv.value, type=NodeRecord)
        self.nodes[record.info.name] = record

    def _take_event(self, kv: KV) -> None:
        event = msgspec.json.decode(kv.value, type=LedgerEvent)
        assert kv.version == 1, f"{event.job}: ledger entry {event.seq} was overwritten"
        self.events[event.job].append(event)

    def _take_result(self, kv: KV) -> None:
        result = msgspec.json.decode(kv.value, type=Result)
        assert kv.version == 1, f"{result.job}: a second result was committed"
        self.results[result.job] = result

    def _take_request(self, kv: KV) -> None:
        record = msgspec.json.decode(kv.value, type=RequestRecord)
        assert kv.version == 1, f"{kv.key}: made {self.requests[kv.key]}, now also {record.job}"
        self.requests[kv.key] = record.job

    def _check_capacity(self) -> None:
        used: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        gpus: dict[str, list[int]] = defaultdict(list)
        for state in self.states.values():
            if state.phase in _HOLDING or state.lingering:
                for place in state.placements:
                    used[place.node][0] += place.cpu_milli
                    used[place.node][1] += place.memory_mib
                    gpus[place.node] += place.gpus
        for name, (cpu_milli, memory_mib) in used.items():
            info = self.nodes[name].info
            assert cpu_milli <= info.cpu_milli, f"{name}: {cpu_milli} of {info.cpu_milli} milli-CPUs given away"
            assert memory_mib <= info.memory_mib, f"{name}: {memory_mib} of {info.memory_mib} MiB given away"
            assert len(set(gpus[name])) == len(gpus[name]), f"{name}: one GPU given to two jobs"

    def finish(self) -> None:
        if self.broken:
            raise self.broken[0]
        for job, state in self.states.items():
            assert [e.seq for e in self.events[job]] == list(range(1, state.seq + 1)), f"{job}: holes in the ledger"
            if state.phase == "SUCCEEDED":
                assert job in self.results, f"{job}: SUCCEEDED without a result"
                assert self.results[job].fence == state.fence
            if state.phase not in ("SUCCEEDED", "FAILED"):
                assert job not in self.results, f"{job}: {state.phase} with a result"


_JUDGES = {
    keys.STATE: Audit._take_state,
    keys.NODES: Audit._take_node,
    keys.EVENTS: Audit._take_event,
    keys.RESULTS: Audit._take_result,
    keys.REQUESTS: Audit._take_request,
}
