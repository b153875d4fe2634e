"""Answers about decisions: why a job waits, where it stands, what would start it, and what a new one would meet."""

from collections.abc import Sequence
from math import fsum

import msgspec
from msgspec.structs import replace

from ares.api.decisions import (
    Eta,
    Explanation,
    FactorShown,
    PlanAnswer,
    PrioRow,
    ReplayAnswer,
    Standing,
)
from ares.api.reasons import Reason
from ares.control.flow.waiting_reasons import WaitingReasons
from ares.control.governance.alerts import alert_id
from ares.control.queries.holders import gpus, holders
from ares.control.scheduler.cluster_view import LiveCluster, unsubmitted
from ares.control.scheduler.decisions import Decisions
from ares.control.scheduler.retries import STORM
from ares.control.state.pacing import WORKED_ON, breathe, stepped
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import sees_all
from ares.core.admit.placement import at_least
from ares.core.explain.held_back import held_back, would_wait
from ares.core.explain.smallest_change import smallest_change
from ares.core.explain.why import explain_ask, infeasible, why_waiting
from ares.core.queue.factors import explain
from ares.core.queue.kept_turns import kept_turns
from ares.core.queue.order import Place, account_of
from ares.core.queue.position import position
from ares.core.queue.shares import Shares
from ares.core.queue.tree import levels
from ares.core.queue.waiting import ClassKey, JobClass, class_key
from ares.core.refusal import Refusal
from ares.core.reserve.waits import held_for, waits_within
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.considered import decide_again
from ares.core.schedule.preempt.record import seen_by
from ares.core.schedule.trial import Trial
from ares.core.starts.alternatives import offers, would_evict
from ares.core.starts.starts import Course, course, eta_of
from ares.model.access import Principal
from ares.model.job import PRIORITIES, JobSpec
from ares.model.profile import Share, ShareResource
from ares.model.state import JobState, LedgerEvent
from ares.ports.clock import Clock
from ares.ports.store import Store

# Kinds of jobs checked for one submission: a large batch must not slow down other requests.
_INFEASIBLE_MAX = 256
_RESOURCES: tuple[ShareResource, ...] = ("cpu", "memory", "gpu")


class Explain:
    """Reads wait until the view holds everything acknowledged before the call."""

    def __init__(
        self,
        store: Store,
        view: View,
        planner: LiveCluster,
        decisions: Decisions,
        reasons: WaitingReasons,
        clock: Clock,
    ) -> None:
        self._reasons = reasons
        self._store = store
        self._view = view
        self._planner = planner
        self._decisions = decisions
        self._clock = clock

    # ---- why a job waits

    async def job(self, who: Principal, job_id: str) -> Explanation | None:
        await self._view.catch_up()
        entry = self._view.entries.get(job_id)
        if entry is None or entry.state.tenant != who.tenant:
            return None
        state, spec = entry.state, self._view.spec(entry.state)
        found = self._planner.cluster.waiting.class_of(job_id)
        if state.phase != "PENDING" or spec is None or found is None:
            reason = self._reasons.of(state, spec) or self._paused(state)
            remedy = None if reason is None else reason.remedy
            return Explanation(job=job_id, phase=state.phase, at=self._clock.wall(), reason=reason, remedy=remedy)
        return await self._waiting(who, state, spec, found)

    def _paused(self, state: JobState) -> Reason | None:
        """Why a job that failed is not tried again yet, though its backoff may be over."""
        storm = self._view.kept.alerts.get(keys.scoped(state.tenant, alert_id(STORM, f"tenants/{state.tenant}")))
        if state.phase != "RETRYING" or storm is None or storm.numbers.get("until", 0.0) <= self._clock.wall():
            return None
        return Reason(code="RETRIES_PAUSED", message=storm.text)

    async def _waiting(self, who: Principal, state: JobState, spec: JobSpec, found: JobClass) -> Explanation:
        self._planner.refresh_ready()
        cluster, now = self._planner.cluster, self._clock.wall()
        reason = self._planner.reason(state.id)
        asks = tuple(explain_ask(cluster, found.key, ask, now) for ask in found.key.asks)
        trial = Trial.what_if(cluster, now)
        order = cluster.profile.order
        factors = explain(cluster.waiting.facts_of(state.id), trial.shares, order, now)
        kept = kept_turns(cluster.waiting, cluster.promises, cluster.profile, trial.shares, now)
        limits, no_eviction = self._limits(found), self._no_eviction(state, spec, now)
        # From here on in steps: the job may leave the queue in between, which is answered as it was.
        stands = await stepped(position.steps(cluster.waiting, state.id, trial.shares, order, now, kept))
        ahead = 0 if stands is None else stands.ahead
        return Explanation(
            job=state.id,
            phase=state.phase,
            at=now,
            reason=reason,
            remedy=None if reason is None else reason.remedy,
            alternatives=asks,
            holders=holders(cluster, self._view, who.tenant, asks),
            gpus=gpus(cluster, self._view, who.tenant, asks),
            ahead=ahead,
            ahead_in_tenant=None if stands is None else stands.ahead_in_tenant,
            rank=_sum(factors, "primary"),
            factors=factors,
            limits=limits,
            starts=await self._starts(state.id, reason, now),
            eta=await self._planner.eta(state.id),
            promise=cluster.promises.get(state.id),
            no_eviction=no_eviction,
            change=await stepped(smallest_change.steps(cluster, state, spec, now)),
        )

    async def _starts(self, job: str, reason: Reason | None, now: float) -> Eta | None:
        """A job that can never run has no such time."""
        found = None if reason is not None and reason.remedy == "yours" else await self._planner.start_of(job)
        return None if found is None else eta_of(found, now)

    def _no_eviction(self, state: JobState, spec: JobSpec, now: float) -> str:
        if state.hold:
            return ""
        found = would_evict(self._planner.cluster, state, spec, now)
        return found if isinstance(found, str) else ""

    def _limits(self, found: JobClass) -> tuple[Standing, ...]:
        cluster, ask = self._planner.cluster, found.key.asks[0]
        asked: dict[ShareResource, int] = {"cpu": ask.cpu_milli, "memory": ask.memory_mib, "gpu": ask.gpus_milli}
        declared = [(path, cluster.profile.shares.get(path, Share())) for path in levels(found.key.account)]
        return tuple(
            Standing(
                path=path,
                resource=resource,
                asked=asked[resource] * ask.min_ranks,
                used=cluster.held_below(path, resource),
                limit=share.hard.get(resource),
                soft=share.soft.get(resource),
            )
            for path, share in declared
            for resource in _RESOURCES
            if resource in share.hard or resource in share.soft
        )

    # ---- the order

    async def prio(self, who: Principal, limit: int = 100) -> tuple[PrioRow, ...]:
        """The tenant's waiting jobs by rank, those of all tenants for an admin."""
        await self._view.catch_up()
        cluster, now = self._planner.cluster, self._clock.wall()
        shares, looked_at = cluster.shares(now), 0
        rows: list[_PrioPlace] = []
        for job_class in tuple(cluster.waiting.active.values()):
            tenant = job_class.key.account.split("/", 1)[0]
            for place in job_class.line.heads(limit) if tenant == who.tenant or sees_all(who) else ():
                # Others were placed since the last stride.
                if place[3] in cluster.waiting:
                    rows.append(self._prio_row(cluster, place, job_class, shares, now))
                looked_at += 1
                if looked_at % WORKED_ON == 0:
                    await breathe()
            looked_at += 1
            if looked_at % WORKED_ON == 0:
                await breathe()
            if len(rows) >= 2 * limit:
                rows = sorted(rows, key=_in_order)[:limit]
        return tuple(row for _, row in sorted(rows, key=_in_order)[:limit])

    def _prio_row(
        self, cluster: Cluster, place: Place, job_class: JobClass, shares: Shares, now: float
    ) -> "_PrioPlace":
        job = place[3]
        factors = explain(cluster.waiting.facts_of(job), shares, cluster.profile.order, now)
        primary, secondary = _sum(factors, "primary"), _sum(factors, "secondary")
        entry = self._view.entries.get(job)
        row = PrioRow(
            job=job,
            tenant=job_class.key.account.split("/", 1)[0],
            name="" if entry is None else entry.state.name,
            priority=PRIORITIES[job_class.key.level],
            rank=primary,
            secondary=secondary,
            factors=factors,
        )
        return (-primary, -secondary, place), row

    # ---- before it is submitted

    async def plan(self, who: Principal, spec: JobSpec) -> PlanAnswer:
        """Changes nothing."""
        await self._view.catch_up()
        self._planner.refresh_ready()
        cluster, now = self._planner.cluster, self._clock.wall()
        state = unsubmitted(who, now, spec)
        spec = at_least(spec, self._view.kept.isolation(who.tenant))
        key = cluster.waiting.key_of(state, spec)
        runs = cluster.predictor.estimate(spec, account_of(state))
        runs_s = cluster.waiting.run_times.held_s(runs, spec)
        found = await stepped(course.steps(cluster, state, spec, now))
        starts = isinstance(found, Course) and found.start <= now
        reason = None if starts else would_wait(cluster, state, spec, now) or self._lacks(key, runs_s, now)
        evicted = "" if starts else would_evict(cluster, state, spec, now)
        displaced = None if isinstance(evicted, str) else evicted
        others = await stepped(offers.steps(cluster, state, spec, now, displaced))
        change = None if starts else await stepped(smallest_change.steps(cluster, state, spec, now))
        return PlanAnswer(
            starts_now=starts,
            revision=self._view.revision,
            profile_version=self._view.profile.version,
            reason=reason,
            remedy=None if reason is None else reason.remedy,
            offers=others,
            eviction=None if displaced is None else seen_by(displaced.record, who.tenant),
            no_eviction=evicted if isinstance(evicted, str) else "",
            change=change,
            ahead=cluster.pending,
        )

    def _lacks(self, key: ClassKey, runs_s: float, now: float) -> Reason | None:
        """Why a job that is not in the queue would have no place now."""
        cluster = self._planner.cluster
        room = waits_within(cluster, key, now) or why_waiting(cluster, key, now)
        return room or held_for(cluster, key, runs_s, now) or held_back(cluster, "", key, runs_s, now)

    async def infeasible(self, who: Principal, specs: Sequence[JobSpec]) -> list[Reason | None]:
        """Why each job could never run on the cluster as it is; said when it is submitted. Jobs alike cost one look."""
        cluster, now = self._planner.cluster, self._clock.wall()
        known: dict[ClassKey, Reason | None] = {}
        found: list[Reason | None] = []
        for number, spec in enumerate(specs):
            if number and spec is specs[number - 1]:
                found.append(found[-1])
                continue
            if number % WORKED_ON == WORKED_ON - 1:
                await breathe()
            state = JobState(id="", tenant=who.tenant, name="", submitted_by=who.subject, team=spec.team)
            key = class_key(state, at_least(spec, self._view.kept.isolation(who.tenant)))
            if key not in known and len(known) < _INFEASIBLE_MAX:
                known[key] = infeasible(cluster, key, now)
            found.append(known.get(key))
        return found

    # ---- past decisions

    async def preemptions(self, who: Principal, job_id: str) -> tuple[LedgerEvent, ...] | None:
        """Every time the job was preempted, with the record both sides were given; None for no such job."""
        await self._view.catch_up()
        entry = self._view.entries.get(job_id)
        if entry is None or entry.state.tenant != who.tenant:
            return None
        page = await self._store.range(keys.job_events(who.tenant, job_id))
        events = (msgspec.json.decode(kv.value, type=LedgerEvent) for kv in page.kvs)
        return tuple(event for event in events if event.kind in ("preempted", "preempting"))

    async def replay(self, who: Principal, name: str, changes: dict[str, float]) -> ReplayAnswer | Refusal | None:
        """A decision about one of the tenant's jobs, by its own name or the job's, with some weights changed."""
        decision = await self._decisions.find(name)
        entry = None if decision is None else self._view.entries.get(decision.job)
        if decision is None or entry is None or (entry.state.tenant != who.tenant and not sees_all(who)):
            return None
        weights = tuple(
            replace(scorer, weight=changes.get(scorer.name, scorer.weight)) for scorer in decision.profile.scorers
        )
        unknown = sorted(set(changes) - {scorer.name for scorer in weights})
        if unknown:
            known = ", ".join(scorer.name for scorer in weights)
            message = f"no scorer of profile {decision.profile_version} is called {unknown[0]!r}; there are {known}"
            return Refusal(code="invalid", message=message, fix="Name scorers of that list.", path="$.weights")
        nodes = decide_again(decision.considered, weights)
        again = tuple(node.node for node in nodes for _ in range(node.ranks))
        return ReplayAnswer(
            decision=decision.id,
            job=decision.job,
            at=decision.at,
            profile_version=decision.profile_version,
            weights=weights,
            chosen=decision.chosen,
            chosen_again=again,
            same=sorted(again) == sorted(decision.chosen),
            nodes=nodes[:20],
            passing=decision.considered.passing,
            kept=len(decision.considered.nodes),
        )


_PrioPlace = tuple[tuple[float, float, Place], PrioRow]


def _in_order(row: _PrioPlace) -> tuple[float, float, Place]:
    return row[0]


def _sum(factors: tuple[FactorShown, ...], which: str) -> float:
    return fsum(factor.product for factor in factors if factor.sum == which)
