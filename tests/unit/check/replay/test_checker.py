"""The checker finds nothing wrong with the scheduler, and finds what is wrong with broken ones."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.check.replay.decisions import CycleDecisions
from ares.check.replay.rules import ReplayVerdict
from ares.check.replay.trace import Trace
from ares.core.capacity.claims import Claims
from ares.core.schedule.actions.backfill import BackfillPass
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Plan
from ares.sim.traces import engine
from ares.sim.traces.failures import drawn
from ares.sim.traces.policies import POLICIES
from tests.unit.check.replay.made import judged, once, some

STRATEGIES = ("fcfs", "greedy", "easy", "easy-sjbf", "conservative", "aggressive")


def fine(verdict: ReplayVerdict) -> None:
    assert not verdict.broken, "\n".join(verdict.words())


def said(verdicts: Iterable[ReplayVerdict], words: str) -> None:
    """One of them says so: those after it are not made."""
    found: list[str] = []
    for verdict in verdicts:
        found += verdict.violations
        if any(words in one for one in verdict.violations):
            return
    raise AssertionError("\n".join(found[:20]) or "nothing was found")


# ---- the scheduler as it is


@pytest.mark.parametrize("name", STRATEGIES)
def test_replays_of_gpu_jobs_are_in_order(name: str) -> None:
    heads = promises = plans = 0
    for seed, exact in ((0, True), (1, False), (2, True), (7, False)):
        verdict = judged(some(seed, exact=exact), POLICIES[name])
        fine(verdict)
        assert not verdict.excused, "nothing unforeseen happens"
        assert verdict.starts > 30
        heads, promises, plans = heads + verdict.heads, promises + verdict.promises, plans + verdict.plans
    assert heads > 100 or name == "conservative"
    assert promises > 100 or name in ("fcfs", "greedy")
    assert plans > 100 or name in ("fcfs", "greedy", "aggressive")


@pytest.mark.parametrize("name", STRATEGIES)
def test_so_are_those_where_nothing_goes_as_foreseen(name: str) -> None:
    """Jobs that say nothing of their run time or too little, gangs of fewer ranks, nodes that fail."""
    excused = 0
    for seed in (3, 8):
        trace = some(seed, unknown=True, outlive=True, fewer=seed == 8)
        failures = drawn([one.name for one in trace.nodes], 0.0, 3000.0, mtbf_s=1500.0, mttr_s=200.0, seed=seed)
        verdict = judged(trace, POLICIES[name], failures=failures)
        fine(verdict)
        excused += verdict.excused
    assert excused, "somebody outlived an estimate"


@pytest.mark.parametrize("name", ["easy", "conservative", "aggressive"])
def test_so_are_cycles_that_stop_at_their_limit(name: str) -> None:
    """Whoever a cycle did not come to keeps what was promised."""
    policy = POLICIES[name]
    few = replace(policy, profile=replace(policy.profile, max_placements_per_cycle=1))
    for seed in (1, 2):
        verdict = judged(some(seed), few)
        fine(verdict)
        assert verdict.promises


def test_what_is_not_judged_is_said() -> None:
    verdict = judged(some(1, jobs=10), POLICIES["default"])
    fine(verdict)
    assert not verdict.heads
    assert any("another order" in one for one in verdict.not_judged)


# ---- broken schedulers


def test_who_takes_what_is_held_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(Claims, "hide", nothing)
    traces = [some(seed, exact=True) for seed in range(4)]
    said((judged(one, POLICIES["easy"]) for one in traces), "passed it, not before")
    said((judged(one, POLICIES["conservative"]) for one in traces), "nothing unforeseen happened")


@pytest.mark.parametrize("late_s", [5.0, -5.0])
def test_a_promise_that_is_off_by_seconds_is_found(monkeypatch: pytest.MonkeyPatch, late_s: float) -> None:
    def off(*args: Any, **more: Any) -> Plan:
        plan = cycle(*args, **more)
        return replace(plan, promises=tuple(replace(one, start=one.start + late_s) for one in plan.promises))

    monkeypatch.setattr(engine, "cycle", off)
    said([judged(some(1, exact=True), POLICIES["easy"])], "it was promised")
    if late_s < 0:
        said([judged(some(1, exact=True), POLICIES["conservative"])], "will not have at")


def test_promises_that_are_forgotten_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(cluster: Cluster, promises: Iterable[Promise], *, more: bool) -> None:
        cluster.promised_at = -1

    monkeypatch.setattr(Cluster, "promise", forget)
    said((judged(some(seed), POLICIES["conservative"]) for seed in range(8)), "nothing unforeseen happened")


def test_promises_that_cannot_be_kept_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(claims: Claims, claim: Any) -> bool:
        return True

    monkeypatch.setattr(Claims, "has_room", always)
    said((judged(some(seed, outlive=True), POLICIES["conservative"]) for seed in range(4)), "will not have at")


def test_one_overrun_that_costs_everybody_a_promise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what happens on the nodes that were promised excuses a promise; it was excused wherever it happened."""

    def never(claims: Claims, claim: Any) -> bool:
        return False

    monkeypatch.setattr(Claims, "has_room", never)
    said(
        (judged(some(seed, outlive=True), POLICIES["conservative"]) for seed in range(4)), "nothing unforeseen happened"
    )


def _held_from_its_new_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def held_from(_self: BackfillPass, start: float, _told: Promise | None) -> float:
        return start

    monkeypatch.setattr(BackfillPass, "_held_from", held_from)


def _forgotten_for_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    promise = Cluster.promise

    def by_the_latest_plan(cluster: Cluster, promises: Iterable[Promise], **more: Any) -> None:
        cluster.told.clear()
        promise(cluster, promises, **more)

    monkeypatch.setattr(Cluster, "promise", by_the_latest_plan)


@pytest.mark.parametrize("bug", [_held_from_its_new_start, _forgotten_for_a_cycle], ids=lambda one: one.__name__)
def test_who_enters_the_room_of_a_slipped_promise_is_found(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {seed: some(seed, outlive=True) for seed in (1, 7)}
    failures = {
        seed: drawn([one.name for one in trace.nodes], 0.0, 3000.0, mtbf_s=1500.0, mttr_s=200.0, seed=seed)
        for seed, trace in made.items()
    }

    def verdicts() -> list[ReplayVerdict]:
        return [judged(trace, POLICIES["easy"], failures=failures[seed]) for seed, trace in made.items()]

    for verdict in verdicts():
        fine(verdict)
        assert verdict.drains
    bug(monkeypatch)
    said(verdicts(), "entered room promised to")


def test_who_counts_nothing_as_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(Cluster, "_change", nothing)
    verdict = judged(some(2, jobs=20), POLICIES["greedy"])
    for what in ("CPU thousandths", "MiB", "thousandths of GPU"):
        said([verdict], what)


def test_a_delay_beyond_what_is_allowed_is_found() -> None:
    policy, changed = POLICIES["aggressive"], list[ReplayVerdict]()
    for seed in range(6):
        patient = replace(policy.profile, backfill=replace(policy.profile.backfill, delay_max_s=3000.0))
        strict = replace(policy.profile, backfill=replace(policy.profile.backfill, delay_max_s=60.0))
        fine(judged(some(seed, exact=True), replace(policy, profile=patient)))
        changed.append(judged(some(seed, exact=True), replace(policy, profile=patient), by=strict))
    said(changed, "nothing unforeseen happened")


@pytest.mark.parametrize(("does", "says"), [("greedy", "passed it"), ("easy", "passed it")])
def test_whoever_passes_where_nobody_may_is_found(does: str, says: str) -> None:
    said([judged(some(0), POLICIES[does], by=POLICIES["fcfs"].profile)], says)


def test_one_who_waits_without_need_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is first is tried only every other time."""
    count = 0

    def every_other(cluster: Cluster, now: float, **more: Any) -> Plan:
        nonlocal count
        count += 1
        return cycle(cluster, now, **more) if count % 2 else Plan(at=now)

    monkeypatch.setattr(engine, "cycle", every_other)
    said([judged(some(0), POLICIES["greedy"])], "waits, though there is room for it")


def test_a_strategy_that_promises_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy that promises nothing to anybody under the name of one that does."""

    def never(*_: Any) -> bool:
        return False

    monkeypatch.setattr(BackfillPass, "_promise", never)
    said((judged(some(seed, exact=True), POLICIES["easy"]) for seed in range(3)), "it was promised no time")


# ---- forged logs


def _twice(decision: CycleDecisions) -> CycleDecisions | None:
    return replace(decision, started=decision.started * 2) if decision.started else None


def _early(decision: CycleDecisions) -> CycleDecisions | None:
    return replace(decision, submitted=()) if decision.started and decision.submitted else None


def _fewer_ranks(decision: CycleDecisions) -> CycleDecisions | None:
    gang = next((one for one in decision.started if len(one.placements) > 1), None)
    if gang is None:
        return None
    rest = tuple(one for one in decision.started if one is not gang)
    return replace(decision, started=(*rest, replace(gang, placements=gang.placements[:1])))


def _lost(decision: CycleDecisions) -> CycleDecisions | None:
    return replace(decision, started=decision.started[1:]) if decision.started else None


def _elsewhere(decision: CycleDecisions) -> CycleDecisions | None:
    if not decision.started:
        return None
    first = decision.started[0]
    places = tuple(replace(place, node="nowhere") for place in first.placements)
    return replace(decision, started=(replace(first, placements=places), *decision.started[1:]))


def _less(decision: CycleDecisions) -> CycleDecisions | None:
    if not decision.started:
        return None
    first = decision.started[0]
    places = tuple(replace(place, cpu_milli=1) for place in first.placements)
    return replace(decision, started=(replace(first, placements=places), *decision.started[1:]))


def _too_soon(decision: CycleDecisions) -> CycleDecisions | None:
    if not decision.ended:
        return None
    return replace(decision, ended=(replace(decision.ended[0], at=decision.ended[0].at - 3.0), *decision.ended[1:]))


FORGED = {
    _twice: "was started again while it runs",
    _early: "was started before its submission",
    _fewer_ranks: "it asked for",
    _lost: "ended without having run",
    _elsewhere: "which does not exist",
    _less: "CPU thousandths",
    _too_soon: "and no node failed",
}


@pytest.mark.parametrize("forge", FORGED, ids=lambda one: one.__name__)
def test_a_forged_log_is_found(forge: Any) -> None:
    trace: Trace = some(4)
    said([judged(trace, POLICIES["easy"], change=once(forge))], FORGED[forge])


def test_a_log_that_breaks_off_is_found() -> None:
    def silent(decision: CycleDecisions) -> CycleDecisions:
        return decision if decision.time < 300.0 else CycleDecisions(time=decision.time)

    said([judged(some(4), POLICIES["easy"], change=silent)], "still runs")
    said([judged(some(4), POLICIES["easy"], change=silent)], "never came")
