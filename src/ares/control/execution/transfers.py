"""Bulk bytes of all nodes: what agents say of them, and tenants' rates dealt out to them.

Every replica leases to the agents that are connected to it, by what all replicas write down: there is no hand-over when
one of them goes. A platform on which no tenant has a rate sends nothing and writes nothing for it.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import structlog

from ares.control.execution.session import AgentSession
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.transfer.leases import LEASE_EVERY_S, LEASE_S, floor, leased
from ares.model.link import TransferRates
from ares.model.quota import BreakerState, NodeMoves, TenantMoves, TransferRecord
from ares.ports.clock import Clock
from ares.ports.store import Delete, Put, Store, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

MB: Final = 1_000_000
_WEIGHT_MAX: Final = 100
_QUIET: Final = NodeMoves()
# Of one node: all nodes of a replica share a record.
_NOTED_MAX: Final = 50
# How often replicas tell each other what moves where no tenant's rate depends on it.
UNRATED_EVERY_S: Final = 10.0


class NodeFlow(NamedTuple):
    """Of one tenant and kind on one node."""

    node: str
    flow: TenantMoves


class NodeBreaker(NamedTuple):
    node: str
    breaker: BreakerState


class TransferBoard:
    """What moves on nodes now. `store`: where replicas write it down for each other, None where there is one only."""

    def __init__(self, view: View, clock: Clock, telemetry: Telemetry, store: Store | None, replica: str) -> None:
        self._view = view
        self._clock = clock
        self._telemetry = telemetry
        self._store = store
        self._replica = replica
        # Of agents connected here: what they said last, and when.
        self._nodes: dict[str, tuple[NodeMoves, float]] = {}
        # Of other replicas' records: the revision that was seen last, and when.
        self._seen: dict[str, tuple[int, float]] = {}
        self._written = False
        # What was last written beside the bytes that moved, and when.
        self._told: tuple[object, float] = ((), 0.0)

    def note(self, session: AgentSession, moves: NodeMoves) -> None:
        """What an agent says. It speaks for tenants and jobs that are on its node, and for no others."""
        jobs = self._view.by_node.get(session.node, {})
        tenants = {self._view.entries[job].state.tenant for job in jobs}
        heard = NodeMoves(
            flows=tuple({(flow.tenant, flow.kind): flow for flow in moves.flows if flow.tenant in tenants}.values()),
            breakers=tuple(breaker for breaker in moves.breakers if breaker.tenant in tenants)[:_NOTED_MAX],
            paused=dict(islice(((job, away) for job, away in moves.paused.items() if job in jobs), _NOTED_MAX)),
        )
        if heard == _QUIET:
            self._nodes.pop(session.node, None)
        else:
            self._nodes[session.node] = (heard, self._clock.monotonic())

    @property
    def quiet(self) -> bool:
        """Nothing moves on nodes that are connected here, and no replica has written otherwise."""
        return not self._nodes and not self._written

    def own(self) -> dict[str, NodeMoves]:
        now = self._clock.monotonic()
        self._nodes = {node: said for node, said in self._nodes.items() if now - said[1] < LEASE_S}
        return {node: moves for node, (moves, _) in self._nodes.items()}

    def elsewhere(self) -> dict[str, NodeMoves]:
        """Nodes that are connected to other replicas."""
        now, table, found = self._clock.monotonic(), self._view.kept.transfers, dict[str, NodeMoves]()
        for name, record in table.items():
            revision = table.revisions[name]
            if name == self._replica:
                continue
            if self._seen.get(name, (0, 0.0))[0] != revision:
                self._seen[name] = (revision, now)
            if now - self._seen[name][1] < LEASE_S * record.every_s:
                found.update(record.nodes)
        return found

    def flows(self) -> Iterator[NodeFlow]:
        for node, moves in sorted({**self.elsewhere(), **self.own()}.items()):
            for flow in moves.flows:
                yield NodeFlow(node, flow)

    def rate(self, tenant: str) -> int:
        """Bytes per second that the tenant moves on all nodes together."""
        return sum(flow.moved for _, flow in self.flows() if flow.tenant == tenant)

    def breakers(self) -> Iterator[NodeBreaker]:
        for node, moves in sorted({**self.elsewhere(), **self.own()}.items()):
            for breaker in moves.breakers:
                yield NodeBreaker(node, breaker)

    def waits_for(self, job: str) -> str:
        """The endpoint that a job waits for; empty when it waits for none."""
        if not self._nodes and not self._view.kept.transfers:
            return ""
        return self.paused().get(job, "")

    def paused(self) -> dict[str, str]:
        """Endpoints that jobs wait for, by job."""
        return {
            job: endpoint
            for moves in (*self.elsewhere().values(), *self.own().values())
            for job, endpoint in moves.paused.items()
        }

    async def write(self, *, rated: bool) -> None:
        """For the other replicas. Where no rate depends on it, only what people look at is told: rarely, or when
        another endpoint is left alone."""
        nodes = self.own()
        self._gauge(nodes.values())
        if self._store is None or not (nodes or self._written):
            return
        every_s = LEASE_EVERY_S if rated else UNRATED_EVERY_S
        now, waits = self._clock.monotonic(), [(name, moves.breakers, moves.paused) for name, moves in nodes.items()]
        if self._written and nodes and not rated and self._told[0] == waits and now - self._told[1] < every_s:
            return
        self._told = (waits, now)
        record = TransferRecord(replica=self._replica, nodes=nodes, every_s=every_s)
        key = keys.transfer(self._replica)
        change = Put(key, msgspec.json.encode(record)) if nodes else Delete(key)
        try:
            await self._store.txn([], [change])
            self._written = bool(nodes)
        except StoreError as error:
            log.warning("transfers.delayed", error=str(error))

    def _gauge(self, nodes: Iterable[NodeMoves]) -> None:
        nodes = tuple(nodes)
        waiting = sum(flow.waiting for moves in nodes for flow in moves.flows)
        self._telemetry.gauge("ares_transfer_waiting_bytes", waiting)
        self._telemetry.gauge("ares_transfer_breakers_open", sum(len(moves.breakers) for moves in nodes))
        self._telemetry.gauge("ares_transfer_jobs_paused", sum(len(moves.paused) for moves in nodes))


class RateLeases:
    """Deals tenants' rates out to the agents that are connected here."""

    def __init__(self, view: View, clock: Clock, board: TransferBoard) -> None:
        self._view = view
        self._clock = clock
        self.board = board
        self._stirred = asyncio.Event()
        # What was last sent to agents, None when nothing ever was.
        self._terms: TransferRates | None = None
        view.subscribe(self._on_delta)

    def note(self, session: AgentSession, moves: NodeMoves) -> None:
        self.board.note(session, moves)
        self._stirred.set()

    def greet(self, session: AgentSession) -> None:
        """An agent that has just connected is told which tenants are limited, before any of their bytes pass."""
        terms = self._now()
        if session.paced and (terms.floors or terms.weights):
            session.send(terms)

    def rates(self) -> dict[str, float]:
        """Bytes per second of tenants that are limited."""
        return {
            tenant: limit.hard * MB
            for tenant, record in self._view.kept.quotas.items()
            if (limit := record.quota.own.amounts.get("transfer")) is not None and limit.hard is not None
        }

    async def run(self, sessions: Mapping[str, AgentSession]) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            self._tell_terms(sessions)
            self._lease(sessions)
            await self.board.write(rated=bool(self.rates()))
            if not self.board.quiet:
                self._stirred.set()
                await self._clock.sleep(LEASE_EVERY_S)

    def _on_delta(self, delta: Delta) -> None:
        changed = delta.relisted or delta.profile or keys.QUOTAS in delta.kept
        # The number of nodes only matters where tenants are limited.
        if changed or (delta.nodes and self._terms is not None):
            self._stirred.set()

    def _now(self) -> TransferRates:
        nodes = max(1, len(self._view.nodes))
        shares = self._view.profile.profile.shares
        weights = {
            tenant: min(_WEIGHT_MAX, max(1, round(share.weight)))
            for tenant, share in shares.items()
            if share.weight >= 1.5 and "/" not in tenant
        }
        floors = {tenant: floor(rate, nodes) for tenant, rate in self.rates().items()}
        return TransferRates(floors=floors, weights=weights)

    def _tell_terms(self, sessions: Mapping[str, AgentSession]) -> None:
        terms = self._now()
        if terms == self._terms or (self._terms is None and not terms.floors and not terms.weights):
            return
        self._terms = terms
        for session in sessions.values():
            if session.paced:
                session.send(terms)

    def _lease(self, sessions: Mapping[str, AgentSession]) -> None:
        rates = self.rates()
        if not rates:
            return
        nodes, own, elsewhere = max(1, len(self._view.nodes)), self.board.own(), self.board.elsewhere()
        leases: dict[str, dict[str, float]] = {}
        for tenant, rate in rates.items():
            here = {node: wanted for node, moves in own.items() if (wanted := _wanted(moves, tenant))}
            away = sum(_wanted(moves, tenant) for node, moves in elsewhere.items() if node not in own)
            for node, part in leased(rate, here, away, nodes).items():
                leases.setdefault(node, {})[tenant] = part
        for node, parts in leases.items():
            if (session := sessions.get(node)) is not None and session.paced:
                session.send(TransferRates(leases=parts, lasts_s=LEASE_S))


def _wanted(moves: NodeMoves, tenant: str) -> float:
    return float(sum(flow.moved + flow.waiting for flow in moves.flows if flow.tenant == tenant))
