"""Judges every commit of a store by the promises made about it, independently of the services' code."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

import msgspec

from ares.check.federation.kept_routes import unlike_its_score
from ares.core import keys
from ares.model.node import NodeRecord
from ares.model.state import JobState, LedgerEvent, Placement, RequestRecord, Result
from ares.ports.store import KV, StoreChange

_ENDED = {"SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN", "SKIPPED"}
_HOLDING = {"STAGING", "RUNNING"}
# Entries that say of ranks, or of the whole attempt, that their processes are gone.
_SEEN_ENDING = {
    "rank-exited", "released", "requeued", "lease-lost", "resized", "succeeded", "restarted", "failed", "retrying",
}  # fmt: skip

# Rules by which one job leaves for another.
_FOR_ANOTHER = {"priority", "reclaim"}


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
        # Ranks that were granted and of whose end the ledger says nothing yet, by job.
        self.alive: dict[str, dict[int, Placement]] = defaultdict(dict)
        # Every rank number of each job's latest attempt.
        self._numbers: dict[str, set[int]] = defaultdict(set)
        # Whoever made the commit may swallow the complaint.
        self.broken: list[AssertionError] = []

    def take(self, changes: Sequence[StoreChange]) -> None:
        try:
            # A watch may bring several commits at once; the ledger is read before the record only within one.
            for _, commit in groupby(changes, key=lambda change: change.kv.mod_revision):
                self._take(list(commit))
        except AssertionError as broken:
            self.broken.append(broken)
            raise

    def _take(self, changes: Sequence[StoreChange]) -> None:
        for change in sorted(changes, key=lambda change: change.kv.key.startswith(keys.STATE)):
            if change.deleted:
                if change.kv.key.startswith(keys.STATE):
                    self.states.pop(job := keys.job_of(change.kv.key), None)
                    # A job that a cluster gave up and is given again begins another ledger there.
                    self.events.pop(job, None)
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
            if new.owner is not None:
                # A job of another cluster: it is as far as it has come there.
                return
            assert new.phase in ("PENDING", "WAITING"), f"{new.id} was born as {new}"
            assert new.seq == 1, f"{new.id} was born as {new}"
            return
        assert new.seq > old.seq, f"{new.id}: {old.phase} -> {new.phase} without a ledger entry"
        assert new.fence >= old.fence, f"{new.id}: its fence fell from {old.fence} to {new.fence}"
        if old.phase in _ENDED:
            assert new.phase == old.phase, f"{new.id}: {old.phase} became {new.phase}"
            assert old.lingering, f"{new.id}: changed after its end"
        if new.owner is not None and new.owner.stage == "CONFIRMED":
            # Its attempts are another cluster's, whose own auditor judges them.
            return
        if new.phase == "STAGING" and old.fence != new.fence:
            assert old.phase == "PENDING", f"{new.id}: granted while {old.phase}"
            assert new.fence > old.fence, f"{new.id}: granted without a new fence"
            assert not self.alive[new.id], f"{new.id}: granted while {self.alive[new.id]} may be alive"
            self.grants[new.id].append(str(new.fence))
            self._numbers[new.id] = set()
        self._take_ranks(new)
        self._take_hold(old, new)

    def _take_hold(self, old: JobState, new: JobState) -> None:
        """Room is kept only for who waits, and nobody leaves for a job that does not wait for it."""
        waits = new.phase in ("PENDING", "PREEMPTED")
        assert waits or not (new.hold or new.evicting), f"{new.id}: {new.phase}, and room is kept for it"
        if new.phase != "PREEMPTED" or old.phase == "PREEMPTED":
            return
        (told,) = [event for event in self.events[new.id][old.seq :] if event.kind == "preempted"]
        if told.data.get("rule") in _FOR_ANOTHER:
            waiting = [one.id for one in self.states.values() if one.phase == "PENDING" and new.id in one.evicting]
            assert waiting, f"{new.id} leaves, and nobody waits for its place"

    def _take_ranks(self, state: JobState) -> None:
        """Ranks that are new, and whether the record agrees with the ledger about those that may be alive."""
        alive, numbers = self.alive[state.id], self._numbers[state.id]
        if state.phase in _HOLDING:
            for place in state.placements:
                if place.rank not in alive and place.rank not in state.ended_ranks:
                    assert place.rank not in numbers, f"{state.id}: rank {place.rank} was given a second time"
                    numbers.add(place.rank)
                    alive[place.rank] = place
        held = (*state.placements, *state.leaving) if state.phase in _HOLDING or state.lingering else ()
        found = {place.rank: place for place in held if place.rank not in state.ended_ranks}
        assert found == alive, f"{state.id}: holds {found} as {state.phase}, by its ledger {alive} may be alive"

    def _take_end(self, event: LedgerEvent) -> None:
        """What an entry says is gone. Nothing else is: a rank that nobody saw end may still write."""
        alive, data = self.alive[event.job], event.data
        if event.kind in _SEEN_ENDING and (event.kind not in ("failed", "retrying") or event.by.startswith("agent")):
            named = [data["rank"]] if "rank" in data else data.get("ranks", list(alive))
            named = [one["rank"] for one in data.get("lost", ())] if event.kind == "resized" else named
            for rank in named:
                alive.pop(rank, None)

    def _take_node(self, kv: KV) -> None:
        record = msgspec.json.decode(kv.value, type=NodeRecord)
        self.nodes[record.info.name] = record

    def _take_event(self, kv: KV) -> None:
        event = msgspec.json.decode(kv.value, type=LedgerEvent)
        assert kv.version == 1, f"{event.job}: ledger entry {event.seq} was overwritten"
        self.events[event.job].append(event)
        self._take_end(event)
        assert not (wrong := unlike_its_score(event)), f"{event.job}: F14: {wrong}"

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
        shares: dict[tuple[str, object], int] = defaultdict(int)
        for place in (place for ranks in self.alive.values() for place in ranks.values()):
            used[place.node][0] += place.cpu_milli
            used[place.node][1] += place.memory_mib
            for gpu in place.gpus:
                shares[place.node, gpu] += place.gpu_milli
            for device in (one for ids in place.devices.values() for one in ids):
                shares[place.node, device] += 1000
        for name, (cpu_milli, memory_mib) in used.items():
            info = self.nodes[name].info
            assert cpu_milli <= info.cpu_milli, f"{name}: {cpu_milli} of {info.cpu_milli} milli-CPUs given away"
            assert memory_mib <= info.memory_mib, f"{name}: {memory_mib} of {info.memory_mib} MiB given away"
        over = {device: share for device, share in shares.items() if share > 1000}
        assert not over, f"devices given away more than whole: {over}"

    def finish(self) -> None:
        if self.broken:
            raise self.broken[0]
        for job, state in self.states.items():
            assert [e.seq for e in self.events[job]] == list(range(1, state.seq + 1)), f"{job}: holes in the ledger"
            if state.phase == "SUCCEEDED":
                assert job in self.results, f"{job}: SUCCEEDED without a result"
                # What a cluster of a federation grants is not in this ledger.
                assert state.owner is not None or str(self.results[job].fence) == self.grants[job][-1]
            if state.phase not in ("SUCCEEDED", "FAILED"):
                assert job not in self.results, f"{job}: {state.phase} with a result"


_JUDGES = {
    keys.STATE: Audit._take_state,
    keys.NODES: Audit._take_node,
    keys.EVENTS: Audit._take_event,
    keys.RESULTS: Audit._take_result,
    keys.REQUESTS: Audit._take_request,
}
