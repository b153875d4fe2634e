"""Renewals of node leases: an agent gets the answer, with the length of the lease, when the renewal is durable.

The record that the leader goes by holds the length of the lease. It is made longer before the agent hears of it, and
shorter only after the agent has said that it goes by the shorter one.
"""

from collections.abc import Iterable

import structlog
from msgspec.structs import replace

from ares.control.execution.enrolment import Enrolment
from ares.control.execution.session import AgentSession
from ares.control.state.view import View
from ares.core.dataset import cached_name
from ares.model.job import VERSION_MARK
from ares.model.link import Renew, Renewed
from ares.model.timing import DEFAULT, Timing
from ares.ports.clock import Clock
from ares.ports.store import StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_STORE_PAUSE_S = 0.2
# A change of what nodes have makes planners look at all places anew.
_CACHED_EVERY_S = 10.0


class Renewals:
    """The renewals of all agents connected to this replica."""

    def __init__(
        self, enrolment: Enrolment, view: View, clock: Clock, telemetry: Telemetry, timing: Timing = DEFAULT
    ) -> None:
        self._telemetry = telemetry
        self._enrolment = enrolment
        self._view = view
        self._clock = clock
        self._timing = timing

    def answer(self, session: AgentSession, renewals: Iterable[Renew]) -> None:
        """Answers renewals that are in the record."""
        for renewal in renewals:
            session.states_terms = session.states_terms or renewal.dead_after_s > 0
            session.send(Renewed(nonce=renewal.nonce, dead_after_s=self.lasts_s(session)))

    def lasts_s(self, session: AgentSession) -> float:
        """The length of the lease for the agent: never longer than the record says."""
        whole = session.extended or not session.states_terms
        return session.enrolled.dead_after_s if whole else self._timing.dead_after_s

    async def run(self, session: AgentSession) -> None:
        """Writes the renewals of the session's agent, until another session has taken over."""
        while True:
            await session.renew_ready.wait()
            session.renew_ready.clear()
            renewals, session.renewals = session.renewals, []
            began = self._clock.monotonic()
            held = replace(session.enrolled, dead_after_s=self._stated_s(session, renewals))
            try:
                revision = await self._enrolment.renew(held, session.lease_revision, leaving=session.leaving)
                if revision is not None and self._clock.monotonic() - session.renewed_at >= session.silent_s:
                    # After this silence attempts may be revoked: the agent must hear that before its lease counts.
                    await self._view.reach(revision)
            except StoreError as error:
                # This renewal is tried again: the next one may come too late for the agent.
                log.warning("renewal.delayed", node=session.node, error=str(error))
                session.renewals = renewals + session.renewals
                await self._clock.sleep(_STORE_PAUSE_S)
                session.renew_ready.set()
                continue
            if revision is None:
                session.close("another session of this node has taken over")
                return
            session.lease_revision, session.renewed_at = revision, began
            self._telemetry.observe("ares_store_latency_seconds", self._clock.monotonic() - began, "renew")
            if not session.extended:
                session.enrolled = held
            self.answer(session, renewals)
            if session.cached is not None and began - session.cached_at >= _CACHED_EVERY_S:
                await self._note_cached(session, began)

    async def _note_cached(self, session: AgentSession, now: float) -> None:
        """Writes which datasets the node has, as far as there are such: a node is not believed."""
        said, session.cached, session.cached_at = session.cached or (), None, now
        tenants = {name.partition(VERSION_MARK)[0] for name in said}
        known = {
            cached_name(record.tenant, version.sha256)
            for record in (self._view.kept.datasets.values() if said else ())
            if record.tenant in tenants
            for version in record.versions
        }
        cached = tuple(sorted({name for name in said if name in known}))
        try:
            await self._enrolment.note_cached(session.node, session.incarnation, cached)
        except StoreError as error:
            log.warning("cached.unrecorded", node=session.node, error=str(error))
            session.cached = session.cached or said

    def _stated_s(self, session: AgentSession, renewals: list[Renew]) -> float:
        """The length for the record: as short as this replica gives, if the agent goes by that already."""
        known_s, stated_s = session.enrolled.dead_after_s, renewals[-1].dead_after_s if renewals else 0.0
        if session.extended or not stated_s:
            return known_s
        return min(known_s, max(stated_s, self._timing.dead_after_s))

    async def extend(self, session: AgentSession, lasts_s: float) -> None:
        """Extends the lease of the node, since this replica stops: first in the record, then by a message."""
        if not session.states_terms or lasts_s <= session.enrolled.dead_after_s:
            return
        session.extended = True
        longer = replace(session.enrolled, dead_after_s=lasts_s)
        revision = await self._enrolment.renew(longer, session.lease_revision, leaving=session.leaving)
        if revision is not None:
            session.enrolled, session.lease_revision = longer, revision
            session.send(Renewed(nonce=0, dead_after_s=lasts_s))
