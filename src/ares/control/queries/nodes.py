"""Nodes, clusters and leases as people see them."""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec.structs import replace

from ares.api.nodes import ClusterView, LeaseView, NodeView
from ares.control.scheduler.monitor import lease_of, ready
from ares.control.state.leader import leads_for_s
from ares.control.state.pacing import LOOKED_AT, breathe
from ares.control.state.records import Records, same
from ares.control.state.view import View
from ares.core import keys
from ares.core.admit.node import salvaged_node
from ares.core.lifecycle.ranks import holds
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.node import NodeRecord, RemovedNode, Taint
from ares.model.state import BOUND, JobState, Phase
from ares.ports.clock import Clock
from ares.ports.store import Compare, Delete, Put, Store

LOCAL_CLUSTER = "local"


class Nodes:
    """Everything here is derived from the view at the moment of the call."""

    def __init__(self, store: Store, view: View, clock: Clock) -> None:
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._clock = clock

    async def nodes(self, who: Principal) -> tuple[NodeView, ...]:
        await self._view.catch_up()
        return tuple(self._node(name, record) for name, record in sorted(self._view.nodes.items()))

    def _node(self, name: str, record: NodeRecord) -> NodeView:
        jobs = self._view.by_node.get(name, {})
        held = [place for places in jobs.values() for place in places]
        age, there = self._view.lease_age_s(name), ready(self._view, name)
        # Whole ones: several jobs may have a share of the same GPU.
        gpus_free = len(record.info.gpus) - len({gpu for p in held for gpu in p.gpus})
        return NodeView(
            name=name,
            info=record.info,
            incarnation=record.incarnation,
            ready=there,
            cordoned=record.cordoned,
            taints=record.taints,
            drained_by=record.drained_by,
            lease_age_s=age,
            running=len(jobs),
            cpu_milli_free=record.info.cpu_milli - sum(p.cpu_milli for p in held) if there else 0,
            memory_mib_free=record.info.memory_mib - sum(p.memory_mib for p in held) if there else 0,
            gpus_free=gpus_free if there else 0,
        )

    async def clusters(self, who: Principal) -> tuple[ClusterView, ...]:
        nodes = await self.nodes(who)
        leader = self._view.leader
        return (
            ClusterView(
                id=LOCAL_CLUSTER,
                nodes=len(nodes),
                ready_nodes=sum(node.ready for node in nodes),
                gpus=sum(len(node.info.gpus) for node in nodes),
                gpus_free=sum(node.gpus_free for node in nodes),
                pending=await self._count("PENDING"),
                running=sum(node.running for node in nodes),
                leader="" if leader is None else leader.replica,
                leader_age_s=leads_for_s(self._view, self._clock),
                revision=self._view.revision,
                store_age_s=self._clock.monotonic() - self._view.heard_at,
            ),
        )

    async def _count(self, phase: Phase) -> int:
        """Of jobs that have not ended."""
        found = 0
        for live in tuple(self._view.live.values()):
            jobs = tuple(live)
            for first in range(0, len(jobs), LOOKED_AT):
                entries = (self._view.entries.get(job) for job in jobs[first : first + LOOKED_AT])
                found += sum(1 for entry in entries if entry is not None and entry.state.phase == phase)
                await breathe()
        return found

    async def leases(self, who: Principal, job_id: str | None = None) -> tuple[LeaseView, ...]:
        """The leases on the tenant's jobs, or on one of them."""
        await self._view.catch_up()
        jobs = [job_id] if job_id else sorted({job for held in self._view.by_node.values() for job in held})
        entries = [self._view.entries[job] for job in jobs if job in self._view.entries]
        mine = [e.state for e in entries if e.state.tenant == who.tenant and holds(e.state) and e.state.placements]
        return tuple(self._lease(state) for state in mine)

    def _lease(self, state: JobState) -> LeaseView:
        node = state.placements[0].node
        entry, age = self._view.leases.get(node), self._view.lease_age_s(node)
        live = state.phase in BOUND and entry is not None
        lease_s = 0.0 if entry is None else lease_of(self._view.spec(state), entry.lease)
        return LeaseView(
            job=state.id,
            name=state.name,
            attempt=state.attempt,
            fence=str(state.fence),
            node=node,
            phase=state.phase,
            held_s=max(0.0, self._clock.wall() - (state.bound_at or self._clock.wall())),
            expires_in_s=max(0.0, lease_s - (age or 0.0)) if live else None,
        )

    async def cordon(self, who: Principal, name: str, on: bool) -> NodeView | None:
        """Keeps new work off a node, or lets it back. Running work is not touched."""
        if not on:
            # Work let back onto a node that is still drained would be moved away at once.
            return await self.undrain(who, name)
        return await self._change(name, lambda record: replace(record, cordoned=True))

    async def drain(self, who: Principal, name: str, reason: str = "") -> NodeView | None:
        """Keeps new work off a node and has what runs there moved away."""
        by, jobs = who.author, len(self._view.by_node.get(name, {}))
        return await self._change(
            name,
            lambda record: replace(
                record,
                cordoned=True,
                drained_by=by,
                drain_reason=reason,
                # Asking again does not start the count anew.
                drain_jobs=record.drain_jobs if record.drained_by else jobs,
            ),
        )

    async def undrain(self, who: Principal, name: str) -> NodeView | None:
        """Lets work back. What was moved away stays where it is."""
        return await self._change(
            name, lambda record: replace(record, cordoned=False, drained_by="", drain_reason="", drain_jobs=0)
        )

    async def taint(self, who: Principal, name: str, taint: Taint) -> NodeView | None:
        """Adds a taint to those of the agent, or replaces the one with its key and effect."""
        return await self._change(
            name, lambda record: replace(record, taints=(*_others(record, taint.key, taint.effect), taint))
        )

    async def untaint(self, who: Principal, name: str, key: str) -> NodeView | None:
        """Takes away what operators set under the key; what the agent declares stays."""
        return await self._change(name, lambda record: replace(record, taints=_others(record, key)))

    async def remove(self, who: Principal, name: str) -> NodeView | Refusal | None:
        """Forgets a node that is gone for good; the answer is what it last was. None when there is none."""
        last: NodeView | None = None

        async def attempt() -> NodeView | Refusal | Literal[False] | None:
            nonlocal last
            await self._view.catch_up()
            kv = await self._store.get(keys.node(name))
            if kv is None:
                # An earlier try of this very call may have landed.
                return last or False
            if (refusal := self._in_use(name)) is not None:
                return refusal
            record = salvaged_node(kv.value, name, kv.mod_revision)
            lease = self._view.leases.get(name)
            tombstone = RemovedNode(
                incarnation=record.incarnation,
                boot=record.boot,
                removed_at=self._clock.wall(),
                removed_by=who.author,
            )
            # A sign of life that lands first wins.
            silent = Compare(keys.lease(name), "mod_revision", 0 if lease is None else lease.mod_revision)
            buried = Put(keys.removed_node(name), msgspec.json.encode(tombstone))
            last = self._node(name, record)
            written = await self._records.write([same(kv), silent], [Delete(kv.key), Delete(keys.lease(name)), buried])
            return last if written else None

        return await self._records.settle(f"that node {name} is removed", attempt, seen=False) or None

    def _in_use(self, name: str) -> Refusal | None:
        entry, age = self._view.leases.get(name), self._view.lease_age_s(name)
        if entry is not None and age is not None and age < entry.lease.dead_after_s:
            return Refusal(
                code="node-in-use",
                message=f"the agent of node {name} was heard of {age:.0f} s ago",
                fix=f"Stop the agent there, and try again {entry.lease.dead_after_s:.0f} s later.",
            )
        if held := len(self._view.by_node.get(name, {})):
            return Refusal(
                code="node-in-use",
                message=f"{held} job{' still holds' if held == 1 else 's still hold'} something on node {name}",
                fix=f"They lose it when their leases are over: try again then. `ares list --node {name}` has them.",
            )
        return None

    async def _change(self, name: str, change: Callable[[NodeRecord], NodeRecord]) -> NodeView | None:
        async def attempt() -> NodeView | Literal[False] | None:
            kv = await self._store.get(keys.node(name))
            if kv is None:
                return False
            record = change(salvaged_node(kv.value, name, kv.mod_revision))
            written = await self._records.write([same(kv)], [Put(kv.key, msgspec.json.encode(record))])
            return self._node(name, record) if written else None

        return await self._records.settle(f"the change of node {name}", attempt, seen=False) or None


def _others(record: NodeRecord, key: str, effect: str | None = None) -> tuple[Taint, ...]:
    return tuple(taint for taint in record.taints if taint.key != key or effect not in (None, taint.effect))
