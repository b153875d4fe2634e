"""What routing says of a job, from this replica's picture of the clusters: for the router, and for people who ask."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from ares.control.autoscale.prices import Prices
from ares.control.federation.clusters import Clusters
from ares.control.federation.routing.capacity import ARCH_LABELS
from ares.control.federation.routing.offered_room import OfferedRoom
from ares.control.scheduler.cluster_view import LiveCluster
from ares.core.federation.clusters import OVER
from ares.core.forecast.estimate import runs_by_model
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.core.queue.order import account_of
from ares.core.routing.choice import decided, look
from ares.core.routing.egress import routes_to
from ares.core.routing.facts import RouteAsk
from ares.core.routing.options import Kind, chosen_kind, option_of, taken
from ares.model.cluster import RoutedCluster, RouteDecision, RouteRefusal, RouteWeights
from ares.model.job import JobSpec, Resources
from ares.model.state import JobState
from ares.model.uplink import ClusterReport
from ares.ports.clock import Clock

# How long a job of unknown kind is taken to run.
_RUNS_S = 3600.0
_MIB_PER_GIB = 1024
BudgetLeft = Callable[[str], float | None]
# By cluster: what it said when it declined the job a moment ago.
Declined = Mapping[str, str]
_NONE: Declined = {}


class Routes:
    def __init__(
        self, clusters: Clusters, live: LiveCluster, budget_left: BudgetLeft, clock: Clock, prices: Prices
    ) -> None:
        self.prices = prices
        self._clusters, self._live, self._budget_left, self._clock = clusters, live, budget_left, clock
        self.offered_room = OfferedRoom()

    def asks(self, state: JobState, spec: JobSpec) -> Iterator[RouteAsk]:
        """The job as it would like to run, then its alternatives."""
        for wants in (spec.resources, *spec.alternatives):
            yield self._ask(state, spec, wants)

    def _ask(self, state: JobState, spec: JobSpec, wants: Resources) -> RouteAsk:
        gang, policy = spec.gang, self._live.cluster.profile.routing
        runs = self._live.predictor.estimate(spec, account_of(state))
        labels = spec.selector
        left = self._budget_left(state.tenant)
        strict = spec.deadline_at if spec.deadline_strict else None
        return RouteAsk(
            cpu_milli=wants.cpu_milli, memory_mib=wants.memory_mib, gpus=wants.gpus, gpu_model=wants.gpu_model or "",
            gpu_memory_mib=wants.gpu_memory_mib,
            arch=next((labels[label] for label in ARCH_LABELS if label in labels), ""),
            ranks=1 if gang is None else gang.ranks, per_node=0 if gang is None else gang.per_node or 0,
            min_ranks=1 if gang is None else gang.min_ranks or gang.ranks,
            run_s=_RUNS_S if runs is None else runs.seconds, runs=runs_by_model(spec),
            selector=tuple(sorted(f"{key}={value}" for key, value in labels.items() if key not in ARCH_LABELS)),
            preemptible=not why_not_preemptible(spec), residency=spec.residency,
            # What the job itself was promised of the budget when it was admitted is its own.
            budget=None if left is None else left + state.cost_estimate,
            deadline_s=None if strict is None else max(0.0, strict - self._clock.wall()),
            inputs=tuple((given.name, given.size_mib / _MIB_PER_GIB) for given in spec.inputs),
            image="" if spec.image is None else spec.image.ref,
            checkpoint_s=None if spec.checkpoint is None else spec.checkpoint.interval_s or _RUNS_S,
            money_s=policy.tenant_money_s.get(
                state.tenant, policy.priority_money_s.get(spec.priority, policy.money_s)
            ),
        )  # fmt: skip

    def of(self, state: JobState, spec: JobSpec, declined: Declined = _NONE) -> RouteDecision:
        """Where it would go now: as it is, or as the first of its alternatives that some cluster can run. By this
        replica's picture: what was offered since the last reports is known to the leader alone."""
        looks = self.begin()
        decisions = [looks.decide(ask, declined) for ask in self.asks(state, spec)]
        return next((decision for decision in decisions if decision.chosen), decisions[0])

    def begin(self) -> "RoutePass":
        return RoutePass(self._clusters, self.offered_room, self._live, self.prices)


class RoutePass:
    """Decisions of one moment: ages of reports are as they were when it began. Jobs alike cost one look at a cluster,
    and one more whenever it was offered something."""

    def __init__(self, clusters: Clusters, offered_room: OfferedRoom, live: LiveCluster, prices: Prices) -> None:
        self._prices = prices
        self._policy = live.cluster.profile.routing
        self._offered_room = offered_room
        self._members = [
            (record, clusters.report(name), clusters.age_s(name))
            for name, record in sorted(clusters.records.items())
            if record.state not in OVER
        ]
        self._holders = _holders((record.region, report) for record, report, _ in self._members if prices.egress)
        # By ask and cluster, with how often the cluster had been offered something by then.
        self._looks: dict[RouteAsk, dict[str, tuple[int, RoutedCluster | RouteRefusal]]] = {}
        self._offers: dict[str, int] = {}

    def decide(self, ask: RouteAsk, declined: Declined = _NONE) -> RouteDecision:
        weights = RouteWeights(money_s=ask.money_s, rtt=self._policy.rtt, age=self._policy.age)
        known = self._looks.setdefault(ask, {})
        found: list[RoutedCluster | RouteRefusal] = []
        for record, report, age in self._members:
            name = record.name
            stamp = self._offers.get(name, 0)
            seen = known.get(name)
            if name in declined or seen is None or seen[0] != stamp:
                no = declined.get(name, "")
                ways = routes_to(record.region, ask, self._holders, self._prices.egress)
                option = option_of(record, report, age, ask, self._offered_room.of(name), no, *ways)
                seen = stamp, look(ask, option, weights)
                if not no:
                    known[name] = seen
            found.append(seen[1])
        decision = decided(found, weights)
        if not self._prices.egress:
            return decision
        return replace(decision, catalogue=self._prices.version, catalogue_age_s=round(self._prices.age_s))

    def offered(self, ask: RouteAsk, decision: RouteDecision, job: str, epoch: int) -> None:
        """The job was offered to the cluster that was chosen."""
        chosen = decision.ranked[0]
        report = next(report for record, report, _ in self._members if record.name == chosen.cluster)
        kind: Kind | None = None if report is None else chosen_kind(ask, report, chosen.machines)
        if kind is not None:
            self._offered_room.offered(chosen.cluster, job, epoch, kind, taken(ask))
            self._offers[chosen.cluster] = self._offers.get(chosen.cluster, 0) + 1


def _holders(reports: Iterable[tuple[str, ClusterReport | None]]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for region, report in reports:
        for name in () if report is None or not region else report.datasets:
            found[name] = found.get(name, frozenset()) | {region}
    return found
