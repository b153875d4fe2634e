"""An in-memory replica of the store, kept current by one watch.

Reads that must be linearizable call `catch_up` first. Writers decide from the view and are
protected by comparing the revision the view gave them.
"""

import asyncio
import contextlib
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
import structlog

from ares.control.state.decoded import DecodedJobs
from ares.control.state.pacing import in_parts
from ares.control.state.tables import Tables
from ares.control.state.unusable_records import UNUSABLE, Aside
from ares.core import keys
from ares.core.admit.node import usable_node
from ares.core.lifecycle.ranks import held, spec_wanted
from ares.core.lifecycle.updates import in_force
from ares.core.store_format import newer
from ares.model.isolation import Isolation
from ares.model.job import JobSpec
from ares.model.node import NodeLease, NodeRecord
from ares.model.profile import Profile, ProfileRecord
from ares.model.reservation import Reservation
from ares.model.state import TERMINAL, JobState, LeaderRecord, Placement
from ares.ports.clock import Clock, happens
from ares.ports.store import KV, Changes, Compacted, Store, StoreBroken, StoreChange, StoreError, StoreUnavailable

log = structlog.get_logger()

_RECONNECT_S = 0.2
# A replica that cannot follow the store for this long must say so rather than answer late.
_CATCH_UP_S = 5.0
_DEFAULT_PROFILE = ProfileRecord(version=0, profile=Profile())


class StateEntry(msgspec.Struct, frozen=True, gc=False):
    """A job's state with the revisions a compare-and-swap needs."""

    state: JobState
    mod_revision: int
    create_revision: int


class LeaseEntry(msgspec.Struct, frozen=True, gc=False):
    """A node's lease, when this process saw it change by the monotonic clock, and whether it did or only found it."""

    lease: NodeLease
    mod_revision: int
    seen_at: float
    heard: bool = False


@dataclass(slots=True)
class Delta:
    """What one batch of changes did to the view."""

    states: list[tuple[JobState | None, StateEntry]] = field(default_factory=list[tuple[JobState | None, StateEntry]])
    removed: list[JobState] = field(default_factory=list[JobState])
    nodes: set[str] = field(default_factory=set[str])
    leases: set[str] = field(default_factory=set[str])
    events: list[KV] = field(default_factory=list[KV])
    leader: bool = False
    profile: bool = False
    reservations: set[str] = field(default_factory=set[str])
    arrays: set[str] = field(default_factory=set[str])
    flows: set[str] = field(default_factory=set[str])
    # Kinds of records in `view.kept` that changed.
    kept: set[str] = field(default_factory=set[str])
    relisted: bool = False


Listener = Callable[[Delta], None]


class View:
    """Everything the services read. Mutated only by `_apply` and `learn`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._listeners: list[Listener] = []
        self._moved = asyncio.Event()
        self.decoded = DecodedJobs()
        self._decode_lease = msgspec.json.Decoder(NodeLease).decode
        # In the order of listing: what says that jobs are all there comes before the jobs, so that it is never newer.
        self._appliers: dict[str, Callable[[StoreChange, Delta], None]] = {
            keys.FLOWS: self._apply_flow,
            keys.ARRAYS: self._apply_array,
            keys.STATE: self._apply_state,
            keys.JOBS: self._apply_spec,
            keys.EVENTS: self._apply_event,
            keys.LEASES: self._apply_lease,
            keys.NODES: self._apply_node,
            keys.LEADER: self._apply_leader,
            keys.PROFILES: self._apply_profile,
            keys.RESERVATIONS: self._apply_reservation,
        }
        self.kept, self.aside = Tables(), Aside()
        self.tokens, self.progress, self.arrays = self.kept.tokens, self.kept.progress, self.kept.arrays
        for kind in self.kept.by_prefix:
            self._appliers.setdefault(kind, self._apply_kept)
        self.connected = False
        # When the store was last heard of, by the monotonic clock; where nodes renew it is never quiet for long.
        self.heard_at = clock.monotonic()
        self._clear()

    def _clear(self) -> None:
        self.revision = 0
        self.kept.clear()
        self.aside.records.clear()
        # The revision each kind was last listed at. What the watch repeats from before would bring back
        # revoked tokens and taken leases for a moment, and pass for a sign of life.
        self._listed: dict[str, int] = {}
        self.entries: dict[str, StateEntry] = {}
        self.specs: dict[str, bytes] = {}
        self.order: dict[str, list[tuple[int, str]]] = {}
        # Jobs that have not ended, by tenant.
        self.live: dict[str, set[str]] = {}
        # Placements of jobs on a node, in the order of their grants, so that a run can be repeated.
        self.by_node: dict[str, dict[str, tuple[Placement, ...]]] = {}
        self.by_array: dict[str, list[str]] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.leases: dict[str, LeaseEntry] = {}
        self.leader: LeaderRecord | None = None
        self.leader_revisions = (0, 0)
        # By version; the highest is in force.
        self.profiles: dict[int, ProfileRecord] = {}
        # With the revision a compare-and-swap needs.
        self.reservations: dict[str, tuple[Reservation, int]] = {}

    # ---- reading

    def spec(self, state: JobState) -> JobSpec | None:
        """What the job asks for, while it is live or holds something; of others it is read from the store."""
        raw = self.specs.get(state.array or state.id)
        least = "any" if (tenant := self.kept.tenants.get(state.tenant)) is None else tenant.isolation
        spec = None if raw is None else self.decoded.specs.get((raw, least)) or self.decoded.spec(raw, least)
        return spec if spec is None or state.update is None else in_force(spec, state)

    def decode_spec(self, raw: bytes, least: Isolation = "any") -> JobSpec:
        """Equal specifications share one decoded value. `least`: by its tenant."""
        return self.decoded.spec(raw, least)

    def lease_age_s(self, node: str) -> float | None:
        entry = self.leases.get(node)
        return None if entry is None else self._clock.monotonic() - entry.seen_at

    def subscribe(self, listener: Listener) -> None:
        """`listener` runs after each batch of changes, in the order of subscription."""
        self._listeners.append(listener)

    async def catch_up(self) -> None:
        """Returns when the view holds everything committed before the call."""
        await self.reach(await self._store.revision())

    async def reach(self, revision: int) -> None:
        deadline = self._clock.monotonic() + _CATCH_UP_S
        while self.revision < revision:
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0 or not await happens(self._moved, self._clock, left_s):
                raise StoreUnavailable(
                    f"this replica is at revision {self.revision} of the store, {revision} is needed; try again"
                )

    @property
    def profile(self) -> ProfileRecord:
        """The profile in force. Version 0 is the built-in one."""
        return self.profiles[max(self.profiles)] if self.profiles else _DEFAULT_PROFILE

    # ---- following the store

    async def open(self) -> None:
        """The first listing, however long it takes: a store with millions of jobs must not fail to start."""
        await self._relist()

    async def run(self) -> None:
        """Lists, watches, and starts over whenever the history is gone or the store was away.

        Raises StoreBroken when it will not come back, or is a newer version's now: a replica must end, not linger."""
        while True:
            try:
                if not self.connected:
                    await self._relist()
                await self._watch()
            except StoreBroken:
                self.connected = False
                raise
            except StoreError as error:
                log.warning("view.disconnected", error=str(error))
            self.connected = False
            await self._clock.sleep(_RECONNECT_S)

    async def _relist(self) -> None:
        """Lists kind by kind; the watch then starts at the oldest page and repeats what moved meanwhile."""
        listing = {kind: await self._store.range(kind) for kind in self._appliers if kind != keys.EVENTS}
        seen_before = self.leases
        oldest = min(page.revision for page in listing.values())
        # Written by this process while the pages were read: without a grant its resources would be given away twice.
        learned = [entry for entry in self.entries.values() if entry.mod_revision > oldest]
        self._clear()
        delta = Delta(relisted=True)
        for page in listing.values():
            for kv in sorted(page.kvs, key=lambda kv: kv.create_revision):
                self._apply_one(StoreChange(kv), delta)
        for entry in learned:
            self._put_state(entry.state, entry.mod_revision, entry.create_revision, delta)
        self._listed = {kind: page.revision for kind, page in listing.items()}
        self._keep_lease_ages(seen_before)
        self.revision = oldest
        self.connected = True
        self._publish(delta)

    def _keep_lease_ages(self, before: dict[str, LeaseEntry]) -> None:
        """A relist is no renewal: a lease that was not renewed keeps the age it had."""
        for node, entry in self.leases.items():
            old = before.get(node)
            if old is not None and (old.mod_revision == entry.mod_revision or _parted(old.lease, entry.lease)):
                self.leases[node] = LeaseEntry(entry.lease, entry.mod_revision, old.seen_at, old.heard)

    async def _watch(self) -> None:
        stream = self._store.watch(keys.ROOT, self.revision + 1)
        async with contextlib.aclosing(stream):  # pyright: ignore[reportArgumentType]
            async for item in stream:
                if isinstance(item, Compacted):
                    return
                async for part in in_parts(item):
                    self._apply(part)

    def _apply(self, batch: Changes) -> None:
        delta = Delta()
        for change in batch.changes:
            self._apply_one(change, delta)
        self.revision = max(self.revision, batch.revision)
        self._publish(delta)

    def _publish(self, delta: Delta) -> None:
        self.heard_at = self._clock.monotonic()
        for listener in self._listeners:
            listener(delta)
        # A new event each time: an event that is cleared again could be missed by a task that begins to wait.
        self._moved.set()
        self._moved = asyncio.Event()

    def _apply_one(self, change: StoreChange, delta: Delta) -> None:
        kind = keys.kind_of(change.kv.key)
        if kind == keys.FORMAT and not change.deleted and (why := newer(change.kv.value)):
            raise StoreBroken(why)
        applier = self._appliers.get(kind)
        if applier is None or change.kv.mod_revision <= self._listed.get(kind, 0):
            return
        if self.aside.records:
            self.aside.records.pop(change.kv.key, None)
        try:
            applier(change, delta)
        except UNUSABLE as error:
            with contextlib.suppress(*UNUSABLE):
                if (instead := self.aside.instead(kind, change, error)) is not None:
                    applier(instead, delta)

    def learn(self, written: Iterable[StateEntry]) -> None:
        """Takes in states this process just committed, ahead of the watch that will repeat them."""
        delta = Delta()
        for entry in written:
            # A job that is new here waits for the watch, which brings its specification along.
            if entry.state.id in self.entries:
                self._put_state(entry.state, entry.mod_revision, entry.create_revision, delta)
        if delta.states:
            self._publish(delta)

    def _apply_state(self, change: StoreChange, delta: Delta) -> None:
        kv, job = change.kv, keys.job_of(change.kv.key)
        if change.deleted:
            self._drop_state(job, delta)
        elif (known := self.entries.get(job)) is None or known.mod_revision < kv.mod_revision:
            self._put_state(self.decoded.state(kv.value), kv.mod_revision, kv.create_revision, delta)

    def _put_state(self, state: JobState, mod_revision: int, create_revision: int, delta: Delta) -> None:
        known = self.entries.get(state.id)
        if known is not None:
            if known.mod_revision >= mod_revision:
                return
            create_revision = known.create_revision
        else:
            insort(self.order.setdefault(state.tenant, []), (create_revision, state.id))
            if state.array is not None:
                self.by_array.setdefault(state.array, []).append(state.id)
        entry = self.entries[state.id] = StateEntry(state, mod_revision, create_revision)
        previous = None if known is None else known.state
        self._index_nodes(previous, state)
        live = self.live.setdefault(state.tenant, set())
        (live.discard if state.phase in TERMINAL else live.add)(state.id)
        if state.phase in TERMINAL and not state.lingering and state.array is None:
            self.specs.pop(state.id, None)
        delta.states.append((previous, entry))

    def _index_nodes(self, before: JobState | None, after: JobState | None) -> None:
        was = () if before is None else held(before)
        now = () if after is None else held(after)
        if was is now or was == now:
            return
        if before is not None:
            for place in was:
                self.by_node[place.node].pop(before.id, None)
        if after is not None:
            for place in now:
                on_node = self.by_node.setdefault(place.node, {})
                on_node[after.id] = (*on_node.get(after.id, ()), place)

    def _drop_state(self, job_id: str, delta: Delta) -> None:
        entry = self.entries.pop(job_id, None)
        if entry is None:
            return
        self._index_nodes(entry.state, None)
        self.live[entry.state.tenant].discard(job_id)
        order = self.order[entry.state.tenant]
        del order[bisect_left(order, (entry.create_revision, job_id))]
        if entry.state.array is not None:
            self.by_array[entry.state.array].remove(job_id)
        self.specs.pop(job_id, None)
        delta.removed.append(entry.state)

    def _apply_spec(self, change: StoreChange, delta: Delta) -> None:
        job_id = keys.job_of(change.kv.key)
        if change.deleted:
            self.specs.pop(job_id, None)
            return
        entry = self.entries.get(job_id)
        if entry is None or spec_wanted(entry.state):
            self.specs[job_id] = change.kv.value

    def _apply_event(self, change: StoreChange, delta: Delta) -> None:
        if not change.deleted:
            delta.events.append(change.kv)

    def _apply_lease(self, change: StoreChange, delta: Delta) -> None:
        node = change.kv.key.removeprefix(keys.LEASES)
        delta.leases.add(node)
        if change.deleted:
            self.leases.pop(node, None)
            return
        lease, known = self._decode_lease(change.kv.value), self.leases.get(node)
        parted = known is not None and _parted(known.lease, lease)
        seen_at, heard = (known.seen_at, known.heard) if known and parted else (self._clock.monotonic(), bool(known))
        self.leases[node] = LeaseEntry(lease, change.kv.mod_revision, seen_at, heard)

    def _apply_node(self, change: StoreChange, delta: Delta) -> None:
        name = change.kv.key.removeprefix(keys.NODES)
        delta.nodes.add(name)
        if change.deleted:
            self.nodes.pop(name, None)
            return
        self.nodes[name] = usable_node(change.kv.value)

    def _apply_kept(self, change: StoreChange, delta: Delta) -> None:
        kind = keys.kind_of(change.kv.key)
        delta.kept.add(kind)
        self.kept.by_prefix[kind].apply(change)

    def _apply_array(self, change: StoreChange, delta: Delta) -> None:
        delta.arrays.add(keys.job_of(change.kv.key))
        self._apply_kept(change, delta)

    def _apply_flow(self, change: StoreChange, delta: Delta) -> None:
        delta.flows.add(keys.job_of(change.kv.key))
        self._apply_kept(change, delta)

    def _apply_leader(self, change: StoreChange, delta: Delta) -> None:
        delta.leader = True
        if change.deleted:
            self.leader, self.leader_revisions = None, (0, 0)
            return
        self.leader = msgspec.json.decode(change.kv.value, type=LeaderRecord)
        self.leader_revisions = (change.kv.create_revision, change.kv.mod_revision)

    def _apply_profile(self, change: StoreChange, delta: Delta) -> None:
        version = int(change.kv.key.removeprefix(keys.PROFILES))
        delta.profile = True
        if change.deleted:
            self.profiles.pop(version, None)
            return
        self.profiles[version] = msgspec.json.decode(change.kv.value, type=ProfileRecord)

    def _apply_reservation(self, change: StoreChange, delta: Delta) -> None:
        name = change.kv.key.removeprefix(keys.RESERVATIONS)
        delta.reservations.add(name)
        if change.deleted:
            self.reservations.pop(name, None)
            return
        self.reservations[name] = msgspec.json.decode(change.kv.value, type=Reservation), change.kv.mod_revision


def _parted(before: NodeLease, after: NodeLease) -> bool:
    """Whether the record only says that the node's stream ended, which is no sign of life."""
    return not after.replica and after.renewed_at == before.renewed_at
