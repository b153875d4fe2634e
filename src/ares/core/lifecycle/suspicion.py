"""When many nodes fall silent at once, the fault is probably the observer's: wait once before evicting."""

from collections.abc import Mapping

from ares.model.base import Record

# Above this share of silent nodes the observer suspects its own link first.
STORM_SHARE = 0.2
# Below this many nodes a share says nothing.
STORM_NODES_MIN = 5
# A share of the lease: a node that is quiet for longer missed a renewal. Nodes that fall silent together reach the end
# of their leases one after the other; the first must not be evicted before there are enough of them to see a storm.
OVERDUE_SHARE = 0.75
# In leases: a node that is silent for longer was judged long ago. It says nothing about what happens now.
LONG_GONE = 3.0


class Suspicion(Record, frozen=True):
    """`paused_since` is set while evictions wait; `spent` once the wait was granted for this storm."""

    paused_since: float | None = None
    spent: bool = False


def overdue(ages_s: Mapping[str, float], dead_after_s: float) -> int:
    """How many nodes missed a renewal, of the nodes that were there until lately."""
    return sum(OVERDUE_SHARE <= age / dead_after_s < LONG_GONE for age in ages_s.values())


def judge(ages_s: Mapping[str, float], before: Suspicion, now: float, dead_after_s: float) -> Suspicion:
    """Each storm puts evictions off once, by one lease period; after that silence counts as death again."""
    nodes = sum(age < LONG_GONE * dead_after_s for age in ages_s.values())
    storm = nodes >= STORM_NODES_MIN and overdue(ages_s, dead_after_s) > STORM_SHARE * nodes
    if not storm:
        return Suspicion()
    if before.spent:
        return before
    if before.paused_since is None:
        return Suspicion(paused_since=now)
    # A period after the first of them would have been evicted.
    if now - before.paused_since < (2 - OVERDUE_SHARE) * dead_after_s:
        return before
    return Suspicion(spent=True)
