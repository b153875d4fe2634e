"""The router over several regions, on traces small enough to see what is best."""

import pytest

from ares.check.replay.trace import BadTrace, Trace, TraceJob, fleet
from ares.model.job import JobSpec, Resources
from ares.sim.routing.comparison import RULES, compare
from ares.sim.traces.policies import policy


def _trace(*jobs: tuple[float, int, float], cpus: int = 10) -> Trace:
    """Of (submitted at, processors, run time); each states how long it runs."""
    made = tuple(
        TraceJob(
            id=str(number), submit=submit, run_s=run_s,
            spec=JobSpec(
                command=("true",), resources=Resources(cpu_milli=1000 * wants, memory_mib=1), time_limit_s=run_s,
                grace_s=0.0,
            ),
        )
        for number, (submit, wants, run_s) in enumerate(jobs)
    )  # fmt: skip
    return Trace("small", made, fleet(1, cpus))


def test_a_long_queue_is_passed_by() -> None:
    """Two whole machines for 1,000 s and 100 s, then small jobs: round-robin sends half of them behind the long one."""
    trace = _trace((0, 10, 1000), (0, 10, 100), *((20 + 2 * n, 5, 100) for n in range(6)))
    found = {row.rule: row for row in compare(trace, policy("easy"), 2)}
    assert set(found) == {"oracle", *RULES}
    assert all(row.jobs == 8 for row in found.values())
    assert found["oracle"].above == 0
    # Most of them go behind the short one.
    assert found["router"].completion_s < found["round-robin"].completion_s


def test_a_burst_of_one_moment_is_spread() -> None:
    trace = _trace(*((0, 10, 100) for _ in range(6)))
    found = {row.rule: row for row in compare(trace, policy("easy"), 3)}
    assert found["router"].completion_s == found["oracle"].completion_s == pytest.approx(150.0)


def test_regions_of_several_machines_are_refused() -> None:
    trace = Trace("two", _trace((0, 1, 1)).jobs, fleet(2, 10))
    with pytest.raises(BadTrace, match="regions have one machine each, and this has 2"):
        compare(trace, policy("easy"))
