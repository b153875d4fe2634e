"""Order factors: why a job comes sooner. One file each, weighted in a profile; their sum is the job's rank."""

from math import fsum
from typing import Literal

from ares.api.decisions import FactorShown
from ares.core.queue.factors.age import age, ages
from ares.core.queue.factors.deadline import deadline, deadlines, latest_start
from ares.core.queue.factors.drf import drf, drfs
from ares.core.queue.factors.f1 import f1
from ares.core.queue.factors.factor import ClassFacts, Factor, FactorEach, JobFacts
from ares.core.queue.factors.fair_share import fair_share, fair_shares
from ares.core.queue.factors.fifo import fifo, fifos
from ares.core.queue.factors.priority import priorities, priority
from ares.core.queue.factors.served import served, serveds
from ares.core.queue.factors.shortest import shortest
from ares.core.queue.factors.size import size, sizes
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy, Weight

__all__ = [
    "BY_CLASS", "BY_RUN_TIME", "EACH", "FACTORS", "SETTLED", "STATIC", "ClassFacts", "Factor", "JobFacts", "explain",
    "latest_start", "rank",
]  # fmt: skip

FACTORS: dict[str, Factor] = {
    "age": age,
    "deadline": deadline,
    "drf": drf,
    "f1": f1,
    "fair-share": fair_share,
    "fifo": fifo,
    "priority": priority,
    "served": served,
    "shortest": shortest,
    "size": size,
}
# For many jobs at once; factors that are not here have to be asked job by job.
EACH: dict[str, FactorEach] = {
    "age": ages,
    "deadline": deadlines,
    "drf": drfs,
    "fair-share": fair_shares,
    "fifo": fifos,
    "priority": priorities,
    "served": serveds,
    "size": sizes,
}
# Factors that stay the same while a cycle places jobs.
STATIC: frozenset[str] = frozenset(FACTORS) - {"drf"}
# Factors that are the same for all jobs of a class; of these, `drf` moves as the cycle places jobs.
BY_CLASS: frozenset[str] = frozenset({"drf", "fair-share", "fifo", "priority", "served"})
# Factors that stay the same as long as the job waits.
SETTLED: frozenset[str] = frozenset({"fifo", "priority", "served", "shortest", "f1"})
# Factors that differ between jobs of one class, so they go with settled ones only.
BY_RUN_TIME: frozenset[str] = frozenset({"shortest", "f1"})


def rank(facts: JobFacts, shares: Shares, order: OrderPolicy, now: float) -> tuple[float, float]:
    """The primary sum, and the secondary one for jobs whose primary sums are equal. Larger comes sooner."""

    def total(weights: tuple[Weight, ...]) -> float:
        return fsum([factor.weight * FACTORS[factor.name](facts, shares, order, now) for factor in weights])

    return total(order.primary), total(order.secondary)


def explain(facts: JobFacts, shares: Shares, order: OrderPolicy, now: float) -> tuple[FactorShown, ...]:
    """Every term of the rank, in the order of the policy."""

    def shown(weights: tuple[Weight, ...], which: Literal["primary", "secondary"]) -> list[FactorShown]:
        values = [(factor, FACTORS[factor.name](facts, shares, order, now)) for factor in weights]
        return [
            FactorShown(name=factor.name, value=value, weight=factor.weight, product=factor.weight * value, sum=which)
            for factor, value in values
        ]

    return (*shown(order.primary, "primary"), *shown(order.secondary, "secondary"))
