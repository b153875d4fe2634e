"""Histories of jobs that wait for jobs, submit jobs, and read data."""

from tests.unit.check.invariants.case import case, running
from tests.unit.check.invariants.forge import Forge


@case("E19", quiet=False)
def released_before_its_parent_succeeded(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.wait("w1", needs=[{"job": "j1"}])
    if not wrong:
        forge.succeed("j1")
    forge.ready("w1")


@case("E19", quiet=False)
def released_by_too_few(forge: Forge, wrong: bool) -> None:
    running(forge)
    running(forge, "j2", "n2")
    forge.wait("w1", needs=[{"of": [{"job": "j1"}, {"job": "j2"}], "k": 2 if wrong else 1}])
    forge.succeed("j1")
    forge.ready("w1")


@case("E19", quiet=False)
def decided_a_second_time(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.wait("w1", {"heldBy": "ann"}, needs=[{"job": "j1"}])
    forge.succeed("j1")
    forge.ready("w1", phase="WAITING")
    if wrong:
        forge.ready("w1", phase="WAITING")
    forge.step("w1", "unheld", phase="PENDING", heldBy="")


@case("E19", quiet=False)
def skipped_while_it_could_still_happen(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.wait("w1", needs=[{"job": "j1"}])
    if not wrong:
        forge.cancel("j1")
    forge.unmet("w1")


@case("E19", quiet=False)
def given_up_too_early(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.wait("w1", needs=[{"job": "j1"}], needsTimeout={"afterS": 10.0, "then": "skip"})
    forge.after(5.0 if wrong else 11.0).overdue("w1")
    forge.unmet("w1")


@case("E19", quiet=False)
def given_up_though_it_happened_in_time(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.wait("w1", needs=[{"job": "j1"}], needsTimeout={"afterS": 10.0, "then": "skip"})
    forge.after(11.0)
    if wrong:
        forge.succeed("j1")
    forge.overdue("w1")
    if not wrong:
        forge.succeed("j1")
    forge.unmet("w1")


@case("E19", quiet=False)
def queued_while_a_person_holds_it(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.wait("w1", {"heldBy": "ann"}, needs=[{"job": "j1"}])
    forge.succeed("j1")
    forge.ready("w1", heldBy="ann" if wrong else "")


@case("E19", quiet=False)
def made_to_wait_for_a_job_that_is_not_kept(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.wait("w1", needs=[{"job": "gone" if wrong else "j1"}])


@case("E19", quiet=False)
def released_before_its_workflow_is_whole(forge: Forge, wrong: bool) -> None:
    forge.flow("f1", whole=False)
    forge.wait("w1", {"flow": "f1"})
    if not wrong:
        forge.flow("f1", whole=True)
    forge.ready("w1")


@case("E19", quiet=False)
def the_last_job_does_not_wait_for_the_others(forge: Forge, wrong: bool) -> None:
    forge.flow("f1", whole=False)
    forge.wait("w1", {"flow": "f1"})
    forge.wait("w2", {"flow": "f1", "isFinally": True})
    forge.flow("f1", whole=True)
    forge.ready("w1")
    if not wrong:
        forge.cancel("w1")
    forge.ready("w2")


@case("E19", quiet=False)
def a_gang_of_which_one_rank_started_has_not_started(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", gang={"ranks": 2})
    forge.bind("j1", "n1", "n2")
    forge.wait("w1", needs=[{"job": "j1", "on": "start"}])
    forge.process("j1", 0)
    forge.step("j1", "rank-started", said={"data": {"rank": 0}}, startedRanks=[0])
    if not wrong:
        forge.process("j1", 1)
        forge.step("j1", "rank-started", "started", said={"data": {"rank": 1}}, phase="RUNNING", startedRanks=[0, 1])
    forge.ready("w1")


@case("E19", quiet=False)
def an_attempt_that_its_program_ended_has_run(forge: Forge, wrong: bool) -> None:
    """The report of its start may never come."""
    forge.submit("j1")
    forge.bind("j1", "n1")
    forge.wait("w1", needs=[{"job": "j1", "on": "start"}])
    forge.process("j1")
    forge.fail("j1", "staging" if wrong else "exit")
    forge.ready("w1")


# ---- E26


def _child(forge: Forge, job: str = "c1", call: int = 1, counter: int = 1, depth: int = 1) -> None:
    made_by = {"job": "j1", "call": call, "fence": {"epoch": 1, "counter": counter}, "depth": depth}
    forge.wait(job, {"phase": "PENDING", "childOf": made_by})


@case("E26", quiet=False)
def a_child_of_an_attempt_that_lost_its_fence(forge: Forge, wrong: bool) -> None:
    running(forge)
    if wrong:
        forge.fail("j1")
    _child(forge)


@case("E26", quiet=False)
def a_child_by_another_fence(forge: Forge, wrong: bool) -> None:
    running(forge)
    _child(forge, counter=2 if wrong else 1)


@case("E26", quiet=False)
def two_children_of_one_call(forge: Forge, wrong: bool) -> None:
    running(forge)
    _child(forge)
    _child(forge, "c2", call=1 if wrong else 2)


@case("E26", quiet=False)
def a_child_deeper_than_it_says(forge: Forge, wrong: bool) -> None:
    running(forge)
    _child(forge, depth=2 if wrong else 1)


# ---- E27


def _reading(forge: Forge) -> None:
    forge.submit("j1", inputs=[{"name": "data", "from": "ares://datasets/rows@sha256:aa"}, {"name": "near"}])
    forge.bind("j1", "n1")


@case("E27", quiet=False)
def a_process_with_another_version_of_its_data(forge: Forge, wrong: bool) -> None:
    _reading(forge)
    forge.process("j1", data="bb" if wrong else "aa")


@case("E27", quiet=False)
def a_process_without_its_data(forge: Forge, wrong: bool) -> None:
    _reading(forge)
    if wrong:
        forge.process("j1")
    else:
        forge.process("j1", data="aa")
