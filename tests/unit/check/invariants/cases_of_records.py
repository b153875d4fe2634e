"""E1 to E6: requests, ends, fences, results, checkpoints."""

from ares.check.invariants.history import LogSeen
from tests.unit.check.invariants.case import case, running
from tests.unit.check.invariants.forge import Forge, raised

# ---- E1


@case("E1", quiet=False)
def one_request_makes_two_jobs(forge: Forge, wrong: bool) -> None:
    forge.create("j1", "q1")
    forge.create("j2", "q1", tenant="alpha" if wrong else "beta")


@case("E1")
def a_request_is_forgotten_before_its_job(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", "q1")
    if not wrong:
        forge.cancel("j1")
        forge.forget("j1")
        return
    forge.commit(("/requests/alpha/q1", None))
    forge.cancel("j1")


@case("E1", quiet=False)
def a_repeat_gets_another_job(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", "q1")
    forge.create("j2")
    forge.answer(forge.ask("submit", "c2", request="q1", payload="p"), job="j2" if wrong else "j1", replayed=True)


@case("E1", quiet=False)
def another_payload_is_accepted(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", "q1")
    op = forge.ask("submit", request="q1", payload="other")
    if wrong:
        forge.answer(op, job="j1", replayed=True)
    else:
        forge.answer(op, "refused", code="request-conflict")


@case("E1", quiet=False)
def the_same_payload_is_a_conflict(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", "q1")
    op = forge.ask("submit", request="q1", payload="p" if wrong else "other")
    forge.answer(op, "refused", code="request-conflict")


@case("E1", quiet=False)
def an_acknowledged_job_is_not_in_the_store(forge: Forge, wrong: bool) -> None:
    op = forge.ask("submit")
    if not wrong:
        forge.create("j1")
    forge.answer(op, job="j1")


@case("E1", quiet=False)
def a_job_without_its_request(forge: Forge, wrong: bool) -> None:
    forge.create("j1", None if wrong else "q1")
    if wrong:
        forge.commit(("/requests/alpha/q1", {"job": "j9", "payloadSha256": "p"}))


# ---- E2


@case("E2", quiet=False)
def what_has_ended_is_reopened(forge: Forge, wrong: bool) -> None:
    running(forge)
    if wrong:
        forge.succeed("j1")
        forge.step("j1", "requeued", phase="PENDING", placements=[])
    else:
        forge.fail("j1")
        forge.requeue("j1")


@case("E2")
def what_holds_nothing_is_changed_after_its_end(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.cancel("j1")
    forge.end("j1", fence="1.1")
    forge.release("j1")
    if wrong:
        forge.step("j1", "released", said={"fence": "1.1"})


@case("E2", quiet=False)
def what_has_not_ended_is_forgotten(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    if not wrong:
        forge.cancel("j1")
    forge.forget("j1")


@case("E2")
def two_ends_in_one_commit(forge: Forge, wrong: bool) -> None:
    forge.create("j1")
    kinds = ("cancelled", "unknown") if wrong else ("preempting", "cancelled")
    forge.step("j1", *kinds, phase="CANCELLED", fence=raised(forge.states["j1"]["fence"]))


# ---- E3


@case("E3", quiet=False)
def a_grant_repeats_a_fence(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1", fence={"epoch": 1, "counter": 2 if wrong else 3})


@case("E3", quiet=False)
def a_fence_is_granted_again_after_a_restore(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    then = forge.moment()
    forge.bind("j1", "n1")
    forge.restore(then)
    forge.bind("j1", "n2", fence={"epoch": 1 if wrong else 2, "counter": 1})


@case("E3", quiet=False)
def taken_away_with_its_fence_still_valid(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.cancel("j1", fence={"epoch": 1, "counter": 1 if wrong else 2})


@case("E3", quiet=False)
def a_fence_falls(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.fail("j1")
    forge.step("j1", "requeued", phase="PENDING", fence={"epoch": 1, "counter": 1 if wrong else 2})


# ---- E4


@case("E4")
def an_old_attempt_ends_the_job(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1")
    forge.run("j1")
    forge.end("j1", how="exit 0")
    fence = forge.states["j1"]["fence"]
    said = {"by": "agent n1", "fence": "1.1" if wrong else "1.3"}
    forge.step("j1", "succeeded", said=said, result={"job": "j1", "fence": fence}, phase="SUCCEEDED")


@case("E4")
def a_success_that_no_process_had(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.end("j1", how="killed" if wrong else "exit 0")
    fence = forge.states["j1"]["fence"]
    said = {"by": "agent n1", "fence": "1.1"}
    forge.step("j1", "succeeded", said=said, result={"job": "j1", "fence": fence}, phase="SUCCEEDED")


@case("E4", quiet=False)
def a_start_that_never_was(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.bind("j1", "n1")
    if not wrong:
        forge.process("j1")
    forge.step("j1", "started", phase="RUNNING")


@case("E4", quiet=False)
def granted_while_it_waits_for_its_retry(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.fail("j1")
    if not wrong:
        forge.requeue("j1")
    forge.bind("j1", "n1")


@case("E4", quiet=False)
def a_process_without_a_grant(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.bind("j1", "n1")
    forge.process("j1", fence="1.2" if wrong else "1.1")


# ---- E5


@case("E5")
def a_result_of_an_old_fence(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1")
    forge.run("j1")
    forge.succeed("j1", fence={"epoch": 1, "counter": 1 if wrong else 3})


@case("E5")
def a_result_made_by_an_older_process(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1")
    forge.run("j1")
    forge.succeed("j1", {"fence": "1.1" if wrong else "1.3"})


@case("E5")
def a_second_result(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.succeed("j1", 1)
    if wrong:
        forge.commit(("/results/alpha/j1", {"job": "j1", "fence": {"epoch": 1, "counter": 1}, "value": 2}))


@case("E5")
def success_without_a_result(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.end("j1", how="exit 0")
    result = None if wrong else {"job": "j1", "fence": {"epoch": 1, "counter": 1}}
    forge.step("j1", "succeeded", said={"by": "agent n1"}, result=result, phase="SUCCEEDED")


@case("E5")
def a_client_is_shown_another_value(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.succeed("j1", {"answer": 42, "unit": "m"})
    forge.show("j1", {"answer": 43, "unit": "m"} if wrong else {"unit": "m", "answer": 42})


@case("E5", quiet=False)
def a_file_is_shown_before_it_is_committed(forge: Forge, wrong: bool) -> None:
    running(forge)
    if wrong:
        forge.show("j1", None, "outputs", model="d1")
    forge.succeed("j1", None, [{"path": "model", "size": 1, "sha256": "d1"}])
    forge.show("j1", None, "outputs", model="d1")


@case("E5")
def a_file_of_another_attempt_is_shown(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.succeed("j1", None, [{"path": "model", "size": 1, "sha256": "d1"}])
    forge.show("j1", None, "outputs", model="d2" if wrong else "d1")


# ---- E6


@case("E6", quiet=False)
def a_late_checkpoint_of_the_same_attempt_rolls_back(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.save("j1", 2)
    forge.save("j1", 1 if wrong else 3)


@case("E6", quiet=False)
def a_checkpoint_of_an_old_attempt(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.save("j1", 5)
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1")
    forge.save("j1", 6 if wrong else 1, fence="1.1" if wrong else "1.3")


@case("E6", quiet=False)
def an_attempt_resumes_from_an_older_one(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.save("j1", 1)
    forge.save("j1", 2)
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1")
    forge.process("j1", resumed="1.1/1/d1" if wrong else "1.1/2/d2")


@case("E6", quiet=False)
def an_attempt_resumes_from_another_digest(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.save("j1", 1)
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1")
    forge.process("j1", resumed="1.1/1/d9" if wrong else "1.1/1/d1")


@case("E6", quiet=False)
def a_checkpoint_after_the_loss_of_its_node(forge: Forge, wrong: bool) -> None:
    running(forge)
    if wrong:
        forge.lose("j1")
    else:
        said = {"by": "scheduler", "fence": "1.1", "data": {"rule": "drain"}}
        fence = raised(forge.states["j1"]["fence"])
        forge.step("j1", "preempted", said=said, phase="PREEMPTED", fence=fence, lingering=True)
    forge.save("j1", 1, fence="1.1")


@case("E6", quiet=False)
def what_was_accepted_is_not_there(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.save("j1", 1)
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1")
    if not wrong:
        forge.fault("blob-damage", "blobs")
    forge.step("j1", "checkpoint-damaged")


# ---- E23


@case("E23")
def a_log_lacks_output_and_does_not_say_so(forge: Forge, wrong: bool) -> None:
    forge.events.append(LogSeen(t=forge.after(1.0).t, job="j1", written=100, kept=40, told=not wrong))
