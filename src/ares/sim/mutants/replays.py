"""Small traces that show what the scheduler promises, each replayed under a policy and judged by the checker.

The product keeps what it says in each of them.
"""

from dataclasses import dataclass

from ares.check.replay.checker import Checker
from ares.check.replay.trace import Trace, TraceJob, fleet
from ares.model.job import JobSpec, Resources
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.policies import policy

# What the checker finds: a decision that is not as it must be, and a start later than the first time that was named.
ORDER, KEPT = "order", "kept"
_CPUS = 4


@dataclass(frozen=True, slots=True)
class Replay:
    what: str
    policy: str
    jobs: tuple[TraceJob, ...]


def _job(submit: float, run_s: float, cpus: int, states_s: float | None, name: str = "job") -> TraceJob:
    spec = JobSpec(
        command=("true",),
        name=name,
        resources=Resources(cpu_milli=1000 * cpus, memory_mib=1),
        expected_runtime_s=states_s,
    )
    return TraceJob(id=f"{name}-{submit:g}", submit=submit, run_s=run_s, spec=spec)


# Of ten like jobs two run long: the median says 5 s, and one in ten takes a thousand.
_TAILED = tuple(_job(1100.0 * n, 1000.0 if n % 5 == 4 else 5.0, 1, None, "tail") for n in range(20))
_SHORT = tuple(_job(10.0 * n, 5.0, 1, 100.0, "train") for n in range(20))

REPLAYS: dict[str, Replay] = {
    "one-in-ten-runs-long": Replay(
        "who waits for a job of which nobody knows how long it runs, but that its like run long now and then",
        "easy@predicted",
        (*_TAILED, _job(30_000.0, 1000.0, 3, None, "tail"), _job(30_001.0, 100.0, 4, 100.0, "wide")),
    ),
    "runs-on": Replay(
        "a job runs on beyond what it said while another waits for it, and a short one comes",
        "easy",
        (_job(0.0, 40.0, 3, 10.0), _job(0.001, 100.0, 4, 100.0), _job(15.0, 4.0, 1, 4.0)),
    ),
    "states-more-than-its-like": Replay(
        "who waits for a job that states a thousand seconds, and whose like took five",
        "easy@predicted",
        (*_SHORT, _job(300.0, 1000.0, 3, 1000.0, "train"), _job(301.0, 100.0, 4, 100.0, "wide")),
    ),
}


def judged(name: str) -> tuple[str, ...]:
    """What the checker has against the replay: nothing, with the product as it is."""
    case = REPLAYS[name]
    by, trace = policy(case.policy), Trace(name, case.jobs, fleet(1, _CPUS))
    checker = Checker(trace, by.name, by.profile)
    replay(trace, by, ReplayOptions(log=checker))
    verdict = checker.verdict()
    late = verdict.kept < verdict.told
    return (*((ORDER,) if verdict.broken else ()), *((KEPT,) if late else ()))
