"""Tuning on made-up traces: repeatable, honest, and blind to what it is judged by."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace as put

from ares.check.replay.trace import Trace
from ares.sim.study.runs import StudyRunner, Task
from ares.sim.study.study import Source, StudyWorld
from ares.sim.traces.engine import ReplayOptions
from ares.sim.traces.policies import POLICIES, policy
from ares.sim.tune.page import figures, front_rows, report, verdict
from ares.sim.tune.search import AIMS, aims, beaten, costs
from ares.sim.tune.tune import WEEK_S, Goal, TooShort, Tuned, base_policy, choose, split, tune
from tests.unit.sim.written import NODES, table

GOAL = Goal(trials=6)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return Source(table(tmp_path_factory.mktemp("tune") / "jobs.csv", jobs=90), nodes=NODES).trace()


@pytest.fixture(scope="module")
def tuned(trace: Trace) -> Tuned:
    return tune(trace, base_policy(policy("fcfs")), StudyWorld(seed=3), GOAL)


def test_the_same_seed_gives_the_same_profile_on_any_number_of_cores(trace: Trace, tuned: Tuned) -> None:
    again = tune(trace, base_policy(policy("fcfs")), StudyWorld(seed=3), GOAL, workers=2)
    assert again.profile == tuned.profile
    assert [one.settings for one in again.found.trials] == [one.settings for one in tuned.found.trials]
    assert [one.summary for one in again.found.trials] == [one.summary for one in tuned.found.trials]
    assert again.held == tuned.held
    other = tune(trace, base_policy(policy("fcfs")), StudyWorld(seed=4), GOAL)
    assert [one.settings for one in other.found.trials] != [one.settings for one in tuned.found.trials]


def test_the_front_is_beaten_by_nobody(tuned: Tuned) -> None:
    table_ = costs(tuned.aims, [one.summary for one in tuned.found.trials])
    assert set(tuned.found.front) == {at for at, out in enumerate(beaten(table_)) if not out}
    assert set(tuned.front) <= set(tuned.found.front)


def test_held_out_jobs_are_not_seen_in_training(trace: Trace, tuned: Tuned) -> None:
    """Other jobs after the cut: the search goes the same way to the same profile."""
    cut = tuned.split.at
    strange = tuple(put(job, run_s=job.run_s * 50 + 7) if job.submit >= cut else job for job in trace.jobs)
    again = tune(replace(trace, jobs=strange), base_policy(policy("fcfs")), StudyWorld(seed=3), GOAL)
    assert [one.summary for one in again.found.trials] == [one.summary for one in tuned.found.trials]
    assert again.profile == tuned.profile
    assert again.held != tuned.held
    train, held = tuned.split.train.jobs, tuned.split.held.jobs
    assert (*train, *held) == trace.jobs
    assert max(job.submit for job in train) < cut <= min(job.submit for job in held)


def test_figures_on_held_out_jobs_are_those_of_a_replay_of_them(tuned: Tuned) -> None:
    with StudyRunner([tuned.split.held]) as runner:
        found = runner.summaries([Task(0, put(POLICIES["fcfs"], profile=tuned.profile), ReplayOptions(seed=3))])[0]
    assert put(found, policy="") == put(tuned.held[tuned.chosen], policy="")
    assert [run.policy for run in tuned.figures.runs] == ["fcfs", "tuned"]


def test_strict_order_without_backfill_can_be_beaten(tuned: Tuned) -> None:
    first = tuned.found.trials
    assert tuned.chosen
    assert first[tuned.chosen].summary.bounded_slowdown < first[0].summary.bounded_slowdown
    assert verdict(tuned).startswith(
        "On held-out jobs the tuned profile is better" if tuned.helps else "Tuning does not help"
    )


def test_it_is_said_when_held_out_jobs_do_not_gain(tuned: Tuned) -> None:
    worse = put(tuned.held[0], bounded_slowdown=tuned.held[0].bounded_slowdown * 2)
    sad = replace(tuned, held={**tuned.held, tuned.chosen: worse})
    assert not sad.helps
    assert sad.gain == pytest.approx(-1.0)
    assert "Tuning does not help" in verdict(sad)
    assert "+100.0 %" in verdict(sad)
    assert figures(sad)["helps"] is False
    assert "Tuning does not help" in report(sad)


def test_one_that_is_much_worse_in_another_aim_is_not_chosen(tuned: Tuned) -> None:
    goals = (AIMS["slowdown"], AIMS["fairness"])
    base, *others = tuned.found.trials
    unfair = [
        one._replace(summary=put(one.summary, bounded_slowdown=1.0, jain=base.summary.jain * 0.9)) for one in others
    ]
    found = tuned.found._replace(trials=(base, *unfair), front=tuple(range(len(unfair) + 1)))
    assert choose(found, goals) == 0
    bearable = unfair[0]._replace(summary=put(unfair[0].summary, jain=base.summary.jain * 0.99))
    assert choose(found._replace(trials=(base, bearable, *unfair[1:])), goals) == 1


def test_the_base_stays_when_nothing_is_better(tuned: Tuned) -> None:
    alone = replace(tuned, chosen=0)
    assert verdict(alone).startswith("No profile was found")
    assert next(row[0] for row in front_rows(alone)) == "base = tuned"


def test_the_page_is_well_formed_and_shows_every_trial(tuned: Tuned) -> None:
    tree = ET.fromstring(report(tuned).removeprefix("<!DOCTYPE html>\n"))
    plots = [one for one in tree.iter("svg") if " against " in one.get("aria-label", "")]
    assert plots
    for plot in plots:
        assert len(list(plot.iter("circle"))) == len(tuned.found.trials)


def test_weeks_are_not_cut_in_two(trace: Trace) -> None:
    first = trace.jobs[0].submit
    last = trace.jobs[-1].submit - first
    stretched = replace(
        trace, jobs=tuple(put(job, submit=first + (job.submit - first) / last * 10 * WEEK_S) for job in trace.jobs)
    )
    for holdout, weeks in ((0.3, 7), (0.24, 8), (0.5, 5), (0.9, 1), (0.05, 10)):
        cut = split(stretched, holdout)
        assert cut.at - first == pytest.approx(weeks * WEEK_S)


def test_what_cannot_be_split(trace: Trace) -> None:
    same = replace(trace, jobs=tuple(put(job, submit=5.0) for job in trace.jobs))
    with pytest.raises(TooShort, match="0 come before the cut"):
        split(same, 0.3)
    with pytest.raises(TooShort, match="1 jobs"):
        split(replace(trace, jobs=trace.jobs[:1]), 0.3)


def test_aims_fit_the_cluster(tuned: Tuned) -> None:
    base = tuned.found.trials[0].summary
    assert [one.field for one in aims((), put(base, energy_kwh=0.0, cost=0.0))] == [
        "bounded_slowdown",
        "gpu_utilisation",
        "jain",
    ]
    assert aims(("utilisation",), put(base, gpu_utilisation=0.0))[0].field == "cpu_utilisation"
    assert [one.name for one in aims(("wait", "cost", "wait"), base)] == ["wait", "cost"]


def test_a_named_base_keeps_its_cycles_short() -> None:
    assert base_policy(policy("easy")).profile.max_placements_per_cycle == 512
