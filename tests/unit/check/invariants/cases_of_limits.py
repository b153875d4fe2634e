"""E7 to E10, E20: budgets, room, zombies, overlaps, shares."""

from tests.unit.check.invariants.case import case, running
from tests.unit.check.invariants.forge import Forge

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
        forge.preempt("j1", rule)
        forge.bind("j1", "n1")
        forge.run("j1")


@case("E7", quiet=False)
def an_agent_that_is_told_to_stop_costs_a_retry(forge: Forge, wrong: bool) -> None:
    running(forge, retry={"limit": 2})
    forge.fault("told-to-stop", "agent n1")
    forge.end("j1", how="terminated" if wrong else "exit 1")
    said = {"by": "agent n1", "fence": "1.1"}
    fence = {"epoch": 1, "counter": 2}
    forge.step("j1", "retrying", said=said, phase="RETRYING", fence=fence, placements=[], retries={"exit": 1})


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
    forge.preempt("j1", "priority")


@case("E8", quiet=False)
def a_job_beyond_the_quota(forge: Forge, wrong: bool) -> None:
    forge.quota(jobs=3 if wrong else 4, threshold=1.0)
    forge.submit("j1")
    # All tasks count from the moment the array is there.
    forge.array("a1", 2)
    forge.submit("j2")


@case("E8", quiet=False)
def an_array_that_is_beyond_the_limit(forge: Forge, wrong: bool) -> None:
    forge.quota(jobs=10)
    forge.array("a1", 11 if wrong else 10)


@case("E8", quiet=False)
def what_has_ended_counts_no_more(forge: Forge, wrong: bool) -> None:
    forge.quota(jobs=1, threshold=1.0)
    forge.submit("j1")
    if not wrong:
        forge.cancel("j1")
    forge.submit("j2")


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


# ---- E20


@case("E20", quiet=False)
def a_tenant_s_own_yields_to_a_borrower(forge: Forge, wrong: bool) -> None:
    forge.profile(1, shares={"alpha": {"soft": {"cpu": 1000}}, "beta": {"soft": {"cpu": 1000 if wrong else 4000}}})
    forge.lead(None)
    forge.lead("r1")
    running(forge)
    forge.create("large", tenant="beta")
    forge.bind("large", "n2", cpuMilli=2000)
    forge.after(10.0)
    forge.create("asker", tenant="beta")
    hold = {"node": "n1", "rank": 0, "incarnation": 1, "cpuMilli": 1000, "memoryMib": 64}
    forge.step("asker", "preempting", hold=[hold], evicting=["j1"])
    forge.preempt("j1", "priority")


# ---- E24


@case("E24", quiet=False)
def an_attempt_gets_what_was_asked_for_before(forge: Forge, wrong: bool) -> None:
    forge.submit("j1", resources={"memoryMib": 64})
    forge.update("j1", memoryMib=128)
    forge.bind("j1", "n1", memoryMib=64 if wrong else 128)


@case("E24", quiet=False)
def what_an_attempt_has_is_changed_under_it(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    forge.update("j1", memoryMib=64)
    forge.bind("j1", "n1")
    forge.run("j1")
    forge.update("j1", memoryMib=65 if wrong else 64)


@case("E24", quiet=False)
def a_change_without_a_word_in_the_ledger(forge: Forge, wrong: bool) -> None:
    forge.submit("j1")
    kind = "preempting" if wrong else "updated"
    forge.step("j1", kind, said={"by": "scheduler"}, update={"resources": {"memoryMib": 64}}, updates=1)


# ---- E25


@case("E25")
def a_moment_of_a_schedule_makes_two_jobs(forge: Forge, wrong: bool) -> None:
    forge.cron()
    for n, job in enumerate(("j1", "j2")):
        forge.submit(job, f"cron often {3600 * (n + 1)}")
        forge.cancel(job)
    forge.cron(*(("j2",) if wrong else ("j1", "j2")))


@case("E25", quiet=False)
def a_schedule_notes_a_moment_twice(forge: Forge, wrong: bool) -> None:
    at = 3600.0 if wrong else 7200.0
    forge.cron(history=[{"at": 3600.0, "job": "j1"}, {"at": at, "job": "j2"}])
