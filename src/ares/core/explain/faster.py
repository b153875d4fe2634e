"""Why a job does not start although a GPU is free that it could have: on a better one it ends sooner."""

from ares.api.reasons import Reason
from ares.core.schedule.actions.pace import paced
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.pace import PacedJob
from ares.core.schedule.trial import Trial
from ares.core.text import clock, span
from ares.model.job import JobSpec
from ares.model.state import JobState

# Letters whose names begin with a vowel: models are mostly spelled.
_SPELLED = frozenset("AEFHILMNORSX")


def named(model: str) -> str:
    """an A100, a V100."""
    return f"{'an' if model[:1].upper() in _SPELLED else 'a'} {model}"


def paced_jobs(cluster: Cluster, now: float) -> dict[str, PacedJob]:
    """Where and when each job is to run that says how long it runs on which GPU model, as things are now."""
    if "pace" not in cluster.profile.actions:
        return {}
    cluster.prepare()
    with Trial.what_if(cluster, now) as trial:
        return paced(trial)


def would_wait(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Reason | None:
    """Why a job that is not there yet would wait although it fits. The cluster is left as it was."""
    if not spec.expected_runtimes_s:
        return None
    cluster.waiting.add(state, spec)
    try:
        one = paced_jobs(cluster, now).get(state.id)
    finally:
        cluster.waiting.remove(state.id)
    return None if one is None else waits_for_faster(one, now)


def waits_for_faster(one: PacedJob, now: float) -> Reason | None:
    """None when the job starts now, or there is no free GPU that it does without."""
    if one.start <= now or one.instead is None:
        return None
    model, runs_s = one.instead
    sooner_s = now + runs_s - one.end
    better = "GPUs" if one.model is None else named(one.model)
    message = (
        f"waits for {better}, free at about {clock(one.start, now)}: there it ends {span(sooner_s)} sooner than on the "
        f"{model} that is free now, by the run times it states"
    )
    numbers = {"waitsS": int(one.start - now), "soonerS": int(sooner_s)}
    return Reason(code="WAITING_FOR_FASTER", message=message, numbers=numbers)
