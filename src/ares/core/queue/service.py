"""Service: how long a job that saves its work has held its place, over all of its attempts.

Where no run time is known, a job that has had little is likelier to end soon than one that has had much. Service
counts in steps that grow, so that jobs which have had about as much do not take turns with each other.
"""

from ares.core.lifecycle.ranks import saves
from ares.model.job import JobSpec
from ares.model.profile import OrderPolicy
from ares.model.state import JobState

# Less than the first step counts nothing; each further step is so many times the one before.
FIRST_S = 3600.0
GROWTH = 4.0
# A job that goes on from saved work holds its place for this part of what it has had, before it makes room again: so
# the number of its turns grows with the logarithm of its run time.
QUANTUM = 0.25


def counted(service_s: float) -> float:
    """What the service counts: the last step that it has reached."""
    step = 0.0
    following = FIRST_S
    while following <= service_s:
        step, following = following, following * GROWTH
    return step


def next_step(service_s: float) -> float:
    """The service at which it counts more."""
    return max(FIRST_S, counted(service_s) * GROWTH)


def quantum_s(service_s: float) -> float:
    """How long a job that had this much before holds its place at least."""
    return QUANTUM * service_s


def service_of(state: JobState, spec: JobSpec) -> float:
    """Seconds at full width, by attempts that are over. 0 of a job that does not save its work; work of which a
    checkpoint is known to be missing was lost, and is no service."""
    if not saves(spec) or not (state.gpu_s or state.cpu_s):
        return 0.0
    gpu_s, cpu_s = state.gpu_s, state.cpu_s
    if spec.checkpoint is not None:
        gpu_s = sum(part.gpu_s for part in state.spent if part.fate != "lost")
        cpu_s = sum(part.cpu_s for part in state.spent if part.fate != "lost")
    asks, ranks = spec.resources, 1 if spec.gang is None else spec.gang.ranks
    if asks.gpus:
        return gpu_s * 1000.0 / (asks.gpus * asks.gpu_milli * ranks)
    return cpu_s * 1000.0 / (asks.cpu_milli * ranks) if asks.cpu_milli else 0.0


def turn_of(submitted_at: float, service_s: float, order: OrderPolicy) -> float | None:
    """By age and service alone, as the order weighs them: the smaller comes first. None: service does not count."""
    weights = {factor.name: factor.weight for factor in order.primary}
    if not weights.get("served"):
        return None
    return weights.get("age", 0.0) * submitted_at + weights["served"] * counted(service_s)
