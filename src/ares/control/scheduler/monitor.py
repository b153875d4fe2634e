"""Judges leases: revokes ranks on nodes that fell silent or came back as a new incarnation, and gives up
gangs that do not assemble in time. It decides by which rank a gang failed, when each had the time to say so.

Only the leader runs this. Silence is measured by this process's monotonic clock since it saw the
lease record change; the revocation compares that very record, so a renewal that lands first wins.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import structlog

from ares.control.execution.transitions import JobChange, Transitions, Written
from ares.control.state.view import LeaseEntry, View
from ares.core import keys
from ares.core.lifecycle.fences import revoked_fence
from ares.core.lifecycle.inputs import AssemblyOver, LeaseLost, Release, VerdictDue
from ares.core.lifecycle.ranks import held
from ares.core.lifecycle.suspicion import Suspicion, judge, overdue
from ares.model.job import JobSpec
from ares.model.node import NodeLease
from ares.model.state import BOUND, Fence, JobState, Placement
from ares.model.timing import DEFAULT, Timing
from ares.ports.clock import Clock
from ares.ports.store import Compare, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# Nodes that one step may take from a gang: it compares the lease of each, and the next look takes the rest.
_LOSSES_MAX = 50
# So long the ranks of a gang have to fall after the first that failed; a node renews its lease as often as twice that.
VERDICT_AFTER_S = 1.0
BLAMED_AFTER_S = 2.0
# Beyond its lease a silent node is not waited for: a job may have asked for a longer one.
_SILENCE_MORE_S = 1.0


def ready(view: View, node: str) -> bool:
    """Whether the scheduler may place on the node: its agent renews, and is reached by a stream."""
    entry, age = view.leases.get(node), view.lease_age_s(node)
    return entry is not None and age is not None and age < entry.lease.dead_after_s and bool(entry.lease.replica)


def lease_of(spec: JobSpec | None, lease: NodeLease) -> float:
    """How long a job is left to a silent node: what it asked for, and no less than the node was told."""
    return lease.dead_after_s if spec is None else max(spec.lease_s, lease.dead_after_s)


class _Loss(NamedTuple):
    """Ranks of one job on one node, and why they count as gone."""

    node: str
    ranks: tuple[int, ...]
    reason: str


class Monitor:
    """Looks at every node that holds attempts, again and again."""

    def __init__(
        self, view: View, transitions: Transitions, clock: Clock, telemetry: Telemetry, timing: Timing = DEFAULT
    ) -> None:
        self._view = view
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry
        self._timing = timing
        # Called with the name of each node that lost work.
        self.noted: Callable[[str], None] = lambda _: None
        self._verdict = Suspicion()
        # When this leader first saw a gang that has yet to assemble.
        self._assembling: dict[tuple[str, Fence], float] = {}
        # The same of a gang that a rank of has failed.
        self._failing: dict[tuple[str, Fence], float] = {}

    async def run(self) -> None:
        # A verdict of an earlier leadership does not count.
        self._verdict = Suspicion()
        self._assembling, self._failing = {}, {}
        while True:
            try:
                await self.scan()
            except StoreError as error:
                log.warning("monitor.scan_failed", error=str(error))
            await self._clock.sleep(self._timing.scan_every_s)

    async def scan(self) -> None:
        """One look at every node that holds attempts."""
        if not self._view.connected:
            return
        now, dead_after_s = self._clock.monotonic(), self._timing.dead_after_s
        ages = {node: now - entry.seen_at for node, entry in self._view.leases.items()}
        silences = self._silences(ages)
        before, self._verdict = self._verdict, judge(silences, self._verdict, now, dead_after_s)
        if before.paused_since is None and self._verdict.paused_since is not None:
            silent = overdue(silences, dead_after_s)
            log.warning("monitor.storm", silent=silent, nodes=len(ages), pause_s=dead_after_s)
        losses, staged, failing = self._look(ages)
        changes = [self._taken(self._view.entries[job].state, found) for job, found in losses.items()]
        due = {change.job: change for change in self._verdicts(failing, ages, now)}
        changes += [change for job, change in due.items() if job not in losses]
        changes += [change for change in self._not_assembled(staged, now) if change.job not in {*losses, *due}]
        if not changes:
            return
        lost = set[str]()
        for change, outcome in zip(changes, await self._transitions.apply(changes), strict=True):
            if isinstance(outcome, Written) and change.job in losses:
                nodes = [loss.node for loss in losses[change.job]]
                lost.update(nodes)
                log.warning("attempt.lost", job=change.job, nodes=nodes, phase=outcome.state.phase)
                self._telemetry.count("ares_lease_losses_total")
                self._telemetry.observe("ares_recovery_seconds", max(ages.get(node) or 0.0 for node in nodes))
            elif isinstance(outcome, Written) and change.job not in due:
                log.warning("gang.not_assembled", job=change.job, phase=outcome.state.phase)
        for node in sorted(lost):
            self.noted(node)

    # ---- silence

    def _silences(self, ages: dict[str, float]) -> dict[str, float]:
        """For how long nodes have been silent, to tell a storm by. A leader that just began has heard of none: those
        whose record is far behind the others' were dead before, and take no part. Nothing is taken away by this."""
        leases = self._view.leases
        newest = max((entry.lease.renewed_at for entry in leases.values()), default=0.0)
        return {
            node: age if (entry := leases[node]).heard else max(age, newest - entry.lease.renewed_at)
            for node, age in ages.items()
        }

    def _look(self, ages: dict[str, float]) -> tuple[dict[str, list[_Loss]], dict[str, JobState], dict[str, JobState]]:
        """Losses by job, since a gang that lost several nodes at once loses them in one step; what is staged; and gangs
        of which a rank has failed."""
        found: dict[str, list[_Loss]] = {}
        staged: dict[str, JobState] = {}
        failing: dict[str, JobState] = {}
        entries = self._view.entries
        for node, jobs in self._view.by_node.items():
            entry, age = self._view.leases.get(node), ages.get(node)
            for job, places in jobs.items():
                if (state := entries[job].state).phase == "STAGING":
                    staged[job] = state
                if state.failing and state.phase in BOUND:
                    failing[job] = state
                loss = self._loss(job, node, places, entry, age)
                if loss is not None and len(found.setdefault(job, [])) < _LOSSES_MAX:
                    found[job].append(loss)
        return dict(sorted(found.items())), staged, failing

    def _loss(
        self, job: str, node: str, places: tuple[Placement, ...], entry: LeaseEntry | None, age: float | None
    ) -> _Loss | None:
        if entry is None or age is None:
            return _Loss(node, _ranks(places), f"node {node} was removed")
        older = tuple(place for place in places if place.incarnation < entry.lease.incarnation)
        if older:
            return _Loss(node, _ranks(older), f"the agent of node {node} restarted")
        if age < entry.lease.dead_after_s or self._verdict.paused_since is not None:
            return None
        record = self._view.nodes.get(node)
        if record is not None and not record.info.fences:
            # What runs there does not end with the lease: only the node itself can say that it did.
            return None
        lease_s = lease_of(self._view.spec(self._view.entries[job].state), entry.lease)
        if age < lease_s:
            return None
        return _Loss(node, _ranks(places), f"node {node} has been silent for {age:.1f} s (lease {lease_s:g} s)")

    def _taken(self, state: JobState, losses: list[_Loss]) -> JobChange:
        """Compares the lease of every lost node: a renewal that lands first delays the whole step to the next look."""
        guards = tuple(self._guard(loss.node) for loss in losses)
        ranks = tuple(rank for loss in losses for rank in loss.ranks)
        if state.phase in BOUND:
            reason = "; ".join(loss.reason for loss in losses)
            return JobChange(
                state.id, state.tenant, (LeaseLost(fence=state.fence, reason=reason, ranks=ranks),), guards
            )
        return JobChange(state.id, state.tenant, (Release(fence=revoked_fence(state), ranks=ranks),), guards)

    def _guard(self, node: str) -> Compare:
        entry = self._view.leases.get(node)
        return Compare(keys.lease(node), "mod_revision", 0 if entry is None else entry.mod_revision)

    # ---- gangs of which a rank has failed

    def _verdicts(self, failing: dict[str, JobState], ages: dict[str, float], now: float) -> list[JobChange]:
        """Those whose end is decided now. A node that has been silent since the first failure may be what failed: it is
        waited for until it renews its lease, or is lost by that."""
        seen, self._failing = self._failing, {}
        due: list[JobChange] = []
        for state in failing.values():
            since = self._failing[state.id, state.fence] = seen.get((state.id, state.fence), now)
            alive = held(state)
            heard = all(ages.get(place.node, 0.0) < now - since for place in alive)
            # A rank that another blames says itself how it ended, in a moment. One that does not is frozen.
            blamed = {place.rank for place in alive} & {end.blames for end in state.failing}
            after_s = BLAMED_AFTER_S if blamed else VERDICT_AFTER_S
            if (heard and now - since >= after_s) or now - since >= self._timing.dead_after_s + _SILENCE_MORE_S:
                due.append(JobChange(state.id, state.tenant, (VerdictDue(fence=state.fence),)))
        return due

    # ---- gangs that do not assemble

    def _not_assembled(self, staged: dict[str, JobState], now: float) -> list[JobChange]:
        """Gangs whose limit is over, counted from when this leader first saw them staged: late is safe."""
        seen, self._assembling = self._assembling, {}
        over: list[JobChange] = []
        for state in staged.values():
            spec = self._view.spec(state)
            if spec is None or spec.gang is None:
                continue
            since = self._assembling[state.id, state.fence] = seen.get((state.id, state.fence), now)
            if now - since >= spec.gang.assembly_s:
                reason = f"its {len(state.placements)} ranks did not all start within {spec.gang.assembly_s:g} s"
                over.append(JobChange(state.id, state.tenant, (AssemblyOver(fence=state.fence, reason=reason),)))
        return over


def _ranks(places: Iterable[Placement]) -> tuple[int, ...]:
    return tuple(place.rank for place in places)
