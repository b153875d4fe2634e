"""Registration of nodes under a growing incarnation, and the lease record that leader and agent go by."""

from typing import Literal

import msgspec
import structlog
from msgspec.structs import replace

from ares.core import keys
from ares.core.admit.node import node_flaw, salvaged_node
from ares.model.link import Hello
from ares.model.node import NodeLease, NodeRecord, RemovedNode
from ares.model.timing import DEFAULT, Timing
from ares.model.uplink import UplinkRecord
from ares.ports.clock import Clock
from ares.ports.store import KV, Committed, Compare, Delete, Put, Store, StoreUnavailable

log = structlog.get_logger()

_TRIES = 10


class SessionRefused(Exception):
    """The agent may not open this session; the message says why and what to do."""

    def __init__(self, why: str, reason: Literal["", "not_granted", "duplicate", "malformed"] = "") -> None:
        super().__init__(why)
        # The reason in the audit log. Empty when the refusal needs no entry there.
        self.reason = reason


class Enrolled(msgspec.Struct, frozen=True, gc=False):
    node: str
    incarnation: int
    lease_revision: int
    dead_after_s: float = DEFAULT.dead_after_s


class Enrolment:
    """Writes `/nodes` and `/leases`. `replica` names this process in the lease."""

    def __init__(self, store: Store, clock: Clock, replica: str, timing: Timing = DEFAULT) -> None:
        self._store = store
        self._clock = clock
        self._replica = replica
        self._dead_after_s = timing.dead_after_s

    async def enrol(self, hello: Hello) -> Enrolled:
        """A process that just started gets a new incarnation; a reconnecting one keeps its own."""
        if flaw := node_flaw(hello.info):
            raise SessionRefused(f"node {hello.info.name} cannot be used: {flaw}", "malformed")
        if not hello.info.region and (region := await self._region()):
            hello = replace(hello, info=replace(hello.info, region=region))
        for _ in range(_TRIES):
            node_kv = await self._store.get(keys.node(hello.info.name))
            lease_kv = await self._store.get(keys.lease(hello.info.name))
            removed_kv = None if node_kv is not None else await self._store.get(keys.removed_node(hello.info.name))
            enrolled = await self._try(hello, node_kv, lease_kv, removed_kv)
            if enrolled is not None:
                return enrolled
        raise StoreUnavailable(f"could not register node {hello.info.name}: the store kept changing; try again")

    async def _region(self) -> str:
        """Where this cluster is, as it joined its global plane: a node that does not say otherwise is there too."""
        kv = await self._store.get(keys.UPLINK)
        return "" if kv is None else msgspec.json.decode(kv.value, type=UplinkRecord).region

    async def _try(
        self, hello: Hello, node_kv: KV | None, lease_kv: KV | None, removed_kv: KV | None
    ) -> Enrolled | None:
        name = hello.info.name
        record = None if node_kv is None else salvaged_node(node_kv.value, name, node_kv.mod_revision)
        removed = None if removed_kv is None else msgspec.json.decode(removed_kv.value, type=RemovedNode)
        incarnation = _incarnation(hello, record, removed)
        # Settings by operators, such as a cordon, are kept.
        fresh = replace(
            record or NodeRecord(info=hello.info, incarnation=incarnation, registered_at=0.0),
            info=hello.info,
            incarnation=incarnation,
            registered_at=self._clock.wall(),
            boot=hello.boot,
            # An agent that starts anew says again what it has.
            cached=record.cached if record is not None and record.incarnation == incarnation else (),
        )
        lease = self._lease(hello.info.name, incarnation, self._promised(incarnation, lease_kv))
        node, leased, tombstone = (of(hello.info.name) for of in (keys.node, keys.lease, keys.removed_node))
        compares = [_unchanged(node, node_kv), _unchanged(leased, lease_kv)]
        writes: list[Put | Delete] = [Put(node, msgspec.json.encode(fresh)), Put(leased, msgspec.json.encode(lease))]
        if record is None:
            compares.append(_unchanged(tombstone, removed_kv))
            # From now on the new record has the incarnation.
            writes.append(Delete(tombstone))
        written = await self._store.txn(compares, writes)
        if isinstance(written, Committed) and written.succeeded:
            return Enrolled(hello.info.name, incarnation, written.revision, lease.dead_after_s)
        return None

    def _promised(self, incarnation: int, lease_kv: KV | None) -> float:
        """Attempts there may trust a longer lease than this replica gives now: the agent keeps the longer one."""
        held = None if lease_kv is None else msgspec.json.decode(lease_kv.value, type=NodeLease)
        kept = held is not None and held.incarnation == incarnation
        return max(self._dead_after_s, held.dead_after_s if held is not None and kept else 0.0)

    def _lease(self, node: str, incarnation: int, dead_after_s: float, *, leaving: bool = False) -> NodeLease:
        return NodeLease(
            node=node,
            incarnation=incarnation,
            renewed_at=self._clock.wall(),
            replica="" if leaving else self._replica,
            dead_after_s=dead_after_s,
        )

    async def part(self, node: str, incarnation: int) -> None:
        """The node has no stream any more: nothing new is placed on it. Its attempts keep their lease."""
        kv = await self._store.get(keys.lease(node))
        held = None if kv is None else msgspec.json.decode(kv.value, type=NodeLease)
        if held is not None and (held.incarnation, held.replica) == (incarnation, self._replica):
            parted = msgspec.structs.replace(held, replica="")
            await self._store.txn(
                [_unchanged(keys.lease(node), kv)], [Put(keys.lease(node), msgspec.json.encode(parted))]
            )

    async def note_cached(self, node: str, incarnation: int, cached: tuple[str, ...]) -> None:
        """Which datasets the node has. A record that another writer changes meanwhile is left to the next message."""
        kv = await self._store.get(keys.node(node))
        record = None if kv is None else salvaged_node(kv.value, node, kv.mod_revision)
        if record is not None and record.incarnation == incarnation and record.cached != cached:
            fresh = replace(record, cached=cached)
            await self._store.txn([_unchanged(keys.node(node), kv)], [Put(keys.node(node), msgspec.json.encode(fresh))])

    async def renew(self, held: Enrolled, lease_revision: int, *, leaving: bool = False) -> int | None:
        """The lease's new revision once durable; None when this session no longer owns the lease."""
        node, incarnation, lasts_s = held.node, held.incarnation, held.dead_after_s
        for _ in range(_TRIES):
            lease = self._lease(node, incarnation, lasts_s, leaving=leaving)
            written = await self._store.txn(
                [Compare(keys.lease(node), "mod_revision", lease_revision)],
                [Put(keys.lease(node), msgspec.json.encode(lease))],
            )
            if isinstance(written, Committed) and written.succeeded:
                return written.revision
            kv = await self._store.get(keys.lease(node))
            found = None if kv is None else msgspec.json.decode(kv.value, type=NodeLease)
            if kv is None or found is None:
                return None
            if found.incarnation != incarnation or found.replica not in (self._replica, ""):
                return None
            # A lease that another replica made longer is not made shorter: the agent may trust it.
            lease_revision, lasts_s = kv.mod_revision, max(lasts_s, found.dead_after_s)
        return None


def _incarnation(hello: Hello, record: NodeRecord | None, removed: RemovedNode | None) -> int:
    """The incarnation that the agent is registered with. Raises SessionRefused when it may not register."""
    last = record or removed
    known, booted = (0, 0) if last is None else (last.incarnation, last.boot)
    if record is None and removed is not None and hello.incarnation:
        raise SessionRefused(f"node {hello.info.name} was removed; stop everything and register anew")
    if hello.incarnation not in (0, known):
        raise SessionRefused(
            f"incarnation {hello.incarnation} of node {hello.info.name} was superseded by {known}; "
            "stop everything and register anew"
        )
    if hello.boot < booted:
        raise SessionRefused(
            f"a later agent of node {hello.info.name} has registered (boot {booted}, this is {hello.boot}); "
            "end this one",
            "duplicate",
        )
    # The same process whose welcome was lost asks again: it keeps its incarnation and its attempts.
    same = record is not None and (0 < hello.incarnation == known or 0 < hello.boot == booted)
    return known if same else known + 1


def _unchanged(key: str, kv: KV | None) -> Compare:
    return Compare(key, "mod_revision", 0 if kv is None else kv.mod_revision)
