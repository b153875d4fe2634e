"""Plans of several planners, each made without knowing the others: what holds of them together."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Eviction, Placed, Plan
from ares.core.schedule.verification import Proposed, Refused, verified_in_turn, without_collisions
from ares.model.job import Gang, JobSpec, JobTerm
from ares.model.profile import Pool, Profile, Share
from tests.unit.core.world import NOW, cluster, node, nodes_of, placed, run, spec, state
from tests.unit.core.world import plan as plan_of


def same(_job: str) -> bool:
    return True


def changed(_job: str) -> bool:
    return False


def wait(made: Cluster, job: str, wanted: JobSpec, *, tenant: str = "t", **more: Any) -> None:
    made.enqueue(state(job, tenant=tenant, **more), wanted)


def proposes(*placements: tuple[str, str], cpu: float = 8, **more: Any) -> Proposed:
    """Jobs and the nodes they are to have."""
    parts = tuple(Placed(job=job, placements=(placed(name, cpu=cpu),)) for job, name in placements)
    return Proposed(Plan(at=NOW, placed=parts), same, **more)


def test_room_that_two_plans_give_away_goes_to_the_job_that_ranks_higher() -> None:
    made = cluster(node("n1"))
    wait(made, "low", spec(cpu=8, priority="LOW"), tenant="a")
    wait(made, "high", spec(cpu=8, priority="HIGH"), tenant="b")
    plan, refused = verified_in_turn(made, [proposes(("low", "n1")), proposes(("high", "n1"))], NOW)
    assert nodes_of(plan) == [("high", "n1")]
    assert refused == [Refused(0, 1), Refused(0, 0)]


def test_between_equal_ranks_the_job_that_came_first_has_it() -> None:
    made = cluster(node("n1"))
    wait(made, "later", spec(cpu=8), tenant="a", at=20.0)
    wait(made, "sooner", spec(cpu=8), tenant="b", at=10.0)
    plan, _ = verified_in_turn(made, [proposes(("later", "n1")), proposes(("sooner", "n1"))], NOW)
    assert nodes_of(plan) == [("sooner", "n1")]


def test_each_planner_keeps_its_own_order() -> None:
    made = cluster(node("n1"), node("n2"))
    for job, priority in (("a1", "LOW"), ("a2", "CRITICAL"), ("b1", "HIGH")):
        wait(made, job, spec(cpu=4, priority=priority), tenant=job[0])
    mine = proposes(("a1", "n1"), ("a2", "n1"), cpu=4)
    plan, refused = verified_in_turn(made, [mine, proposes(("b1", "n1"), cpu=4)], NOW)
    # "a2" ranks highest, and its planner gave "a1" its place before.
    assert [job for job, _ in nodes_of(plan)] == ["b1", "a1"]
    assert refused == [Refused(0, 1), Refused(0, 0)]


def test_a_job_is_placed_once_whoever_names_it() -> None:
    made = cluster(node("n1"), node("n2"))
    wait(made, "job", spec(cpu=8))
    plan, refused = verified_in_turn(made, [proposes(("job", "n1")), proposes(("job", "n2"))], NOW)
    assert nodes_of(plan) == [("job", "n1")]
    assert refused[1] == Refused(0, 1)


def test_a_record_that_changed_is_no_conflict() -> None:
    made = cluster(node("n1"))
    wait(made, "job", spec(cpu=8))
    stale = proposes(("job", "n1"))._replace(unchanged=changed)
    assert verified_in_turn(made, [stale], NOW)[1] == [Refused(1, 0)]


def test_a_gang_has_all_its_ranks_or_none() -> None:
    made = cluster(node("n1"), node("n2"))
    wait(made, "gang", spec(cpu=8, gang=Gang(ranks=2)), tenant="a", at=50.0)
    wait(made, "single", spec(cpu=8), tenant="b", at=10.0)
    ranks = (placed("n1", cpu=8), placed("n2", cpu=8, rank=1))
    gang = Proposed(Plan(at=NOW, placed=(Placed(job="gang", placements=ranks),)), same)
    plan, refused = verified_in_turn(made, [gang, proposes(("single", "n2"))], NOW)
    kept = [entry.job for entry in plan.placed]
    assert len(kept) == 1
    assert [found.conflicts for found in refused] == ([1, 0] if kept == ["single"] else [0, 1])
    for entry in plan.placed:
        assert len(entry.placements) == (2 if entry.job == "gang" else 1)


def hard(**limits: int) -> Profile:
    return Profile(shares={"t": Share(hard=limits)})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("profile", "wanted"),
    [
        (hard(cpu=8000), spec(cpu=8)),
        (Profile(licences={"matlab": 1}), spec(cpu=8, licences={"matlab": 1})),
    ],
)
def test_limits_and_licences_hold_for_all_plans_together(profile: Profile, wanted: JobSpec) -> None:
    made = cluster(node("n1"), node("n2"), profile=profile)
    wait(made, "one", wanted)
    wait(made, "two", wanted)
    plan, refused = verified_in_turn(made, [proposes(("one", "n1")), proposes(("two", "n2"))], NOW)
    assert len(plan.placed) == 1
    assert sum(found.conflicts for found in refused) == 1


def test_a_pool_draws_no_more_than_it_may_by_all_plans_together() -> None:
    def kept(cap: float) -> int:
        made = cluster(node("n1"), node("n2"), profile=Profile(pools={"default": Pool(power_cap_watts=cap)}))
        wait(made, "one", spec(cpu=8))
        wait(made, "two", spec(cpu=8))
        plan, _ = verified_in_turn(made, [proposes(("one", "n1")), proposes(("two", "n2"))], NOW)
        return len(plan.placed)

    # A CPU in use draws 3 W.
    assert kept(1000.0) == 2
    assert kept(30.0) == 1


def test_jobs_that_must_be_apart_are_apart() -> None:
    made = cluster(node("n1"), node("n2"))
    away = JobTerm(labels={"app": "db"}, level="node", away=True)
    wait(made, "old", spec(cpu=1, labels={"app": "db"}), at=10.0)
    wait(made, "new", spec(cpu=1, labels={"app": "db"}, job_affinity=(away,)), at=20.0)
    together = [proposes(("old", "n1"), cpu=1), proposes(("new", "n1"), cpu=1)]
    assert nodes_of(verified_in_turn(made, together, NOW)[0]) == [("old", "n1")]
    apart = [proposes(("old", "n1"), cpu=1), proposes(("new", "n2"), cpu=1)]
    assert len(verified_in_turn(made, apart, NOW)[0].placed) == 2


# ---- promises


def promised(job: str, name: str, start: float, cpu: float = 8, runs_s: float = 1000.0) -> Promise:
    places = (placed(name, cpu=cpu),)
    return Promise(job=job, start=start, until=start + runs_s, placements=places, first_start=start, made_at=NOW - 1.0)


def half_taken() -> Cluster:
    """Half of the node is in use for another 100 seconds, then it is promised to a job of another planner."""
    made = cluster(node("n1"))
    run(made, "runs", spec(cpu=4, expected_runtime_s=100.0), placed("n1", cpu=4), since=NOW)
    return made


@pytest.mark.parametrize(("runs_s", "kept"), [(50.0, 1), (500.0, 0)])
def test_what_another_planner_promised_is_not_taken(runs_s: float, kept: int) -> None:
    made = half_taken()
    wait(made, "head", spec(cpu=8), tenant="a")
    wait(made, "fills", spec(cpu=4, expected_runtime_s=runs_s), tenant="b")
    mine = proposes(("fills", "n1"), cpu=4, claimed=(promised("head", "n1", NOW + 100.0),))
    plan, refused = verified_in_turn(made, [mine], NOW)
    assert (len(plan.placed), refused[0].conflicts) == (kept, 1 - kept)
    # The columns are as they were.
    assert made.table.cpu_free[made.rows["n1"]] == 4000


def test_a_cycle_leaves_room_that_another_planner_promised() -> None:
    def started(claim: Promise | None) -> int:
        made = half_taken()
        wait(made, "fills", spec(cpu=4, expected_runtime_s=500.0), tenant="b")
        made.claimed = {} if claim is None else {claim.job: claim}
        made.advance(NOW)
        return len(plan_of(made).placed)

    assert started(None) == 1
    assert started(promised("head", "n1", NOW + 100.0)) == 0


def test_two_planners_do_not_promise_the_same_room() -> None:
    made = half_taken()
    wait(made, "one", spec(cpu=8, expected_runtime_s=1000.0), tenant="a")
    wait(made, "two", spec(cpu=8, expected_runtime_s=1000.0), tenant="b")
    first = promised("one", "n1", NOW + 100.0)
    second = promised("two", "n1", NOW + 100.0)
    assert without_collisions(made, [second], {}, (), NOW) == {"two": second}
    assert without_collisions(made, [second], {}, (first,), NOW) == {}
    # After the first is done there is room again, and what was accepted stays.
    later = replace(second, start=NOW + 1100.0, until=NOW + 2100.0)
    assert without_collisions(made, [later], {}, (first,), NOW) == {"two": later}
    # Room that is kept free before a start that slipped is no reason to refuse it.
    slipped = replace(later, held_from=NOW + 100.0)
    assert without_collisions(made, [slipped], {}, (first,), NOW) == {"two": slipped}
    assert without_collisions(made, [second], {"two": second}, (first,), NOW) == {"two": second}


# ---- room that is made


def evicting(made: Callable[[], Cluster], other: Proposed | None) -> tuple[Plan, list[Refused]]:
    eviction = Eviction(
        job="big", rule="preempt", victims=("victim",), hold=(placed("n1", cpu=8),), alternative=0, lost_gpu_s=0.0,
        reason="",
    )  # fmt: skip
    mine = Proposed(Plan(at=NOW, evictions=(eviction,)), same)
    return verified_in_turn(made(), [mine] if other is None else [other, mine], NOW)


def half_free() -> Cluster:
    made = cluster(node("n1"))
    run(made, "victim", spec(cpu=4), placed("n1", cpu=4))
    wait(made, "big", spec(cpu=8), tenant="a")
    wait(made, "small", spec(cpu=4), tenant="b")
    return made


def test_no_job_leaves_for_room_that_another_planner_gave_away() -> None:
    alone, _ = evicting(half_free, None)
    assert [eviction.job for eviction in alone.evictions] == ["big"]
    beside, refused = evicting(half_free, proposes(("small", "n1"), cpu=4))
    assert nodes_of(beside) == [("small", "n1")]
    assert beside.evictions == ()
    assert refused[1].conflicts == 1


def test_a_job_is_evicted_for_one_other() -> None:
    made = half_free()
    wait(made, "other", spec(cpu=8), tenant="c")
    evictions = [
        Eviction(
            job=job, rule="preempt", victims=("victim",), hold=(placed("n1", cpu=8),), alternative=0, lost_gpu_s=0.0,
            reason="",
        )
        for job in ("big", "other")
    ]  # fmt: skip
    plans = [Proposed(Plan(at=NOW, evictions=(eviction,)), same) for eviction in evictions]
    plan, refused = verified_in_turn(made, plans, NOW)
    assert [eviction.job for eviction in plan.evictions] == ["big"]
    assert refused[1].conflicts == 1
