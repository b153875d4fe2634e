"""When a need is met, open or impossible."""

import pytest
from msgspec.structs import replace

from ares.core.lifecycle.graph import step
from ares.core.lifecycle.inputs import Bind, Context, Stepped
from ares.core.needs.standing import ParentStanding, has_run, standing, standing_of_array, verdict
from ares.core.needs.verdict import judge
from ares.model.job import JobSpec, Need, NeedCondition, Parent
from ares.model.state import ExitInfo, Job, JobState, Phase, Placement


def _state(phase: Phase, *, ran: bool = False) -> JobState:
    return JobState(id="p", tenant="t", name="x", phase=phase, started_at=1.0 if ran else None)


# The table of docs/concepts/needs.md: the parent's end, whether it ran, and what each condition makes of it.
@pytest.mark.parametrize(
    ("phase", "ran", "success", "failure", "end", "start"),
    [
        ("WAITING", False, "open", "open", "open", "open"),
        ("PENDING", False, "open", "open", "open", "open"),
        ("RUNNING", True, "open", "open", "open", "met"),
        ("RETRYING", True, "open", "open", "open", "met"),
        ("SUCCEEDED", True, "met", "impossible", "met", "met"),
        ("FAILED", True, "impossible", "met", "met", "met"),
        ("FAILED", False, "impossible", "met", "met", "impossible"),
        ("UNKNOWN", True, "impossible", "met", "met", "met"),
        ("CANCELLED", True, "impossible", "impossible", "met", "met"),
        ("CANCELLED", False, "impossible", "impossible", "met", "impossible"),
        ("SKIPPED", False, "impossible", "impossible", "met", "impossible"),
    ],
)
def test_every_end_means_what_the_table_says(
    phase: Phase, ran: bool, success: str, failure: str, end: str, start: str
) -> None:
    found = standing(_state(phase, ran=ran))
    assert [verdict(on, found) for on in ("success", "failure", "end", "start")] == [success, failure, end, start]


@pytest.mark.parametrize("on", ["success", "failure", "end", "start"])
def test_a_job_that_is_no_longer_kept_can_meet_nothing(on: NeedCondition) -> None:
    assert verdict(on, None) == "impossible"


def test_an_array_counts_as_a_whole_also_while_tasks_are_missing() -> None:
    done, failed = _state("SUCCEEDED"), _state("FAILED", ran=True)
    assert verdict("success", standing_of_array(3, [done, done])) == "open"
    assert verdict("success", standing_of_array(3, [done, done, done])) == "met"
    assert verdict("success", standing_of_array(3, [failed])) == "impossible"
    assert verdict("failure", standing_of_array(2, [failed])) == "open"
    assert verdict("failure", standing_of_array(2, [failed, done])) == "met"


def test_counts_are_taken_away_as_they_were_added() -> None:
    whole = standing_of_array(2, [_state("RUNNING", ran=True), _state("PENDING")])
    after = whole.plus(standing(_state("RUNNING", ran=True)), -1).plus(standing(_state("SUCCEEDED", ran=True)))
    assert after == standing_of_array(2, [_state("SUCCEEDED", ran=True), _state("PENDING")])


def test_an_attempt_that_failed_by_itself_has_run() -> None:
    assert has_run(JobState(id="p", tenant="t", name="x", phase="FAILED", exit=ExitInfo(failure="oom")))
    assert not has_run(JobState(id="p", tenant="t", name="x", phase="FAILED", exit=ExitInfo(failure="staging")))


def test_a_job_that_is_bound_again_has_still_run() -> None:
    """Also when the next attempt ends before it starts: jobs that wait for its start are not skipped."""
    lost = _bound(_state("PENDING", ran=True))
    assert (lost.started_at, lost.first_started_at) == (None, 1.0)
    assert has_run(lost)
    assert verdict("start", standing(replace(lost, phase="CANCELLED"))) == "met"
    never = _bound(_state("PENDING"))
    assert never.first_started_at is None
    assert not has_run(never)
    assert _bound(replace(lost, phase="PENDING", started_at=9.0)).first_started_at == 1.0


def _bound(state: JobState) -> JobState:
    place = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=256)
    bound = step(
        Job(spec=JobSpec(command=("true",)), state=state), Bind(placements=(place,)), Context(now=9.0, jitter=0.0)
    )
    assert isinstance(bound, Stepped), bound
    return bound.state


def _judge(*needs: Need, index: int | None = None, **phases: Phase) -> tuple[str, str]:
    spec = JobSpec(command=("true",), needs=needs)

    def found(name: str) -> ParentStanding | None:
        return standing(_state(phases[name])) if name in phases else None

    said = judge(spec, index, found)
    return said.verdict, said.message


def test_k_of_n_is_met_by_enough_and_impossible_when_too_few_are_left() -> None:
    two = Need(of=(Parent(job="a"), Parent(job="b"), Parent(job="c")), k=2)
    assert _judge(two, a="SUCCEEDED", b="SUCCEEDED", c="PENDING")[0] == "met"
    assert _judge(two, a="SUCCEEDED", b="FAILED", c="PENDING") == (
        "open", "it waits for 2 of jobs a, b and c to succeed (1 of 2 so far)",
    )  # fmt: skip
    assert _judge(two, a="SKIPPED", b="FAILED", c="SUCCEEDED") == (
        "impossible", "it needs 2 of jobs a, b and c to succeed: jobs a and b can no longer",
    )  # fmt: skip


def test_all_needs_must_be_met_and_one_that_cannot_decides() -> None:
    needs = (Need(job="a"), Need(job="b", on="end"))
    assert _judge(*needs, a="SUCCEEDED", b="PENDING")[0] == "open"
    assert _judge(*needs, a="FAILED", b="PENDING")[0] == "impossible"
    assert _judge(*needs, a="SUCCEEDED", b="CANCELLED")[0] == "met"


def test_each_task_goes_by_the_task_of_its_own_index() -> None:
    assert _judge(Need(job="a", each=True), index=2, a_1="PENDING", a_2="SUCCEEDED")[0] == "met"
