"""When time alone makes a running job one that may have to make room for another: a cycle is due then."""

from collections.abc import Iterator

from ares.core.queue.service import next_step
from ares.core.schedule.cluster import Cluster
from ares.model.state import JobState

_LONGEST_S = 365 * 86_400.0


def looks(cluster: Cluster, state: JobState, now: float) -> Iterator[float]:
    """Of an attempt that begins now."""
    policy, holding = cluster.profile.preemption, cluster.holdings[state.id]
    yield now + policy.min_runtime_s
    if state.preempted_at is not None:
        yield max(now, state.preempted_at + policy.cooldown_s)
    if holding.served_s is not None and "rotate" in cluster.profile.actions:
        yield holding.yields_at
        service_s = next_step(holding.served_s)
        while service_s < _LONGEST_S:
            yield now + service_s - holding.served_s
            service_s = next_step(service_s)
