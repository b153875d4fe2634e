"""A trace on machines that are bought as they are needed: cost and wait by the autoscaler, by a threshold, and of a
fleet that is always on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from ares.check.replay.trace import Trace
from ares.core.ask import asks_of
from ares.core.autoscale.purchase import purchases
from ares.core.autoscale.worth import JobStake, expected_wait_s, stake_of
from ares.model.base import Record
from ares.sim.scaling.fleet import Fleet, FleetTerms, Scaler
from ares.sim.traces.policies import ReplayPolicy


class ScaledTrace(Record, frozen=True, omit_defaults=False):
    """By one way to have machines: money, and means over all jobs in seconds. `late`: jobs beyond their deadline."""

    scaler: str
    jobs: int
    cost: float
    wait_s: float
    wait_p95_s: float
    late: int
    machines: int


@dataclass(frozen=True)
class AlwaysOn:
    """All machines of the trace, from its first job to its last."""

    always_on: bool = True

    def buys(self, fleet: Fleet, now: float) -> Sequence[tuple[str, int]]:
        del fleet, now
        return ()


@dataclass(frozen=True)
class Threshold:
    """As simple scalers do: whenever jobs wait, as many machines as would hold the sum of what they ask for."""

    always_on: bool = False

    def buys(self, fleet: Fleet, now: float) -> Sequence[tuple[str, int]]:
        del now
        cluster, shapes = fleet.cluster, [record.info for record in fleet.coming()]
        gpus = cpu_milli = 0
        for job_class in cluster.waiting.active.values():
            for job in job_class.line.jobs(0, len(job_class.line)):
                ask = asks_of(fleet.specs[int(job)], fleet.trace.jobs[int(job)].tenant)[0]
                gpus += ask.gpus * ask.ranks
                cpu_milli += ask.cpu_milli * ask.ranks
        gpus -= sum(len(info.gpus) for info in shapes)
        cpu_milli -= sum(info.cpu_milli for info in shapes)
        found: list[tuple[str, int]] = []
        for growth in sorted(fleet.growths(), key=lambda growth: growth.pool.node_hour):
            shape = growth.pool.shape
            by_gpus = -(-gpus // shape.gpus) if shape.gpus and gpus > 0 else 0
            by_cpus = -(-cpu_milli // shape.cpu_milli) if cpu_milli > 0 else 0
            count = min(growth.room, max(by_gpus, by_cpus))
            gpus, cpu_milli = gpus - count * shape.gpus, cpu_milli - count * shape.cpu_milli
            found += [(growth.pool.name, count)] if count > 0 else []
        return found


@dataclass(frozen=True)
class ByWorth:
    """The product's own: the real cycle on machines that are not there, bought when their waiting has cost as much."""

    always_on: bool = False

    def buys(self, fleet: Fleet, now: float) -> Sequence[tuple[str, int]]:
        policy, expected_s = fleet.cluster.profile.routing, expected_wait_s(fleet.cluster)

        def stake(job: str) -> JobStake:
            traced = fleet.trace.jobs[int(job)]
            return stake_of(fleet.specs[int(job)], traced.tenant, fleet.waited_s(job, now), expected_s, policy)

        bought = purchases(fleet.cluster, fleet.coming(), fleet.growths(), stake, now)
        return [(purchase.pool, purchase.machines) for purchase in bought]


SCALERS: dict[str, Scaler] = {"always on": AlwaysOn(), "threshold": Threshold(), "ares": ByWorth()}


def compare_scalers(trace: Trace, policy: ReplayPolicy, terms: FleetTerms) -> list[ScaledTrace]:
    return [_scaled(trace, policy, terms, name, scaler) for name, scaler in SCALERS.items()]


def _scaled(trace: Trace, policy: ReplayPolicy, terms: FleetTerms, name: str, scaler: Scaler) -> ScaledTrace:
    profile = replace(policy.profile, prediction=replace(policy.profile.prediction, source="stated"))
    fleet = Fleet(trace, profile, [job.spec for job in trace.jobs], terms, scaler)
    cost = fleet.run()
    books = fleet.region.world.books
    submit = np.array([job.submit for job in trace.jobs])
    start, end = np.array(books.first_start), np.array(books.end)
    over = np.isfinite(end)
    waits = (start - submit)[over]
    due = np.array([np.inf if job.spec.deadline_at is None else job.spec.deadline_at for job in trace.jobs])
    return ScaledTrace(
        scaler=name, jobs=int(over.sum()), cost=cost, wait_s=float(waits.mean()) if len(waits) else 0.0,
        wait_p95_s=float(np.percentile(waits, 95)) if len(waits) else 0.0, late=int((end > due)[over].sum()),
        machines=len(trace.nodes) if scaler.always_on else fleet.most_on,
    )  # fmt: skip
