"""Asked against used: parts, advice, and what is honestly unknown."""

from typing import Any

import pytest

from ares.edge.client.efficiency import Efficiency, efficiency
from ares.model.job import Gang, JobSpec, Resources
from ares.model.state import ExitInfo, JobState


def spec(**fields: Any) -> JobSpec:
    return JobSpec(command=("true",), resources=Resources(cpu_milli=8000, memory_mib=4096), **fields)


def ended(run_s: float = 100.0, **ending: Any) -> JobState:
    return JobState(
        id="a",
        tenant="t",
        name="n",
        phase="SUCCEEDED",
        started_at=1000.0,
        ended_at=1000.0 + run_s,
        exit=ExitInfo(**ending),
    )


def of(asked: JobSpec, *tasks: JobState) -> Efficiency:
    return efficiency(asked, tasks[0], tasks)


def test_parts_of_one_job() -> None:
    found = of(spec(time_limit_s=3600.0), ended(cpu_s=120.0, max_rss_mib=1000))
    assert (found.cpu.used, found.memory.used_mib, found.time.used_s) == (1.2, 1000, 100.0)
    assert found.advice == (
        "It used 1000 of 4096 MiB of memory at most: --memory 1.5G is enough.",
        "It kept 1.2 of 8 CPUs busy: --cpus 2 is enough.",
        "It took 3% of its time limit: with --time 3m it can start earlier.",
    )
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ({"max_rss_mib": 4000}, "within 96 MiB of its memory limit: ask for --memory 5G"),
        ({"failure": "oom", "max_rss_mib": 4096}, "killed for memory at 4096 MiB: ask for --memory 8G"),
        ({"cpu_s": 1200.0}, "kept 12.0 CPUs busy and asked for 8: ask for --cpus 15"),
    ],
)
def test_too_little_was_asked_for(ending: dict[str, Any], said: str) -> None:
    assert any(said in text for text in of(spec(), ended(**ending)).advice)


def test_what_is_well_used_needs_no_advice() -> None:
    assert of(spec(time_limit_s=150.0), ended(cpu_s=700.0, max_rss_mib=3000)).advice == ()


def test_short_attempts_say_nothing_about_cpus_and_time() -> None:
    assert of(spec(time_limit_s=3600.0), ended(1.0, cpu_s=0.1, max_rss_mib=3000)).advice == ()


def test_nothing_is_guessed() -> None:
    waiting = of(spec(), JobState(id="a", tenant="t", name="n"))
    assert (waiting.measured, waiting.cpu.used, waiting.memory.used_mib, waiting.time.used_s) == (0, None, None, None)
    assert (waiting.advice, "known at the end" in waiting.unknown[0]) == ((), True)
    cancelled = of(spec(), JobState(id="a", tenant="t", name="n", phase="CANCELLED"))
    assert "ended before its node could tell" in cancelled.unknown[0]
    silent = of(spec(), ended())
    assert "did not say how much CPU and memory" in silent.unknown[0]
    on_gpus = of(
        JobSpec(command=("x",), resources=Resources(gpus=2), gang=Gang(ranks=2)), ended(cpu_s=1.0, max_rss_mib=1)
    )
    assert (on_gpus.gpu.asked, on_gpus.gpu.used, len(on_gpus.unknown)) == (2.0, None, 2)


def test_an_array_is_taken_together() -> None:
    found = of(spec(), ended(100.0, cpu_s=100.0, max_rss_mib=100), ended(300.0, cpu_s=700.0, max_rss_mib=900), JobState(
        id="a_2", tenant="t", name="n", phase="RUNNING"))  # fmt: skip
    assert (found.tasks, found.measured, found.cpu.used) == (3, 2, 2.0)
    assert (found.memory.used_mib, found.memory.median_mib, found.time.used_s) == (900, 500, 300.0)
