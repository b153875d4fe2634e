"""When many nodes fall silent at once, the fault is probably ours: wait once before evicting."""

from collections.abc import Mapping

from ares.model.base import Record

# Above this share of silent nodes the observer suspects its own link first.
STORM_SHARE = 0.2
# Below this many nodes a share says nothing.
STORM_NODES_MIN = 5


class Verdict(Record, frozen=True):
    """`paused_since` is set while evictions wait; `spent` once the wait was granted for this storm."""

    paused_since: float | None = None
    spent: bool = False


def judge(ages_s: Mapping[str, float], before: Verdict, now: float, dead_after_s: float) -> Verdict:
    """One pause of one lease period for each storm; after that silence counts as death again."""
    silent = sum(1 for age in ages_s.values() if age >= dead_after_s)
    storm = len(ages_s) >= STORM_NODES_MIN and silent > STORM_SHARE * len(ages_s)
    if not storm:
        return Verdict()
    if before.spent:
        return before
    if before.paused_since is None:
        return Verdict(paused_since=now)
    if now - before.paused_since < dead_after_s:
        return before
    return Verdict(spent=True)
