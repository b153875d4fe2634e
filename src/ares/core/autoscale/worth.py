"""What machines are worth: the waiting that they end, in money, against what they cost until they are given back.

What a job would still wait is not known when its machine is bought. It is taken to be as long as it has waited, or as
the queue takes to drain if that is longer. So where nothing can be said of the queue, a machine is bought when the
waiting that it ends has cost as much as the machine will: never more than twice what was best in hindsight.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import NamedTuple

from ares.core.forecast.estimate import Runs, runs_by_model, runs_on, stated
from ares.core.schedule.cluster import Cluster
from ares.model.job import JobSpec, Priority
from ares.model.profile import RoutingPolicy
from ares.model.scaling import ScalingPool

_HOUR_S = 3600.0
# How long a job runs that says nothing of it.
_RUNS_S = 3600.0
# Where nothing runs that could make room, a job waits for ever: a day is enough to be worth any machine.
_WAIT_MAX_S = 86_400.0


class JobStake(NamedTuple):
    """A waiting job: how long it has waited, how many seconds of its waiting are worth a unit of money, and how long it
    would wait by what is known of the queue."""

    waited_s: float
    money_s: float = 60.0
    expected_s: float = 0.0
    run_s: float = _RUNS_S
    runs: Runs = ()
    deadline_at: float | None = None

    @property
    def value(self) -> float:
        """Of the waiting that a machine would end, in money."""
        return max(self.waited_s, self.expected_s) / self.money_s if self.money_s else 0.0

    def runs_on(self, gpu_model: str) -> float:
        return runs_on(self.runs, gpu_model) if self.runs else self.run_s


Stakes = Callable[[str], JobStake]


class Worth(NamedTuple):
    """Of machines of one pool: what the waiting costs that they end, and what they cost. `urgent`: jobs that end in
    time on them if they are bought now, and not if they are bought later. `paying`: machines that are worth it each
    for its own jobs."""

    value: float
    price: float
    urgent: int
    paying: int

    @property
    def pays(self) -> bool:
        return bool(self.urgent) or self.value >= self.price


def money_s(policy: RoutingPolicy, tenant: str, priority: Priority) -> float:
    """As routing weighs money: by the tenant, by the priority, else by the profile."""
    return policy.tenant_money_s.get(tenant, policy.priority_money_s.get(priority, policy.money_s))


def expected_wait_s(cluster: Cluster) -> float:
    """Of a job in the middle of the queue: as long as half of it takes when jobs that run make room, one for one."""
    running = [holding.runs_s for holding in cluster.holdings.values() if holding.runs_s is not None]
    if not running:
        return _WAIT_MAX_S
    return min(_WAIT_MAX_S, cluster.pending / len(running) * (sum(running) / len(running)) / 2)


def stake_of(spec: JobSpec, tenant: str, waited_s: float, expected_s: float, policy: RoutingPolicy) -> JobStake:
    said = stated(spec)
    return JobStake(
        waited_s=max(0.0, waited_s), expected_s=expected_s, money_s=money_s(policy, tenant, spec.priority),
        run_s=_RUNS_S if said is None else said.seconds, runs=runs_by_model(spec), deadline_at=spec.deadline_at,
    )  # fmt: skip


def worth(
    pool: ScalingPool, machines: Mapping[str, Collection[str]], stakes: Stakes, now: float,
    pools: Sequence[ScalingPool],
) -> Worth:  # fmt: skip
    """Of machines with the jobs that would start on each; of a gang on several of them each has its part. A job that
    would miss its deadline on these machines, and not on those of another of the pools, is no reason to buy them."""
    value, price, urgent, paying = 0.0, 0.0, set[str](), 0
    parts = Counter(job for jobs in machines.values() for job in jobs)
    for jobs in machines.values():
        gain, longest, hurries = 0.0, 0.0, False
        for job in jobs:
            stake = stakes(job)
            longest = max(longest, stake.runs_on(pool.shape.gpu_model or ""))
            spare_s = _spare_s(stake, pool, now)
            if spare_s < 0 and any(_spare_s(stake, other, now) >= 0 for other in pools):
                continue
            gain += stake.value / parts[job]
            # By the next time that is looked it might be too late.
            if 0 <= spare_s <= pool.boot_s + pool.after_s:
                urgent.add(job)
                hurries = True
        cost = pool.node_hour * (pool.boot_s + longest + pool.idle_s) / _HOUR_S
        value, price, paying = value + gain, price + cost, paying + (hurries or gain >= cost)
    return Worth(value, price, len(urgent), paying)


def _spare_s(stake: JobStake, pool: ScalingPool, now: float) -> float:
    """How long a machine of the pool may still wait to be bought for the job to end in time on it."""
    if stake.deadline_at is None:
        return inf
    return stake.deadline_at - now - pool.boot_s - stake.runs_on(pool.shape.gpu_model or "")


def preference(found: Worth, machines: int, jobs: int) -> tuple[bool, float, float]:
    """The greatest is bought first: what is in time for deadlines at the least price, then what gains most for each
    machine, then what starts most jobs."""
    gain = -found.price / found.urgent if found.urgent else (found.value - found.price) / machines
    return bool(found.urgent), gain, jobs / machines
