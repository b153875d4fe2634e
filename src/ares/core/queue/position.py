"""Where a waiting job stands: how many jobs come before it, by the same ranks as in the cycle."""

from typing import NamedTuple

from ares.core.queue.factors import rank
from ares.core.queue.kept_turns import KeptTurns
from ares.core.queue.order import Place, job_of
from ares.core.queue.shares import Shares
from ares.core.queue.static_queue import StaticQueue
from ares.core.queue.waiting import JobClass, WaitingQueue, facts_of
from ares.core.steps import Steps, in_steps
from ares.model.profile import OrderPolicy

# Looked at in one step: classes, each of which is ranked, and jobs, which are only counted.
_CLASSES_AT_A_TIME = 512
_JOBS_AT_A_TIME = 10_000


class Position(NamedTuple):
    """Jobs ahead: of all tenants, and of the job's own tenant."""

    ahead: int
    ahead_in_tenant: int


class _Ranks(NamedTuple):
    """What jobs are compared by."""

    shares: Shares
    order: OrderPolicy
    kept: KeptTurns
    now: float


@in_steps
def position(
    waiting: WaitingQueue, job: str, shares: Shares, order: OrderPolicy, now: float, kept: KeptTurns | None = None
) -> Steps[Position | None]:
    """None when the job does not wait. `kept`: turns of jobs that are promised a start."""
    mine, place = waiting.class_of(job), waiting.place_of(job)
    if mine is None or place is None:
        return None
    tenant = _tenant(mine)
    if waiting.settled is not None:
        return (yield from _settled(waiting, waiting.settled, job, tenant))
    ranks = _Ranks(shares, order, kept or KeptTurns({}), now)
    key = _key(mine, place, ranks)
    ahead = ahead_in_tenant = 0
    for number, other in enumerate(tuple(waiting.active.values()), start=1):
        # The last job of the class may have left since the last step.
        count = _before(other, key, ranks) if len(other.line) else 0
        ahead += count
        ahead_in_tenant += count if _tenant(other) == tenant else 0
        if number % _CLASSES_AT_A_TIME == 0:
            yield
    return Position(ahead, ahead_in_tenant)


def _settled(waiting: WaitingQueue, settled: StaticQueue, job: str, tenant: str) -> Steps[Position]:
    before, mine = settled.ahead(job), 0
    for number, (_, _, place) in enumerate(before, start=1):
        job_class = waiting.class_of(place[3])
        mine += job_class is not None and _tenant(job_class) == tenant
        if number % _JOBS_AT_A_TIME == 0:
            yield
    return Position(len(before), mine)


_Key = tuple[float, bool, float, float, Place]


def _tenant(job_class: JobClass) -> str:
    return job_class.key.account.split("/", 1)[0]


def _key(job_class: JobClass, place: Place, ranks: _Ranks) -> _Key:
    facts = facts_of(place, job_class.key)
    primary, secondary = rank(facts, ranks.shares, ranks.order, ranks.now)
    counts, after = ranks.kept.within(job_of(place), facts, primary)
    # The class id is of this process only; the fields before it are unique.
    return -counts, after, -primary, -secondary, place


def _before(other: JobClass, key: _Key, ranks: _Ranks) -> int:
    """How many jobs of a class come before. Within a class ranks fall from the first to the last."""
    line = other.line
    if _key(other, line.nth(0), ranks) >= key:
        return 0
    low, high = 1, len(line)
    if _key(other, line.nth(-1), ranks) < key:
        return high
    while low < high:
        middle = (low + high) // 2
        if _key(other, line.nth(middle), ranks) < key:
            low = middle + 1
        else:
            high = middle
    return low
