"""The planner's side: a picture of the cluster kept from what it is told, and plans made from that.

It has no clock, no store and no memory of its own: everything it goes by was told, and a new one is told again.
"""

from collections.abc import Callable, Iterable, Set

import msgspec
from msgspec.structs import replace

from ares.api.reasons import Reason
from ares.control.planner.messages import (
    JobNews,
    News,
    PlannerAnswer,
    PlannerRules,
    PlanRequest,
    PluginFailure,
    Question,
)
from ares.core.admit.placement import at_least
from ares.core.capacity.fit import no_row_scores
from ares.core.explain.why import why_waiting
from ares.core.forecast.estimate import Estimate
from ares.core.forecast.predictor import Predictor
from ares.core.lifecycle.ranks import holds
from ares.core.lifecycle.updates import in_force
from ares.core.queue.planners import closeness
from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.budget import CycleBudget
from ares.core.schedule.cluster import Cluster, Moment
from ares.core.schedule.cycle import cycle
from ares.core.schedule.follower import follow, forget, throttle
from ares.core.schedule.plan import Plan
from ares.core.schedule.plugins import without_cut, without_unknown
from ares.core.schedule.scorers import home
from ares.model.isolation import Isolation
from ares.model.job import JobSpec
from ares.model.state import TERMINAL, JobState

_SPECS_DECODED_MAX = 4096
# Classes that one answer says more about than that they wait.
_EXPLAINED_AT_ONCE = 32


class _Hearsay(Predictor):
    """Says of a job what was told about it."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, Estimate | None] = {}

    def met(self, job_id: str, spec: JobSpec, account: str, gpu_model: str | None = None) -> Estimate | None:
        return self.said.get(job_id)

    def ended(self, job_id: str, ran_s: float | None) -> None:
        self.said.pop(job_id, None)


class Mirror:
    """`failures` gives what third parties' code did wrong since it was last asked."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        failures: Callable[[], Iterable[PluginFailure]] = tuple[PluginFailure, ...],
        foreign: Set[str] = frozenset(),
    ) -> None:
        self._monotonic = monotonic
        self._failures = failures
        # Filters of plugins: only the planner can say why they refuse a node.
        self._foreign = foreign
        self._explained = 0
        self._until = 0.0
        self._budget = CycleBudget(self._time_is_up)
        # When the pass through the queue began that is under way.
        self._since: Moment | None = None
        self._decode = msgspec.msgpack.Decoder(Question).decode
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode_spec = msgspec.json.Decoder(JobSpec).decode
        self._decoded: dict[tuple[bytes, Isolation], JobSpec] = {}
        self._predictor = _Hearsay()
        self._cluster = Cluster(predictor=self._predictor)
        # Of jobs that have not ended, or hold something; with the specification as it was submitted.
        self._jobs: dict[str, tuple[JobState, JobSpec | None]] = {}
        self._isolation: dict[str, Isolation] = {}
        self._rules = PlannerRules(self._cluster.profile)
        # Of several planners: which nodes this one fills first.
        self._home = home.HomeFirst()

    def handle(self, frame: bytes) -> bytes:
        question = self._decode(frame)
        self._take(question.news)
        answer = PlannerAnswer() if question.plan is None else self._plan(question.plan)
        return self._encode(answer)

    # ---- the feed

    def _take(self, news: News) -> None:
        if news.rules is not None:
            self._begin(news.rules)
        cluster = self._cluster
        for record in news.nodes:
            cluster.put_node(record)
        for name in news.nodes_gone:
            cluster.drop_node(name)
        for name, ready in news.ready.items():
            cluster.set_ready(name, ready)
        for array, limit in news.throttles.items():
            tasks = [(state, _asked(state, spec)) for state, spec in self._jobs.values() if state.array == array]
            throttle(cluster, array, limit, tasks)
        for told in news.jobs:
            self._follow(told, news)
        for job in news.jobs_gone:
            self._jobs.pop(job, None)
            forget(cluster, job)
        for reservation in news.reservations:
            cluster.book(reservation)
        for name in news.reservations_gone:
            cluster.unbook(name)
        self._take_others(news)
        self._take_learned(news)

    def _take_learned(self, news: News) -> None:
        """What the leader knows of jobs that this planner never saw."""
        cluster = self._cluster
        if news.promises is not None:
            cluster.remember(news.told)
            cluster.promise(news.promises, more=True)
        if news.used is not None:
            cluster.usage.restore(news.used)
        if news.typical is not None:
            cluster.know_typical(news.typical)

    def _begin(self, rules: PlannerRules) -> None:
        profile, _ = without_unknown(rules.profile, ACTIONS)
        # All planners together propose as much at once as one would: the leader verifies it in one go.
        most = max(1, profile.max_placements_per_cycle // rules.planners)
        profile = profile if rules.planners == 1 else replace(profile, max_placements_per_cycle=most)
        self._predictor = _Hearsay()
        self._cluster = Cluster(without_cut(profile, rules.cut), self._predictor, rules.cut)
        self._budget, self._since = CycleBudget(self._time_is_up), None
        self._isolation = rules.isolation
        self._jobs.clear()
        self._rules = rules
        if rules.planners > 1:
            self._home, evaluations = home.HomeFirst(), self._cluster.evaluations
            known = evaluations.rules
            scorers = (*known.scorers, (home.NAME, home.WEIGHT, self._home))
            # Rows alone are scored by the profile's scorers, which do not know of homes.
            evaluations.rules = known._replace(scorers=scorers, by_row=no_row_scores)

    def _take_others(self, news: News) -> None:
        """What concerns other planners: whose home nodes are, and what is promised to jobs that wait elsewhere."""
        cluster, rules = self._cluster, self._rules
        for node, whose in news.homes.items():
            self._home.put(cluster.rows[node], closeness(node, whose, rules.planner, rules.planners))
        # As with any other change of the future, what was promised here has to be looked at again.
        for job, claim in news.claimed.items():
            if claim is not None:
                cluster.claimed[job] = claim
                cluster.future.setbacks += 1
            elif cluster.claimed.pop(job, None) is not None:
                cluster.future.slack += 1

    def _follow(self, told: JobNews, news: News) -> None:
        state = told.state
        before, spec = self._jobs.get(state.id, (None, None))
        raw = news.specs.get(state.array or state.id)
        if raw is not None:
            spec = self._spec(raw, self._isolation.get(state.tenant, "any"))
        if told.estimate is not None:
            self._predictor.said[state.id] = told.estimate
        follow(self._cluster, before, state, _asked(state, spec), news.now)
        if told.foreign:
            self._cluster.dequeue(state.id)
        if state.phase in TERMINAL and not holds(state):
            self._jobs.pop(state.id, None)
        else:
            self._jobs[state.id] = (state, spec)

    def _spec(self, raw: bytes, least: Isolation) -> JobSpec:
        """Equal specifications share one value, as they do in the view."""
        spec = self._decoded.get((raw, least))
        if spec is None:
            if len(self._decoded) >= _SPECS_DECODED_MAX:
                self._decoded.clear()
            spec = self._decoded[raw, least] = at_least(self._decode_spec(raw), least)
        return spec

    # ---- planning

    def _plan(self, wanted: PlanRequest) -> PlannerAnswer:
        cluster, began = self._cluster, self._monotonic()
        self._until = began + wanted.budget_s
        now = cluster.moment
        since = self._since = self._since or now
        cluster.advance(wanted.now)
        plan = cycle(cluster, wanted.now, keep=wanted.keep, gentle=wanted.gentle, budget=self._budget)
        # When several cycles together covered all jobs, the state that the first of them saw counts.
        cluster.promise(plan.promises, more=plan.more or not self._budget.whole, as_of=since)
        if self._budget.whole:
            self._since = now if self._budget.spent else None
        reasons = self._reasons(plan, wanted.now) if not self._foreign.isdisjoint(cluster.profile.filters) else {}
        took_s = self._monotonic() - began
        return PlannerAnswer(plan, self._seqs(plan), took_s, tuple(self._failures()), reasons)

    def _reasons(self, plan: Plan, now: float) -> dict[str, Reason]:
        """Of some classes that were left out, others the next time."""
        left = plan.left[self._explained : self._explained + _EXPLAINED_AT_ONCE]
        self._explained = self._explained + len(left) if self._explained + len(left) < len(plan.left) else 0
        found: dict[str, Reason] = {}
        for waiting in left:
            job_class = self._cluster.waiting.class_of(waiting.first_job)
            why = None if job_class is None else why_waiting(self._cluster, job_class.key, now)
            if why is not None:
                found[waiting.first_job] = why
        return found

    def _time_is_up(self) -> bool:
        return self._monotonic() >= self._until

    def _seqs(self, plan: Plan) -> dict[str, int]:
        named = {
            *(placed.job for placed in plan.placed),
            *(resized.job for resized in plan.resized),
            *plan.unheld,
            *(job for eviction in plan.evictions for job in (eviction.job, *eviction.victims, *eviction.shrunk)),
        }
        return {job: self._jobs[job][0].seq for job in sorted(named)}


def _asked(state: JobState, spec: JobSpec | None) -> JobSpec | None:
    return None if spec is None else in_force(spec, state)
