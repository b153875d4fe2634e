"""E11 to E18: ends, losses, cancels, leadership, the ledger, reads, gangs, starts."""

from tests.unit.check.invariants.case import case, running
from tests.unit.check.invariants.forge import Forge, raised

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


@case("E11", quiet=True)
def word_comes_late_of_a_job_that_a_restore_took_back(forge: Forge, wrong: bool) -> None:
    """Seed 3776: the answer was on its way when the store was restored to before the job."""
    moment = forge.moment()
    op = forge.ask("submit", payload="p")
    forge.create("j1")
    if not wrong:
        forge.restore(moment)
    forge.answer(op, job="j1")


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
