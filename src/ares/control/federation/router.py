"""Which cluster a job that waits is offered to, on the leader of a global plane. One offer at a time for each job."""

import asyncio

import msgspec
import structlog

from ares.control.execution.transitions import JobChange, Transitions
from ares.control.federation.clusters import Clusters
from ares.control.federation.owner_index import OwnerIndex
from ares.control.federation.routing.routes import RoutePass, Routes
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.core.federation.clusters import OVER, code_in
from ares.core.federation.owners import (
    LEASE_MIN_S,
    OFFER_SILENCE_S,
    ClusterDead,
    LeaseOver,
    MakeOffer,
    OfferSilent,
    lease_over,
    may_offer,
    ownership_lease_s,
)
from ares.core.federation.reports import REPORT_EVERY_S
from ares.core.lifecycle.inputs import OwnerMoved
from ares.core.lifecycle.owners import owner_of
from ares.core.queue.order import account_of
from ares.core.routing.choice import moves_to, shortened
from ares.core.routing.facts import RouteAsk
from ares.core.routing.options import chosen_kind, option_of, taken
from ares.core.routing.terms import seconds
from ares.model.cluster import Owner, RouteDecision
from ares.model.job import JobSpec
from ares.model.state import TERMINAL, JobState
from ares.ports.clock import Clock, happens
from ares.ports.store import Compare, StoreError

log = structlog.get_logger()

_LOOK_S = 1.0
# Jobs that are offered in one go, so that reports are looked at anew in between.
_AT_ONCE = 500
# By specification, account and estimate: jobs that are alike to the router. While a specification is kept, its id is
# its own.
_Alike = dict[tuple[int, str, float], JobSpec]
# A cluster that declined a job is not asked for it again for so long.
_AGAIN_S = 10.0
_STORE_PAUSE_S = 0.5
# Offers that were not answered for so long are looked at again: something has been reported since.
_SLOW_S = 2 * REPORT_EVERY_S


class Router:
    def __init__(
        self, view: View, clusters: Clusters, index: OwnerIndex, routes: Routes, transitions: Transitions, clock: Clock
    ) -> None:  # fmt: skip
        self._view, self._clusters, self._index, self._routes = view, clusters, index, routes
        self._transitions, self._clock = transitions, clock
        self._wake = asyncio.Event()
        # By job: when each cluster may be asked again, and what it said.
        self._declined: dict[str, dict[str, tuple[float, str]]] = {}
        # Offers by job and epoch, and since when this leader knows of them, by the monotonic clock.
        self._open: dict[tuple[str, int], float] = {}
        index.wakes.append(self._wake.set)
        index.heeds.append(self._heed)

    def _heed(self, before: JobState | None, state: JobState) -> None:
        """A job left a cluster, by the job's own record: whichever replica heard the answer, the leader knows."""
        was, now = None if before is None else before.owner, state.owner
        if was is not None and was.cluster and state.phase == "PENDING" and (now is None or not now.cluster):
            self._declined.setdefault(state.id, {})[was.cluster] = (self._clock.monotonic() + _AGAIN_S, state.reason)
            self._wake.set()

    def refusals(self, job: str) -> dict[str, str]:
        """What clusters said that did not take it."""
        return {cluster: why for cluster, (_, why) in self._declined.get(job, {}).items()}

    async def run(self, guard: Compare) -> None:
        self._remember()
        while True:
            if not self._clusters.records:
                await self._wake.wait()
            self._wake.clear()
            try:
                await self._routes.prices.refresh()
                await self._take_back(guard)
                await self._offer(guard)
            except StoreError as error:
                log.warning("router.delayed", error=str(error))
                await self._clock.sleep(_STORE_PAUSE_S)
            except Exception as error:
                # Jobs of clusters go on, and so does all else that a leader does.
                log.error("router.failed", error=repr(error), exc_info=error)
                await self._clock.sleep(_STORE_PAUSE_S)
            await happens(self._wake, self._clock, _LOOK_S)

    # ---- offers that are over

    async def _take_back(self, guard: Compare) -> None:
        """Offers that were not answered, jobs of clusters that were declared dead, clusters that are empty."""
        now, open_ = self._clock.monotonic(), dict[tuple[str, int], float]()
        looks, changes = self._routes.begin(), list[JobChange]()
        for name, record in self._clusters.records.items():
            for state in self._judged(name, dead=record.state in OVER):
                what = self._over(state, dead=record.state in OVER, now=now, open_=open_) or self._better(state, looks)
                if what is not None:
                    # A report that this replica has not seen yet says that the cluster is not silent.
                    heard = self._view.kept.reports.unchanged(name)
                    guards = (guard, heard) if isinstance(what.asked, LeaseOver) else (guard,)
                    changes.append(JobChange(state.id, state.tenant, (what,), guards))
            if record.state == "DRAINING" and not self._index.jobs(name) and not self._clusters.is_lent(name):
                await self._clusters.emptied(name)
        self._open = open_
        if changes:
            await self._transitions.apply(changes)
        if len(self._declined) > 2 * len(self._index.unowned) + 1000:
            self._declined = {job: found for job, found in self._declined.items() if job in self._index.unowned}

    def _judged(self, cluster: str, *, dead: bool) -> list[JobState]:
        """Jobs that may leave the cluster: what it is offered, and all where it is silent or dead."""
        silent_s = self._clusters.age_s(cluster)
        every = dead or (silent_s is not None and silent_s >= LEASE_MIN_S)
        jobs = self._index.jobs(cluster) if every else self._index.offered(cluster)
        return [self._view.entries[job].state for job in jobs]

    def _over(
        self, state: JobState, *, dead: bool, now: float, open_: dict[tuple[str, int], float]
    ) -> OwnerMoved | None:
        owner = state.owner
        if owner is None or (state.phase in TERMINAL and not state.lingering):
            return None
        if dead:
            reason = f"cluster {owner.cluster} was declared dead"
            return OwnerMoved(asked=ClusterDead(cluster=owner.cluster), reason=reason)
        if owner.stage == "CONFIRMED":
            return self._lease_over(state, owner)
        if owner.stage != "OFFERED":
            return None
        since = open_[state.id, owner.epoch] = self._open.get((state.id, owner.epoch), now)
        if now - since < OFFER_SILENCE_S:
            return None
        reason = f"cluster {owner.cluster} did not answer for {OFFER_SILENCE_S:g} s"
        return OwnerMoved(asked=OfferSilent(epoch=owner.epoch), reason=reason)

    def _lease_over(self, state: JobState, owner: Owner) -> OwnerMoved | None:
        """A job that is to move when its cluster is silent: the cluster has ended it by then."""
        silent_s = self._clusters.age_s(owner.cluster)
        if silent_s is None or silent_s < LEASE_MIN_S or state.phase in TERMINAL or code_in(state.id):
            return None
        spec = self._view.spec(state)
        if spec is None or spec.on_partition != "move" or not self._clusters.is_rebuilt(self._transitions.epoch):
            return None
        lease_s = ownership_lease_s(spec.grace_s, spec.lease_s)
        if not lease_over(0.0, silent_s, lease_s):
            return None
        reason = f"cluster {owner.cluster} was silent for {silent_s:.0f} s, and the job moves after {lease_s:.0f} s"
        return OwnerMoved(asked=LeaseOver(cluster=owner.cluster, epoch=owner.epoch), reason=reason)

    def _better(self, state: JobState, looks: RoutePass) -> OwnerMoved | None:
        """An offer that a cluster takes its time to answer goes elsewhere where that gains enough."""
        owner, now = state.owner, self._clock.monotonic()
        if owner is None or owner.stage != "OFFERED" or now - self._open.get((state.id, owner.epoch), now) < _SLOW_S:
            return None
        with self._routes.offered_room.aside(owner.cluster, state.id):
            found = self._choose(state, looks)
        to = "" if found is None else moves_to(found[1], owner.cluster)
        if not to:
            return None
        reason = f"cluster {owner.cluster} did not answer for {_SLOW_S:g} s, and cluster {to} is better by now"
        return OwnerMoved(asked=OfferSilent(epoch=owner.epoch), reason=reason)

    # ---- new offers

    async def _offer(self, guard: Compare) -> None:
        """To as many as are offered in one go: jobs that no cluster can run now hold up none behind them."""
        self._heed_reports()
        looks, changes = self._routes.begin(), list[JobChange]()
        rebuilt, vain = self._clusters.is_rebuilt(self._transitions.epoch), _Alike()
        for place, job in enumerate(self._index.unowned.in_order()):
            if len(changes) == _AT_ONCE:
                self._wake.set()
                break
            if place % WORKED_ON == WORKED_ON - 1:
                await breathe()
            entry = self._view.entries.get(job)
            if entry is None or job not in self._index.unowned or not self._is_free(entry.state, rebuilt=rebuilt):
                continue
            found = self._choose(entry.state, looks, vain)
            if found is not None:
                changes.append(self._made(entry.state, *found, looks, guard))
        if changes:
            await self._transitions.apply(changes)

    def _is_free(self, state: JobState, *, rebuilt: bool) -> bool:
        return not state.lingering and may_offer(owner_of(state), self._transitions.epoch, rebuilt=rebuilt)

    def _made(
        self, state: JobState, ask: RouteAsk, decision: RouteDecision, looks: RoutePass, guard: Compare
    ) -> JobChange:
        looks.offered(ask, decision, state.id, owner_of(state).epoch + 1)
        record = {"route": msgspec.to_builtins(shortened(decision))}
        what = OwnerMoved(asked=MakeOffer(cluster=decision.chosen), reason=_why(decision), record=record)
        return JobChange(state.id, state.tenant, (what,), (guard,))

    def _choose(
        self, state: JobState, looks: RoutePass, vain: _Alike | None = None
    ) -> tuple[RouteAsk, RouteDecision] | None:
        """The cluster where it costs least, in seconds, of those that hard rules leave: as it is, or as the first
        of its alternatives that some cluster can run. `vain`: jobs that none can run, so that one like them is not
        looked at again."""
        spec = self._view.spec(state)
        if spec is None:
            return None
        alike, no = (id(spec), account_of(state), state.cost_estimate), self._just_declined(state.id)
        if vain is not None and alike in vain:
            return None
        for ask in self._routes.asks(state, spec):
            decision = looks.decide(ask, no)
            if decision.chosen:
                return ask, decision
        if vain is not None and not no:
            vain[alike] = spec
        return None

    def _just_declined(self, job: str) -> dict[str, str]:
        now = self._clock.monotonic()
        return {cluster: why for cluster, (until, why) in self._declined.get(job, {}).items() if until > now}

    # ---- what was offered, and is not in a report yet

    def _heed_reports(self) -> None:
        for name in self._clusters.records:
            report = self._clusters.report(name)
            if report is not None:
                entries = ((job, self._view.entries.get(job)) for job in self._routes.offered_room.jobs(name))
                states = ((job, None if entry is None else entry.state) for job, entry in entries)
                self._routes.offered_room.reported(report, states)

    def _remember(self) -> None:
        """What an earlier leader offered, as far as clusters have not told of it: each on the first kind of machine
        that it fits."""
        self._routes.offered_room.begin()
        for name, record in self._clusters.records.items():
            report, age = self._clusters.report(name), self._clusters.age_s(name)
            for job in self._index.jobs(name) if report is not None else ():
                state = self._view.entries[job].state
                spec = self._view.spec(state)
                if spec is None or state.owner is None or state.owner_seq or state.phase in TERMINAL:
                    continue
                ask = next(iter(self._routes.asks(state, spec)))
                option = option_of(record, report, age, ask, {})
                rooms = (shape for shape in option.shapes if shape.holds)
                if (room := next(rooms, None)) is not None and report is not None:
                    kind = chosen_kind(ask, report, room.words)
                    assert kind is not None, "the room is one of the report's"
                    self._routes.offered_room.offered(name, job, state.owner.epoch, kind, taken(ask))


def _why(decision: RouteDecision) -> str:
    """In a line; the whole is in the entry of the ledger."""
    best = decision.ranked[0]
    room = f"{best.free - best.offered} free" if best.terms.wait_s == 0 else f"a wait of {best.terms.wait_s:.0f} s"
    others = len(decision.ranked) - 1
    of = f", the best of {others + 1} clusters" if others else ""
    ends = f"would end in {seconds(best.terms):.0f} s{of}"
    report = f"report {best.seq} of {best.terms.age_s:.0f} s ago"
    return f"cluster {best.cluster}: {room} on {best.machines}, {ends}, {report}"
