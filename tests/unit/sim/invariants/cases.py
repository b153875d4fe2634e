"""For every rule: histories that break it and nothing else, each beside the nearest one that does not."""

from collections.abc import Callable
from typing import NamedTuple

from ares.sim.invariants.history import Event
from tests.unit.sim.invariants.forge import Forge, raised


class Case(NamedTuple):
    rule: str
    name: str
    # Made wrong or, but for that one thing, right.
    make: Callable[[bool], list[Event]]


CASES: list[Case] = []
Act = Callable[[Forge, bool], None]


def case(rule: str, *, quiet: bool | None = None, **settings: float) -> Callable[[Act], Act]:
    def register(act: Act) -> Act:
        def make(wrong: bool) -> list[Event]:
            forge = Forge(**settings)
            act(forge, wrong)
            return forge.close(quiet=quiet)

        CASES.append(Case(rule, act.__name__, make))
        return act

    return register


def running(forge: Forge, job: str = "j1", node: str = "n1", **spec: object) -> None:
    forge.submit(job, **spec)
    forge.bind(job, node)
    forge.run(job)


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


# ---- E7


@case("E7", quiet=False)
def more_retries_than_its_limit(forge: Forge, wrong: bool) -> None:
    running(forge, retry={"limit": 1 if wrong else 2})
    for _ in range(2):
        forge.fail("j1")
        forge.requeue("j1")
        forge.bind("j1", "n1")
        forge.run("j1")


@case("E7", quiet=False)
def an_attempt_without_a_cause(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.end("j1", how="exit 1")
    used = {} if wrong else {"exit": 1}
    said = {"by": "agent n1", "fence": "1.1"}
    fence = {"epoch": 1, "counter": 2}
    # Sent back to the queue without a retry being counted.
    kinds = ("released", "requeued") if wrong else ("retrying", "requeued")
    forge.step("j1", *kinds, said=said, phase="PENDING", fence=fence, placements=[], retries=used)
    forge.bind("j1", "n1")


@case("E7", quiet=False)
def what_is_unsafe_is_started_twice(forge: Forge, wrong: bool) -> None:
    running(forge, effects="unsafe" if wrong else "staged")
    forge.fail("j1")
    forge.requeue("j1")
    forge.bind("j1", "n1")


@case("E7", quiet=False)
def it_leaves_for_others_beyond_the_cap(forge: Forge, wrong: bool) -> None:
    forge.profile(1, preemption={"cap": 1})
    forge.lead(None)
    forge.lead("r1")
    running(forge)
    for number in range(2):
        forge.create(f"w{number}")
        forge.step(f"w{number}", "preempting", evicting=["j1"])
        rule = "priority" if wrong else "drain"
        preempted(forge, "j1", rule)
        forge.bind("j1", "n1")
        forge.run("j1")


def preempted(forge: Forge, job: str, rule: str) -> None:
    """It leaves, and waits again."""
    state = forge.states[job]
    fence = f"1.{state['fence']['counter']}"
    said = {"by": "scheduler", "fence": fence, "data": {"rule": rule}}
    forge.step(job, "preempted", said=said, phase="PREEMPTED", fence=raised(state["fence"]), lingering=True)
    forge.end(job, fence=fence)
    forge.step(job, "requeued", said={"by": "agent n1"}, phase="PENDING", lingering=False, placements=[])


@case("E7", quiet=False)
def retried_by_hand_too_often(forge: Forge, wrong: bool) -> None:
    forge.commit(("/retry/alpha/j1", {"root": "j1", "jobs": ["j"] * (11 if wrong else 10)}))


# ---- E8


@case("E8", quiet=False)
def a_node_is_given_away_twice(forge: Forge, wrong: bool) -> None:
    for job in ("j1", "j2"):
        forge.submit(job)
        forge.bind(job, "n1", cpuMilli=2001 if wrong else 2000)


@case("E8", quiet=False)
def memory_is_given_away_twice(forge: Forge, wrong: bool) -> None:
    for job in ("j1", "j2"):
        forge.submit(job)
        forge.bind(job, "n1", memoryMib=2049 if wrong else 2048)


@case("E8", quiet=False)
def a_gpu_is_shared_out_beyond_the_whole(forge: Forge, wrong: bool) -> None:
    for job, share in (("j1", 600), ("j2", 600 if wrong else 400)):
        forge.submit(job)
        forge.bind(job, "n1", gpus=[1], gpuMilli=share)


@case("E8", quiet=False)
def a_gpu_that_is_not_there(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.bind("j1", "n1", gpus=[2 if wrong else 1])


@case("E8", quiet=False)
def the_place_of_what_may_still_run_is_given_away(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.bind("j1", "n1", cpuMilli=4000)
    forge.run("j1")
    forge.cancel("j1")
    forge.end("j1", fence="1.1")
    if not wrong:
        forge.release("j1")
    forge.submit("j2")
    forge.bind("j2", "n1")


@case("E8", quiet=False)
def a_tenant_gets_more_than_its_hard_share(forge: Forge, wrong: bool) -> None:
    forge.profile(1, shares={"alpha": {"hard": {"cpu": 1999 if wrong else 2000}}})
    forge.lead(None)
    forge.lead("r1")
    for job, node in (("j1", "n1"), ("j2", "n2")):
        forge.submit(job)
        forge.bind(job, node)


@case("E8", quiet=False)
def a_share_that_was_lowered_before_the_election(forge: Forge, wrong: bool) -> None:
    forge.profile(1, shares={"alpha": {"hard": {"cpu": 2000}}})
    forge.profile(2, shares={"alpha": {"hard": {"cpu": 1000}}})
    if wrong:
        forge.lead(None)
        forge.lead("r1")
    for job, node in (("j1", "n1"), ("j2", "n2")):
        forge.submit(job)
        forge.bind(job, node)


@case("E8", quiet=False)
def a_licence_too_many(forge: Forge, wrong: bool) -> None:
    forge.profile(1, licences={"sim": 1 if wrong else 2})
    forge.lead(None)
    forge.lead("r1")
    for job in ("j1", "j2"):
        forge.submit(job, licences={"sim": 1})
        forge.bind(job, "n1")


@case("E8", quiet=False)
def room_is_kept_for_who_does_not_wait(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.step("j1", "preempting", hold=[{"node": "n1"}])
    if wrong:
        forge.bind("j1", "n1")
    else:
        forge.step("j1", "preempting", hold=[])


@case("E8", quiet=False)
def somebody_leaves_for_nobody(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.create("w1")
    forge.step("w1", "preempting", evicting=["j9" if wrong else "j1"])
    preempted(forge, "j1", "priority")


# ---- E9


@case("E9", quiet=False)
def a_zombie_lives_too_long(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.lose("j1")
    forge.after(8.1 if wrong else 7.9).end("j1", fence="1.1")


@case("E9", quiet=False)
def a_zombie_that_was_asleep_acts_after_its_check(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.freeze("job j1 1.1")
    forge.lose("j1")
    forge.after(20.0).wake("job j1 1.1")
    forge.after(1.1 if wrong else 0.9).effect("j1", fence="1.1")
    forge.end("j1", fence="1.1")


@case("E9", quiet=False)
def cancelled_and_still_there_after_its_grace(forge: Forge, wrong: bool) -> None:
    running(forge, graceS=5.0)
    forge.cancel("j1")
    forge.after(13.1 if wrong else 12.8).end("j1", fence="1.1")


@case("E9", quiet=False)
def nobody_could_tell_it_to_stop(forge: Forge, wrong: bool) -> None:
    running(forge, graceS=5.0)
    if not wrong:
        forge.fault("cut", "r1")
    forge.cancel("j1")
    forge.after(60.0).end("j1", fence="1.1")


# ---- E10


@case("E10", quiet=False)
def two_attempts_meet(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.lose("j1")
    forge.requeue("j1")
    forge.bind("j1", "n2")
    if not wrong:
        forge.end("j1", fence="1.1", node="n1")
    forge.process("j1")
    if wrong:
        forge.end("j1", fence="1.1", node="n1")


@case("E10", quiet=False)
def what_was_asleep_stays_after_it_woke(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.freeze("node n1")
    forge.lose("j1")
    forge.requeue("j1")
    forge.bind("j1", "n2")
    forge.process("j1")
    forge.wake("node n1")
    forge.after(2.1 if wrong else 1.9).end("j1", fence="1.1", node="n1")


@case("E10", quiet=False)
def an_older_attempt_begins_after_a_newer(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.bind("j1", "n1")
    if not wrong:
        forge.process("j1")
        forge.end("j1")
    forge.lose("j1")
    forge.requeue("j1")
    forge.bind("j1", "n2")
    forge.process("j1")
    forge.end("j1")
    if wrong:
        forge.process("j1", fence="1.1", node="n1")
        forge.end("j1", fence="1.1", node="n1")


@case("E10", quiet=False, machines=False)
def an_older_attempt_acts_where_ends_are_not_known(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.lose("j1")
    if not wrong:
        forge.effect("j1", fence="1.1", node="n1")
    forge.requeue("j1")
    forge.bind("j1", "n2")
    forge.process("j1")
    if wrong:
        forge.effect("j1", fence="1.1", node="n1")


# ---- E11


@case("E11", quiet=True)
def a_job_is_left(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    if not wrong:
        forge.cancel("j1")


@case("E11", quiet=True)
def an_ended_job_holds_its_place(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.cancel("j1")
    forge.end("j1", fence="1.1")
    if not wrong:
        forge.release("j1")


@case("E11", quiet=True)
def an_array_lacks_a_task(forge: Forge, wrong: bool) -> None:
    forge.array("a1", 3, made=2 if wrong else 3)
    for task in list(forge.states):
        forge.cancel(task)


@case("E11", quiet=True)
def a_process_is_left(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.bind("j1", "n1")
    forge.process("j1")
    forge.lose("j1")
    forge.cancel("j1", lingering=False)
    if not wrong:
        forge.end("j1", fence="1.1", node="n1")


@case("E11", quiet=False, liveness_s=50.0)
def a_job_does_not_end_long_after_healing(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.heal()
    forge.after(60.0 if wrong else 40.0)


# ---- E12


@case("E12", quiet=False)
def a_lost_node_is_noticed_late(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.lost("n1")
    forge.after(7.0).end("j1")
    forge.after(3.5 if wrong else 2.5).lose("j1")


@case("E12", quiet=False)
def a_lost_node_is_never_noticed(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.lost("n1")
    forge.after(7.0).end("j1")
    if not wrong:
        forge.after(1.0).back("n1")
    forge.after(20.0)


@case("E12", quiet=False)
def a_lost_node_is_noticed_late_though_a_link_is_broken(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.lost("n1")
    forge.after(7.0).end("j1")
    who = "node n2" if wrong else "store"
    forge.fault("away", who)
    forge.after(2.0).fault("away", who, over=True)
    forge.after(5.0).lose("j1")


@case("E12", quiet=False)
def a_new_leader_counts_anew(forge: Forge, wrong: bool) -> None:
    running(forge)
    if wrong:
        forge.lead(None)
        forge.lead("r2")
    forge.lost("n1")
    forge.after(7.0).end("j1")
    if not wrong:
        forge.lead(None)
        forge.lead("r2")
    forge.after(5.0).lose("j1")


@case("E12", quiet=False)
def a_longer_lease_is_waited_for(forge: Forge, wrong: bool) -> None:
    running(forge, leaseS=9.0 if wrong else 20.0)
    forge.lost("n1")
    forge.after(7.0).end("j1")
    forge.after(8.0).lose("j1")


# ---- E13


@case("E13")
def an_acknowledged_cancel_is_lost(forge: Forge, wrong: bool) -> None:
    running(forge)
    op = forge.ask("cancel", job="j1")
    forge.answer(op, "ok" if wrong else "unknown", job="j1")
    forge.succeed("j1")


@case("E13")
def a_task_survives_the_cancel_of_its_array(forge: Forge, wrong: bool) -> None:
    forge.array("a1", 2)
    op = forge.ask("cancel", job="a1")
    forge.cancel("a1_0")
    if wrong:
        forge.answer(op, job="a1")
    forge.cancel("a1_1")
    if not wrong:
        forge.answer(op, job="a1")


# ---- E14


@case("E14", quiet=False)
def granted_while_nobody_leads(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.lead(None)
    if not wrong:
        forge.lead("r1")
    forge.bind("j1", "n1")


@case("E14", quiet=False)
def granted_by_who_led_before(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.lead(None)
    forge.lead("r2")
    forge.bind("j1", "n1", by="r1" if wrong else "r2")


@case("E14", quiet=False)
def leadership_is_taken_over(forge: Forge, wrong: bool) -> None:
    if not wrong:
        forge.lead(None)
    forge.lead("r2")


# ---- E15


@case("E15", quiet=False)
def a_change_without_an_entry(forge: Forge, wrong: bool) -> None:
    forge.create("j1")
    forge.step("j1", *(() if wrong else ("preempting",)), reason="because")


@case("E15", quiet=False)
def a_hole_in_the_ledger(forge: Forge, wrong: bool) -> None:
    forge.create("j1")
    forge.step("j1", "preempting", seq=2 if wrong else 1)


@case("E15", quiet=False)
def an_entry_is_overwritten(forge: Forge, wrong: bool) -> None:
    forge.create("j1")
    forge.step("j1", "preempting")
    seq = 1 if wrong else 3
    entry = {"job": "j1", "tenant": "alpha", "seq": seq, "kind": "preempting", "phase": "PENDING"}
    forge.commit((f"/events/alpha/j1/{seq:010d}", entry), ("/state/alpha/j1", {**forge.states["j1"], "seq": 3}))


@case("E15")
def an_entry_is_removed(forge: Forge, wrong: bool) -> None:
    forge.create("j1")
    forge.cancel("j1")
    if wrong:
        forge.commit(("/events/alpha/j1/0000000001", None))
    else:
        forge.forget("j1")


@case("E15", quiet=False)
def the_record_forgets_who_may_be_alive(forge: Forge, wrong: bool) -> None:
    running(forge)
    state = forge.states["j1"]
    said = {"by": "controller", "fence": "1.1"}
    # Ended by the controller: no agent has said that its process is gone.
    forge.step(
        "j1", "retrying", said=said, phase="RETRYING", fence=raised(state["fence"]), lingering=not wrong,
        retries={"exit": 1}, placements=[] if wrong else state["placements"],
    )  # fmt: skip
    forge.end("j1", fence="1.1")


@case("E15")
def an_acknowledged_retry_is_not_in_the_ledger(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.fail("j1")
    op = forge.ask("retry", job="j1")
    if wrong:
        forge.requeue("j1")
    else:
        forge.step("j1", "retry-requested", phase="PENDING", manualRetries=1)
    forge.answer(op, job="j1")
    forge.cancel("j1")


@case("E15", quiet=False)
def a_ledger_names_another_tenants_job(forge: Forge, wrong: bool) -> None:
    forge.create("secret-1", tenant="beta" if wrong else "alpha")
    forge.create("j1")
    forge.step("j1", "preempting", said={"data": {"victims": ["secret-1"]}})


# ---- E16


@case("E16", quiet=False)
def a_client_sees_a_job_go_back(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.get("j1")
    forge.get("j1", **({"phase": "STAGING", "seq": 2} if wrong else {}))


@case("E16", quiet=False)
def one_number_has_two_phases(forge: Forge, wrong: bool) -> None:
    running(forge)
    forge.get("j1")
    forge.get("j1", phase="STAGING" if wrong else "RUNNING")


# ---- E17


@case("E17", quiet=False)
def half_a_gang_is_granted(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", gang={"ranks": 2} if wrong else {"ranks": 2, "minRanks": 1})
    forge.bind("j1", "n1")


@case("E17", quiet=False)
def a_gang_runs_before_all_have_started(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", gang={"ranks": 2})
    forge.bind("j1", "n1", "n2")
    forge.process("j1", 0)
    forge.process("j1", 1)
    started = [0] if wrong else [0, 1]
    forge.step("j1", "rank-started", "started", said={"data": {"rank": 0}}, phase="RUNNING", startedRanks=started)


@case("E17", quiet=False)
def a_rank_number_is_given_twice(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", gang={"ranks": 2, "minRanks": 1})
    forge.bind("j1", "n1", "n2")
    forge.run("j1")
    first, second = forge.states["j1"]["placements"]
    lost = {"data": {"ranks": 1, "lost": [{"rank": 1, "node": "n2"}]}}
    forge.end("j1", 1)
    forge.step("j1", "resized", said=lost, placements=[first], endedRanks=[1])
    rank = 1 if wrong else 2
    ended = [] if wrong else [1]
    places = [first, {**second, "rank": rank}]
    forge.step("j1", "resized", said={"by": "scheduler"}, by="r1", placements=places, endedRanks=ended)


# ---- E18


@case("E18", quiet=False)
def a_rank_is_started_twice(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", gang={"ranks": 2})
    forge.bind("j1", "n1", "n2")
    forge.process("j1", 0)
    forge.process("j1", 0 if wrong else 1)


@case("E18", quiet=False)
def a_process_acts_after_its_end(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.bind("j1", "n1")
    forge.process("j1")
    if not wrong:
        forge.effect("j1")
    forge.end("j1")
    if wrong:
        forge.effect("j1")


# ---- all clients together


@case("linear", quiet=False)
def a_client_is_shown_what_is_over(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.bind("j1", "n1")
    op = forge.ask("get", "c2", job="j1")
    if not wrong:
        forge.process("j1")
        forge.step("j1", "started", phase="RUNNING")
        forge.answer(op, job="j1", phase="STAGING", seq=2)
        return
    forge.answer(op, job="j1", phase="PENDING", seq=1)
