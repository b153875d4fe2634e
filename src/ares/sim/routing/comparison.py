"""A trace that comes to several regions at once: mean completion times by router, oracle and simple rules.

Every region has the machine of the trace, and jobs come as many times as fast as there are regions. The oracle binds a
job to a region only when it starts there: it sees all regions as one queue, which no router does that has to choose at
once from reports.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace as with_
from typing import Literal, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ares.check.replay.trace import BadTrace, Trace, scaled
from ares.control.federation.routing.offered_room import OfferedRoom
from ares.core.routing.choice import route
from ares.core.routing.facts import RouteAsk, RouteOption
from ares.core.routing.options import chosen_kind, option_of, taken
from ares.model.base import Record
from ares.model.cluster import ClusterRecord, Owner
from ares.model.job import JobSpec
from ares.model.state import JobState
from ares.sim.routing.region import Region
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.policies import ReplayPolicy

Rule = Literal["router", "round-robin", "shortest-queue"]
RULES: tuple[Rule, ...] = ("router", "shortest-queue", "round-robin")
# As often as clusters report.
REPORT_S = 2.0
# As the router is asked about a job of unknown kind.
_RUNS_S = 3600.0


class RoutedTrace(Record, frozen=True, omit_defaults=False):
    """By one rule: means over all jobs, in seconds. `above`: how much more than the oracle, as a part of it."""

    rule: str
    jobs: int
    completion_s: float
    wait_s: float
    above: float


class _Ends(NamedTuple):
    completion_s: float
    wait_s: float
    jobs: int


def compare(trace: Trace, policy: ReplayPolicy, regions: int = 3, rules: Sequence[Rule] = RULES) -> list[RoutedTrace]:
    """The oracle first. Raises BadTrace for a trace of more than one machine: then a job could span two regions."""
    if len(trace.nodes) != 1:
        do = "leave --nodes out, and take a trace of processors"
        raise BadTrace(trace.name, 0, f"regions have one machine each, and this has {len(trace.nodes)}", do)
    many = scaled(trace, load=float(regions))
    oracle = _oracle(many, policy, regions)
    found = [("oracle", oracle), *((rule, _routed(many, policy, regions, rule)) for rule in rules)]
    return [
        RoutedTrace(
            rule=rule, jobs=ends.jobs, completion_s=ends.completion_s, wait_s=ends.wait_s,
            above=ends.completion_s / oracle.completion_s - 1,
        )
        for rule, ends in found
    ]  # fmt: skip


def _oracle(trace: Trace, policy: ReplayPolicy, regions: int) -> _Ends:
    """One queue for all regions. Their machines are single nodes, so no job spans two of them."""
    nodes = tuple(replace(trace.nodes[0], name=f"region-{number}") for number in range(regions))
    columns = replay(with_(trace, nodes=nodes), policy, ReplayOptions(estimates="user")).jobs
    return _ends(np.array(columns.end), trace)


def _ends(end: NDArray[np.float64], trace: Trace) -> _Ends:
    submit = np.array([job.submit for job in trace.jobs])
    runs = np.array([job.run_s for job in trace.jobs])
    over = np.isfinite(end)
    spent = (end - submit)[over]
    return _Ends(float(spent.mean()), float((spent - runs[over]).mean()), int(over.sum()))


def _routed(trace: Trace, policy: ReplayPolicy, regions: int, rule: Rule) -> _Ends:
    profile = replace(policy.profile, prediction=replace(policy.profile.prediction, source="stated"))
    specs = [job.spec for job in trace.jobs]
    places = [Region(f"region-{number}", trace, profile, specs) for number in range(regions)]
    choose = _RULES[rule](places, trace)
    for number, job in enumerate(trace.jobs):
        for place in places:
            place.go(job.submit)
        choose(number, job.submit).submit(number, job.submit)
    for place in places:
        place.go(float("inf"))
    ends = np.array([place.world.books.end for place in places])
    return _ends(np.nanmax(np.where(np.isnan(ends), -np.inf, ends), axis=0), trace)


_Choose = Callable[[int, float], Region]


def _by_router(places: Sequence[Region], trace: Trace) -> _Choose:
    """The product's own: options from reports, less offers since, the least sum."""
    records = [
        ClusterRecord(name=place.name, code=f"00{number}", state="ACTIVE") for number, place in enumerate(places)
    ]
    offered_room, named = OfferedRoom(), {place.name: place for place in places}
    states: dict[str, JobState] = {}

    def choose(number: int, now: float) -> Region:
        ask = _ask(trace.jobs[number].spec)
        options: list[RouteOption] = []
        for place, record in zip(places, records, strict=True):
            report = place.report(now, REPORT_S)
            offered_room.reported(report, [(job, states.get(job)) for job in offered_room.jobs(place.name)])
            options.append(option_of(record, report, place.age_s(now), ask, offered_room.of(place.name)))
        decision = route(ask, options)
        chosen = named[decision.chosen]
        kind = chosen_kind(ask, chosen.report(now, REPORT_S), decision.ranked[0].machines)
        assert kind is not None, "the decision is from that report"
        # Confirmed and told of at once: the next report has it.
        owner = Owner(cluster=chosen.name, epoch=1, stage="CONFIRMED")
        states[str(number)] = JobState(
            id=str(number), tenant="t", name="", submitted_by="", owner=owner, owner_seq=1, phase="WAITING"
        )
        offered_room.offered(chosen.name, str(number), 1, kind, taken(ask))
        return chosen

    return choose


def _ask(spec: JobSpec) -> RouteAsk:
    wants = spec.resources
    runs = spec.expected_runtime_s or spec.time_limit_s or _RUNS_S
    return RouteAsk(cpu_milli=wants.cpu_milli, memory_mib=wants.memory_mib, run_s=runs)


def _in_turn(places: Sequence[Region], trace: Trace) -> _Choose:
    del trace
    return lambda number, _now: places[number % len(places)]


def _to_the_shortest(places: Sequence[Region], trace: Trace) -> _Choose:
    """Where the fewest jobs wait and run."""
    del trace

    def load(place: Region) -> int:
        return place.world.cluster.pending + len(place.world.cluster.holdings)

    return lambda _number, _now: min(places, key=load)


_RULES: dict[Rule, Callable[[Sequence[Region], Trace], _Choose]] = {
    "router": _by_router, "round-robin": _in_turn, "shortest-queue": _to_the_shortest,
}  # fmt: skip
