"""What people are told of routing: the decision about a job, what would change it, and why no cluster takes it."""

import msgspec

from ares.api.decisions import RouteSeen
from ares.api.reasons import Reason
from ares.control.federation.router import Router
from ares.control.federation.routing.routes import Routes
from ares.control.scheduler.cluster_view import unsubmitted
from ares.control.state.view import View
from ares.core import keys
from ares.core.forecast.estimate import Estimate
from ares.core.lifecycle.owners import is_away
from ares.core.routing.choice import flip, shortened
from ares.core.routing.terms import seconds, words_of
from ares.core.starts.starts import Course
from ares.model.access import Principal
from ares.model.cluster import RouteDecision
from ares.model.job import JobSpec
from ares.model.state import JobState, LedgerEvent
from ares.ports.clock import Clock
from ares.ports.store import Store

# Clusters that a reason names.
_NAMED_MAX = 6
NO_CLUSTERS = "this control plane has no clusters: jobs run on its own nodes"


class RouteAnswers:
    """Reads wait until the view holds everything acknowledged before the call."""

    def __init__(self, store: Store, view: View, routes: Routes, router: Router, clock: Clock) -> None:
        self._store, self._view, self._routes, self._router, self._clock = store, view, routes, router, clock

    async def of(self, who: Principal, job: str) -> RouteSeen | None:
        """As it was decided, for a job that a cluster has or was offered; as it would be decided now, for one that
        waits. None for no such job."""
        await self._routes.prices.refresh()
        await self._view.catch_up()
        entry = self._view.entries.get(job)
        if entry is None or entry.state.tenant != who.tenant:
            return None
        state, spec = entry.state, self._view.spec(entry.state)
        if not self._view.kept.clusters:
            return RouteSeen(message=NO_CLUSTERS)
        if state.phase == "PENDING" and not is_away(state) and spec is not None:
            return _seen(self._decide(state, spec), None)
        kept = await self._kept(state)
        if kept is None:
            return RouteSeen(message="no cluster was chosen for it here: it has no owner, or was submitted in it")
        return _seen(msgspec.convert(kept.data["route"], RouteDecision), kept.at)

    async def _kept(self, state: JobState) -> LedgerEvent | None:
        """The entry of the last offer."""
        page = await self._store.range(keys.job_events(state.tenant, state.id))
        events = [msgspec.json.decode(kv.value, type=LedgerEvent) for kv in page.kvs]
        return next((event for event in reversed(events) if event.kind == "offered" and "route" in event.data), None)

    async def planned(self, who: Principal, spec: JobSpec) -> RouteSeen | None:
        """As if the job were submitted now. None where there are no clusters."""
        if not self._view.kept.clusters:
            return None
        await self._routes.prices.refresh()
        return _seen(self._decide(unsubmitted(who, self._clock.wall(), spec), spec), None)

    # ---- for the one answer that all commands give

    def reason(self, job: str) -> Reason | None:
        """Why a job that waits here is with no cluster; None where there are no clusters."""
        entry = self._view.entries.get(job)
        spec = None if entry is None else self._view.spec(entry.state)
        if entry is None or spec is None or not self._view.kept.clusters:
            return None
        return reason_of(self._decide(entry.state, spec))

    def course(self, state: JobState, spec: JobSpec, now: float) -> Course | str | None:
        """When it would start and how long it would run, or why not; None where there are no clusters."""
        if not self._view.kept.clusters:
            return None
        # Whether that is in time is for the asker to say.
        decision = self._decide(state, msgspec.structs.replace(spec, deadline_strict=False))
        if not decision.ranked:
            return reason_of(decision).message
        best = decision.ranked[0]
        run_s = best.terms.run_s
        basis = f"in cluster {best.cluster}, by its report of {best.terms.age_s:.0f} s ago"
        return Course(now + seconds(best.terms) - run_s, Estimate(run_s, run_s, run_s, basis), basis)

    def _decide(self, state: JobState, spec: JobSpec) -> RouteDecision:
        return self._routes.of(state, spec, self._router.refusals(state.id))


def _seen(decision: RouteDecision, at: float | None) -> RouteSeen:
    return RouteSeen(decision=shortened(decision), at=at, flip=flip(decision), message=_message(decision, at))


def _message(decision: RouteDecision, at: float | None) -> str:
    if not decision.ranked:
        return reason_of(decision).message
    best, found = decision.ranked[0], flip(decision)
    verb = "was offered to" if at is not None else "would go to"
    said = f"it {verb} cluster {best.cluster}, where it would end in {seconds(best.terms):.0f} s"
    if found is None:
        others = len(decision.ranked) - 1
        return f"{said}; " + ("no single term of the next one would change that" if others else "no other could run it")
    now, then = words_of(found.term, found.now), words_of(found.term, found.flips_at)
    return f"{said}; cluster {found.cluster} would win with {found.term} below {then} instead of {now}"


def reason_of(decision: RouteDecision) -> Reason:
    """Of a job that is with no cluster."""
    if decision.ranked:
        return Reason(code="IN_CLUSTER", message=f"it is offered to cluster {decision.chosen} next")
    named = "; ".join(f"{no.cluster}: {no.message} ({no.code})" for no in decision.refused[:_NAMED_MAX])
    more = len(decision.refused) + decision.more - _NAMED_MAX
    many = f"; and {more} more" if more > 0 else ""
    message = f"no cluster can take it: {named}{many}" if named else "no cluster has joined, or all have left"
    return Reason(code="NO_CLUSTER", message=message, numbers={"clusters": len(decision.refused) + decision.more})
