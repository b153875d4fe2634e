"""Machines by need on traces small enough to compute by hand."""

import pytest

from ares.check.replay.trace import Trace, TraceJob, fleet, node
from ares.model.job import JobSpec, Resources
from ares.sim.scaling.comparison import SCALERS, compare_scalers
from ares.sim.scaling.fleet import FleetTerms
from ares.sim.traces.policies import policy

_TERMS = FleetTerms(unit_hour=1.0, boot_s=120.0, idle_s=300.0)


def _job(number: int, submit: float, gpus: int, run_s: float, **more: object) -> TraceJob:
    wants = Resources(cpu_milli=1000, memory_mib=1, gpus=gpus)
    spec = JobSpec(command=("true",), resources=wants, time_limit_s=run_s, grace_s=0.0, **more)  # pyright: ignore[reportArgumentType]
    return TraceJob(id=str(number), submit=submit, run_s=run_s, spec=spec)


def test_a_quiet_day_costs_what_runs_and_not_what_could() -> None:
    """Two jobs of an hour, ten hours apart, on one machine of four."""
    trace = Trace("two", (_job(0, 0.0, 8, 3600.0), _job(1, 36_000.0, 8, 3600.0)), fleet(4, 32, 8, "A100"))
    found = {row.scaler: row for row in compare_scalers(trace, policy("easy"), _TERMS)}
    assert set(found) == set(SCALERS)
    assert all(row.jobs == 2 for row in found.values())
    always, ares = found["always on"], found["ares"]
    assert always.cost == pytest.approx(4 * 8 * 11.0)
    # Each time a machine for an hour and its boot, to within a look; idle minutes after the first only.
    assert ares.cost == pytest.approx(8 * (2 * (3600 + 120) + 300) / 3600, rel=0.03)
    assert (always.wait_s, ares.machines) == (0.0, 1)
    # Nothing runs that could make room: there is nothing to wait for.
    assert 120 <= ares.wait_s <= 120 + 120


def test_a_sum_that_no_machine_can_hold_buys_for_nothing_and_a_cycle_does_not() -> None:
    """Of two machines with 4 GPUs none takes a job of 5, which a threshold counts all the same."""
    nodes = (*fleet(2, 32, 4, "A100"), node("large", 32, 8, "A100"))
    jobs = (_job(0, 0.0, 8, 7200.0), _job(1, 10.0, 5, 600.0))
    found = {row.scaler: row for row in compare_scalers(Trace("odd", jobs, nodes), policy("easy"), _TERMS)}
    assert found["ares"].jobs == found["threshold"].jobs == 2
    assert found["ares"].machines == 1
    assert found["threshold"].machines > 1
    assert found["ares"].cost < found["threshold"].cost


def test_a_deadline_is_a_reason_to_pay() -> None:
    jobs = (_job(0, 0.0, 8, 3600.0, deadline_at=3600.0 + 120.0 + 200.0),)
    found = {row.scaler: row for row in compare_scalers(Trace("due", jobs, fleet(1, 32, 8)), policy("easy"), _TERMS)}
    assert (found["ares"].late, found["ares"].jobs) == (0, 1)
