"""The cluster of a replay, with all nodes of its trace up and empty."""

from ares.check.replay.trace import Trace
from ares.core.forecast.estimate import Estimate, stated
from ares.core.forecast.predictor import Predictor
from ares.core.queue.static_queue import is_settled
from ares.core.schedule.cluster import Cluster
from ares.model.job import JobSpec
from ares.model.node import NodeRecord
from ares.model.profile import Profile


def machine(trace: Trace, profile: Profile) -> Cluster:
    cluster = Cluster(profile, _Told() if profile.prediction.source == "stated" else Predictor())
    # The profile stays as it is.
    cluster.metered = not is_settled(profile.order)
    for info in trace.nodes:
        cluster.put_node(NodeRecord(info=info, incarnation=1, registered_at=0.0))
        cluster.set_ready(info.name, True)
    return cluster


class _Told(Predictor):
    """A predictor that learns nothing: only the limits that jobs state count."""

    def met(self, job_id: str, spec: JobSpec, account: str, gpu_model: str | None = None) -> Estimate | None:
        del job_id, account
        return stated(spec, gpu_model)

    def ended(self, job_id: str, ran_s: float | None) -> None:
        pass


def id_of(job: int) -> str:
    """What the cluster calls a job of the trace."""
    return f"{job:08d}"
