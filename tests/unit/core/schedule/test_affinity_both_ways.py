"""Jobs near to and away from each other: whichever of them comes first."""

import pytest

from ares.core.explain.why import why_waiting
from ares.core.schedule.cluster import Cluster
from ares.model.job import JobSpec, JobTerm
from tests.unit.core.world import NOW, cluster, node, nodes_of, placed, plan, run, spec, state


def away(level: str = "node", **labels: str) -> JobTerm:
    return JobTerm(labels=labels, level=level, away=True)  # pyright: ignore[reportArgumentType]


def near(level: str = "node", **labels: str) -> JobTerm:
    return JobTerm(labels=labels, level=level)  # pyright: ignore[reportArgumentType]


def two_nodes() -> Cluster:
    return cluster(node("a", cpu=8), node("b", cpu=8))


def queue(made: Cluster, name: str, wants: JobSpec) -> None:
    made.enqueue(state(name), wants)


QUIET = spec(job_affinity=(away(app="noisy"),))
NOISY = spec(labels={"app": "noisy", "step": "1"})


@pytest.mark.parametrize("first", ["quiet", "noisy"])
def test_required_away_holds_whichever_runs_first(first: str) -> None:
    jobs = {"quiet": QUIET, "noisy": NOISY}
    made = two_nodes()
    run(made, first, jobs.pop(first), placed("a"))
    ((second, wants),) = jobs.items()
    queue(made, second, wants)
    assert nodes_of(plan(made)) == [(second, "b")]


@pytest.mark.parametrize("order", [("quiet", "noisy"), ("noisy", "quiet")])
def test_and_in_one_cycle_whichever_is_ahead(order: tuple[str, str]) -> None:
    jobs = {"quiet": QUIET, "noisy": NOISY}
    made = two_nodes()
    for name in order:
        queue(made, name, jobs[name])
    found = dict(nodes_of(plan(made)))
    assert sorted(found.values()) == ["a", "b"]


def test_a_job_that_waited_before_is_kept_off_as_well() -> None:
    """The noisy job waits in a class of its own kind before any job is known that must be away from it."""
    made = cluster(node("a", cpu=8))
    queue(made, "noisy", NOISY)
    queue(made, "other", spec(labels={"app": "calm"}))
    run(made, "quiet", QUIET, placed("a"))
    assert nodes_of(plan(made)) == [("other", "a")]
    made.release("quiet")
    assert sorted(nodes_of(plan(made))) == [("noisy", "a"), ("other", "a")], "nothing is left of the term"
    assert not made.waiting.repulsions


def test_it_holds_for_wider_places_other_tenants_do_not_count_and_all_labels_must_match() -> None:
    made = cluster(node("a", cpu=8, rack="r"), node("b", cpu=8, rack="r"))
    run(made, "quiet", spec(job_affinity=(away("rack", app="noisy", step="1"),)), placed("a"))
    queue(made, "noisy", NOISY)
    queue(made, "near", spec(labels={"app": "noisy"}))
    made.enqueue(state("foreign", tenant="u"), NOISY)
    assert sorted(dict(nodes_of(plan(made)))) == ["foreign", "near"]


def test_a_preferred_term_keeps_no_job_off() -> None:
    made = cluster(node("a", cpu=8))
    run(made, "quiet", spec(job_affinity=(JobTerm(labels={"app": "noisy"}, away=True, required=False),)), placed("a"))
    queue(made, "noisy", NOISY)
    assert nodes_of(plan(made)) == [("noisy", "a")]


def test_near_to_ones_own_label_starts_and_the_others_follow() -> None:
    together = spec(cpu=1, labels={"app": "x"}, job_affinity=(near(app="x"),))
    made = two_nodes()
    for number in range(3):
        queue(made, f"j{number}", together)
    found = dict(nodes_of(plan(made)))
    assert len(found) == 3
    assert len(set(found.values())) == 1


def test_near_to_labels_it_does_not_carry_waits_for_such_a_job() -> None:
    made = two_nodes()
    queue(made, "j", spec(labels={"app": "x"}, job_affinity=(near(app="y"),)))
    assert nodes_of(plan(made)) == []


def test_why_it_waits_names_the_label_and_where() -> None:
    made = cluster(node("a", cpu=8))
    run(made, "quiet", QUIET, placed("a"))
    queue(made, "noisy", NOISY)
    made.prepare()
    job_class = made.waiting.class_of("noisy")
    assert job_class is not None
    reason = why_waiting(made, job_class.key, NOW)
    assert reason is not None
    assert reason.code == "JOB_AFFINITY_UNMET"
    assert "carries app=noisy" in reason.message
    assert "on a" in reason.message
