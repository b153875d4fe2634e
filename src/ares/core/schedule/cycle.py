"""One scheduling cycle: waiting jobs in order, each to its best place; then, if need be, room is made for more."""

from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.budget import CycleBudget
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Plan
from ares.core.schedule.trial import Trial

# Actions that look at every running job: too dear for every cycle of a busy cluster.
DISRUPTIVE = frozenset({"shrink", "reclaim", "preempt", "rotate"})


def cycle(
    cluster: Cluster,
    now: float,
    *,
    keep: int = 0,
    gentle: bool = False,
    tells: bool = True,
    budget: CycleBudget | None = None,
) -> Plan:
    """The same inputs give the same plan, and the cluster is left as it was: the caller advances it to `now` before.

    `keep` decisions are kept whole. A `gentle` cycle takes nothing away from running jobs. Without `tells`, and where
    no action needs it, jobs behind the first waiting one are not in the plan's `left`. With a `budget` the cycle may
    end before every job had a turn; jobs without a turn come first in the next cycle under the same budget.
    """
    profile = cluster.profile
    cluster.prepare()
    if budget is not None:
        budget.begin()
    trial = Trial(cluster, profile, now, keep, tells or (not gentle and _may_disrupt(cluster, now)), budget)
    for name in profile.actions:
        if gentle and name in DISRUPTIVE:
            continue
        if name in DISRUPTIVE and cluster.bookings:
            trial.claims.keep_booked()
        ACTIONS[name](trial)
    trial.close()
    if budget is not None:
        budget.end()
    return trial.plan()


def _may_disrupt(cluster: Cluster, now: float) -> bool:
    """Whether a running job could have to make room for one that waits: then the jobs left out matter."""
    profile, running = cluster.profile, [level for level, count in cluster.preemptible.items() if count]
    if cluster.elastic and "shrink" in profile.actions:
        return True
    if not running or DISRUPTIVE.isdisjoint(profile.actions):
        return False
    if "rotate" in profile.actions and cluster.yields.due(now):
        return True
    if any(share.soft for share in profile.shares.values()):
        return True
    yields_to = max(running) - profile.preemption.gap
    return any(job_class.key.level <= yields_to for job_class in cluster.waiting.active.values())
