"""One scheduling cycle: waiting jobs in order, each to its best place; then, if need be, room made for others."""

from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Plan
from ares.core.schedule.round import Round
from ares.model.profile import Profile


def cycle(cluster: Cluster, profile: Profile, now: float, keep: int = 0) -> Plan:
    """The same inputs give the same plan, and the cluster is left as it was. `keep` decisions are kept whole."""
    if cluster.profile != profile:
        cluster.configure(profile)
    cluster.prepare()
    round_ = Round(cluster, profile, now, keep)
    for name in profile.actions:
        ACTIONS[name](round_)
    round_.txn.rollback(0)
    return round_.plan()
