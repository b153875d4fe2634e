"""How long a job runs on which GPU model, where it says so."""

from math import inf

from ares.core.topology.cards import words
from ares.model.job import JobSpec

# (model, seconds); the model "" stands for all that are not named.
Runs = tuple[tuple[str, float], ...]


def runs_by_model(spec: JobSpec) -> Runs:
    """Empty when the job does not tell models apart. On others than it names it runs as long as it says of itself."""
    said = spec.expected_runtimes_s
    if not said:
        return ()
    others = {} if spec.expected_runtime_s is None else {"": spec.expected_runtime_s}
    limit = inf if spec.time_limit_s is None else spec.time_limit_s
    return tuple((model, min(seconds, limit)) for model, seconds in sorted({**others, **said}.items()))


def runs_on(runs: Runs, gpu_model: str) -> float:
    """By whole words, as a job asks for a model; of several that fit, the most exact. Without any, the slowest."""
    name = words(gpu_model)
    fits = [(len(wanted), seconds) for model, seconds in runs if (wanted := words(model)) <= name]
    if not fits:
        return max(seconds for _, seconds in runs)
    most = max(fits)[0]
    return min(seconds for count, seconds in fits if count == most)


def fastest(runs: Runs) -> float:
    """On the best of the models it names."""
    return min(seconds for model, seconds in runs if model)
