"""What a job takes of its tenant's limits from its admission to its end: a function of its specification alone, so that
only admissions can make a tenant use more."""

import re
from functools import lru_cache
from math import ceil

from ares.core.energy.known import known
from ares.core.quota.measures import ANY_MODEL, MODEL_PREFIX, Amounts
from ares.core.topology.cards import words
from ares.model.job import MEMORY_BURST, JobSpec, Resources

_WHOLE_GPU = 1000
# Compute slices of a GPU that MIG can hand out.
_MIG_SLICES = 7
_MIG = re.compile(r"mig-(\d)g\b")


def asked_by(spec: JobSpec) -> dict[str, int]:
    """For one job or one task, all its ranks together; of its alternatives, the most of each measure."""
    ranks = 1 if spec.gang is None else spec.gang.ranks
    most = _of(spec.resources)
    for other in spec.alternatives:
        for measure, units in _of(other).items():
            most[measure] = max(units, most.get(measure, 0))
    # What the job may use, not what it asks for: memory in use is gone for other jobs.
    most["memory"] *= MEMORY_BURST[spec.qos]
    if ranks > 1:
        most = {measure: ranks * units for measure, units in most.items()}
    most["jobs"] = 1
    return most


def _of(wants: Resources) -> dict[str, int]:
    found = {"cpu": wants.cpu_milli, "memory": wants.memory_mib}
    named = wants.gpus * wants.gpu_milli
    slices = sum(count * _slice(kind) for kind, count in wants.devices.items()) if wants.devices else 0
    if named or slices:
        found["gpus"] = named + slices
        model = ANY_MODEL if wants.gpu_model is None else MODEL_PREFIX + wants.gpu_model
        for key, units in ((model, named), (ANY_MODEL, slices)):
            if units:
                found[key] = found.get(key, 0) + units
    return found


def _slice(kind: str) -> int:
    """Thousandths of a GPU in a MIG slice; other devices are no GPUs."""
    found = _MIG.match(kind)
    return ceil(_WHOLE_GPU * int(found[1]) / _MIG_SLICES) if found else 0


def units_of(amounts: Amounts, measure: str) -> int:
    """The units of a measure; for one GPU model, all GPUs that may turn out to be of that model."""
    if not measure.startswith(MODEL_PREFIX):
        return amounts.get(measure, 0)
    model = measure.removeprefix(MODEL_PREFIX)
    return sum(
        units
        for key, units in amounts.items()
        if key.startswith(MODEL_PREFIX) and may_be(key.removeprefix(MODEL_PREFIX), model)
    )


@lru_cache(4096)
def may_be(named: str, model: str) -> bool:
    """Whether a job that names one model may get the other: not when it names a different card."""
    wanted, limited = words(named), words(model)
    return wanted <= limited or limited <= wanted or known(named) is None
