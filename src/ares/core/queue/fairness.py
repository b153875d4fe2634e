"""How evenly tenants share what there is, by their weights."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ares.core.queue.drf import Amounts
from ares.model.profile import Share


class Fairness(NamedTuple):
    """`gini`: 0 where every tenant has its part, near 1 where one has all. `borrowed_gpus`: held beyond their parts."""

    active: int
    gini: float
    borrowed_gpus: float


def fairness(
    held: Mapping[str, Amounts], waiting: frozenset[str], shares: Mapping[str, Share], capacity: Amounts
) -> Fairness:
    """Of tenants that hold something or wait for it: one that waits with nothing counts as one that has nothing."""
    tenants = sorted(held.keys() | waiting)
    weights = {tenant: shares.get(tenant, Share()).weight for tenant in tenants}
    parts = [_dominant(held.get(tenant, _NOTHING), capacity) / weights[tenant] for tenant in tenants]
    in_all, gpus = sum(weights.values()), capacity[2]
    borrowed = sum(max(0.0, held[tenant][2] - gpus * weights[tenant] / in_all) for tenant in tenants if tenant in held)
    return Fairness(sum(any(amounts) for amounts in held.values()), gini(parts), borrowed / 1000)


_NOTHING = Amounts(0, 0, 0)


def _dominant(held: Amounts, capacity: Amounts) -> float:
    return max((have / there for have, there in zip(held, capacity, strict=True) if there), default=0.0)


def gini(values: Sequence[float]) -> float:
    """Half the mean difference between two of them, by their mean."""
    ordered, total = sorted(values), sum(values)
    if total <= 0.0:
        return 0.0
    count = len(ordered)
    return sum((2 * place - count - 1) * value for place, value in enumerate(ordered, start=1)) / (count * total)
