"""Figures of a replay, by hand."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from ares.model.profile import Pool
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.failures import NodeFailure
from ares.sim.traces.policies import POLICIES, ReplayPolicy, UnknownPolicy, policy
from ares.sim.traces.summary import jain, summary
from tests.unit.sim.traces.made import job, trace


def test_figures_of_two_jobs_one_after_the_other() -> None:
    found = replay(trace(job(0, 100, 4, tenant="a"), job(0, 20, 2, tenant="b", deadline_at=119.0)), policy("fcfs"))
    figures = summary(found)
    assert (figures.jobs, figures.unfinished, figures.failed, figures.attempts) == (2, 0, 0, 2)
    assert (figures.mean_jct_s, figures.median_jct_s) == (110, 110)
    assert figures.p95_jct_s == pytest.approx(119)
    assert (figures.mean_wait_s, figures.makespan_s) == (50, 120)
    assert figures.bounded_slowdown == (1 + 6) / 2
    assert figures.cpu_utilisation == pytest.approx((400 + 40) / (4 * 120))
    # One tenant's jobs ran all the time they were there, the other's a sixth.
    assert figures.jain == pytest.approx((1 + 1 / 6) ** 2 / (2 * (1 + 1 / 36)))
    assert (figures.deadlines, figures.deadline_misses) == (1, 1)


def test_the_longest_wait_and_that_of_wide_jobs() -> None:
    narrow = [job(0, 10, 2, expected_runtime_s=10.0) for _ in range(37)]
    wide = [job(0, 10, 4, expected_runtime_s=10.0), job(1, 10, 4, expected_runtime_s=10.0)]
    figures = summary(replay(trace(*narrow, *wide, job(2, 10, expected_runtime_s=10.0)), policy("fcfs")))
    # Nineteen turns of two narrow ones, the last of them alone; the wide ones next, and the last job after both.
    assert (figures.wide_mean_wait_s, figures.wide_longest_wait_s) == ((190 + 199) / 2, 199)
    assert figures.longest_wait_s == 208
    assert 199 < figures.p999_wait_s < 208


def test_short_jobs_count_as_ten_seconds() -> None:
    found = replay(trace(job(0, 40, 4), job(0, 1, 4)), policy("fcfs"))
    assert summary(found).bounded_slowdown == pytest.approx((1 + 4.1) / 2)


def test_a_lost_attempt_counts_as_waiting_for_the_slowdown_and_as_use() -> None:
    failures = (NodeFailure(at=30.0, node="n0", lasts_s=1.0),)
    found = replay(trace(job(0, 60, 4)), policy("fcfs"), ReplayOptions(failures=failures))
    figures = summary(found)
    (end,) = found.jobs.end
    assert end >= 91
    assert figures.bounded_slowdown == pytest.approx(end / 60)
    assert figures.cpu_utilisation == pytest.approx(90 / end)
    assert (figures.mean_wait_s, figures.attempts) == (0, 2)


def test_energy_and_cost_follow_the_pool() -> None:
    plain = POLICIES["fcfs"]
    pools = {"default": Pool(gpu_hour=2.0, gpu_watts=400.0, cpu_watts=0.0)}
    dear = ReplayPolicy(name="dear", profile=replace(plain.profile, pools=pools))
    figures = summary(replay(trace(job(0, 1800, gpus=2), gpus=2), dear))
    assert figures.cost == pytest.approx(2.0)
    assert figures.energy_kwh == pytest.approx(0.4)


def test_idle_gpu_is_fragmented_by_as_much_as_common_jobs_cannot_use() -> None:
    wide = [job(1, 1, gpus=4) for _ in range(3)]
    found = replay(trace(job(0, 10, gpus=1), *wide, nodes=1, gpus=4), policy("fcfs"))
    # While the single one runs, three idle GPUs are of no use to three jobs of four.
    assert found.series.fragmentation[found.series.time == 1][0] == pytest.approx(0.75)
    assert 0 < summary(found).fragmentation < 0.75


def test_nothing_at_all() -> None:
    figures = summary(replay(trace(), policy("easy")))
    assert (figures.jobs, figures.mean_jct_s, figures.makespan_s, figures.jain) == (0, 0, 0, 1)


def test_jain_of_one_who_has_everything() -> None:
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25
    assert jain(np.array([3.0, 3.0])) == 1.0


# ---- the bound


def test_the_oracle_stops_the_long_for_the_short() -> None:
    found = replay(trace(job(0, 100, 4), job(10, 10, 4), job(12, 3, 4)), policy("srtf"))
    assert found.jobs.end.tolist() == [113, 23, 15]
    assert found.jobs.preemptions.tolist() == [1, 1, 0]
    assert found.jobs.run.tolist() == [100, 10, 3]
    assert summary(found).unfinished == 0
    assert found.facts.estimates == "exact"


# ---- policies by name


def test_policies_from_files(tmp_path: Path) -> None:
    texts = {
        "a.json": '{"actions": ["allocate"], "prediction": {"source": "stated"}}',
        "b.yaml": "actions: [allocate]\n",
        "c.toml": 'actions = ["allocate"]\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found = policy(str(tmp_path / name))
        assert (found.name, found.profile.actions) == (name[0], ("allocate",))
        assert found.estimates == ("user" if name == "a.json" else "predicted")
    assert policy("easy@exact") == replace(POLICIES["easy"], name="easy@exact", estimates="exact")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("easiest", "no policy 'easiest': there are fcfs, greedy, easy"),
        ("easy@guess", "after @ comes user, exact or predicted, not 'guess'"),
    ],
)
def test_policies_that_are_not_there(text: str, words: str) -> None:
    with pytest.raises(UnknownPolicy, match=words):
        policy(text)


@pytest.mark.parametrize(
    "text", ["{", '{"actions": ["dance"]}', '{"actions": ["claim"]}', '{"actoins": []}', '{"maxPlacementsPerCycle": 0}']
)
def test_files_that_are_no_profile(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UnknownPolicy, match=r"p\.json: "):
        policy(str(path))
