"""Caps on the power of pools: exact with thousands in one cycle, told with numbers; and spot pools."""

from typing import Any

import pytest

from ares.api.reasons import Reason
from ares.core.capacity.power import draw_of_pools
from ares.core.explain.smallest_change import smallest_change
from ares.core.explain.why import infeasible, why_waiting
from ares.core.queue.waiting import class_key
from ares.core.schedule.cluster import Cluster
from ares.model.job import Gang, JobSpec, Preemption
from ares.model.node import NodeRecord
from ares.model.profile import Pool, Profile
from tests.changed_spec import changed_spec
from tests.unit.core.world import NOW, cluster, left_out, node, nodes_of, placed, plan, run, spec, state

WATTS: dict[str, Any] = {"gpu_watts": 400.0, "gpu_idle_watts": 50.0, "cpu_watts": 0.0}


def capped(*records: NodeRecord, **caps: float) -> Cluster:
    return cluster(
        *records, profile=Profile(pools={name: Pool(**WATTS, power_cap_watts=cap) for name, cap in caps.items()})
    )


def submit(made: Cluster, count: int, wanted: JobSpec) -> None:
    for number in range(count):
        made.enqueue(state(f"j{number:04d}", at=float(number)), wanted)


def why(made: Cluster, wanted: JobSpec) -> Reason:
    found = why_waiting(made, class_key(state("x"), wanted), NOW)
    assert found is not None
    return found


def test_no_more_are_placed_than_the_cap_allows_however_many_wait() -> None:
    # 400 idle GPUs draw 20,000 W; each in use 350 W more.
    made = capped(*(node(f"n{at:02d}", gpus=8) for at in range(50)), default=20_000 + 101 * 350 + 349)
    submit(made, 1000, spec(gpus=1))
    done = plan(made, max_placements_per_cycle=1000)
    assert len(done.placed) == 101
    assert left_out(done) == {"j0101": 899}
    # The look leaves everything as it was.
    assert draw_of_pools(made.table) == {"default": 20_000.0}


def test_what_runs_and_what_is_kept_counts() -> None:
    made = capped(node("a", gpus=4), node("b", gpus=4), default=400 + 4 * 350)
    run(made, "r", spec(gpus=2), placed("a", gpus=(0, 1)))
    submit(made, 5, spec(gpus=1))
    assert len(plan(made).placed) == 2
    assert draw_of_pools(made.table) == {"default": 1100.0}
    made.release("r")
    assert len(plan(made).placed) == 4


def test_pools_without_a_cap_take_what_others_may_not() -> None:
    made = capped(node("a", gpus=4), node("b", gpus=4, pool="open"), default=200 + 350)
    submit(made, 9, spec(gpus=1))
    names = [name for _, name in nodes_of(plan(made))]
    assert (names.count("a"), names.count("b")) == (1, 4)


def test_a_gang_is_placed_whole_or_not_at_all_and_grows_only_to_the_cap() -> None:
    made = capped(node("a", gpus=4), node("b", gpus=4), default=400 + 5 * 350)
    submit(made, 1, spec(gpus=1, gang=Gang(ranks=6)))
    assert plan(made).placed == ()
    made = capped(node("a", gpus=4), node("b", gpus=4), default=400 + 5 * 350)
    submit(made, 1, spec(gpus=1, gang=Gang(ranks=8, min_ranks=2)))
    (only,) = plan(made).placed
    assert len(only.placements) == 5


def test_the_reason_has_the_numbers_and_the_change_would_start_it() -> None:
    made = capped(node("a", gpus=8), default=3000)
    run(made, "r", spec(gpus=7), placed("a", gpus=tuple(range(7))))
    said = why(made, spec(gpus=1))
    assert (said.code, said.remedy) == ("POWER_CAP", "wait")
    assert said.message == "needs 350 W; pool default draws 2,850 of the 3,000 W it may"
    assert said.numbers == {"asked": 350, "free": 150, "total": 3000, "nodes": 1}
    change = smallest_change(made, state("x"), spec(gpus=1), NOW)
    assert change is not None
    assert change.fields == {"resources.gpuMilli": 428}
    submit(made, 1, changed_spec(spec(gpus=1), change))
    assert len(plan(made).placed) == 1


def test_what_never_fits_below_the_cap_is_said_at_once() -> None:
    made = capped(node("a", gpus=8), default=3000)
    never = infeasible(made, class_key(state("x"), spec(gpus=8)), NOW)
    assert never is not None
    assert (never.code, never.remedy) == ("INFEASIBLE_POWER", "yours")
    assert (
        never.message == "needs 2,800 W; pool default may never draw more than 3,000 W, of which 400 W go to idle GPUs"
    )
    ranks = infeasible(made, class_key(state("x"), spec(gpus=1, gang=Gang(ranks=8))), NOW)
    assert ranks is not None
    assert ranks.message.startswith("needs 2,800 W for 8 ranks at once; pool default may never draw")


def test_a_gang_that_only_a_cap_holds_back_is_told_so() -> None:
    made = capped(node("a", gpus=8), default=3000)
    run(made, "r", spec(gpus=2), placed("a", gpus=(0, 1)))
    said = why(made, spec(gpus=1, gang=Gang(ranks=6)))
    assert said.code == "POWER_CAP"
    assert said.message == "needs 2,100 W for 6 ranks at once; pool default draws 1,100 of the 3,000 W it may"


def test_a_lowered_cap_takes_nothing_away_and_lets_nothing_in() -> None:
    made = capped(node("a", gpus=4), default=4000)
    run(made, "r", spec(gpus=2), placed("a", gpus=(0, 1)))
    made.configure(Profile(pools={"default": Pool(**WATTS, power_cap_watts=500)}))
    submit(made, 1, spec(gpus=1))
    done = plan(made)
    assert (done.placed, done.evictions) == ((), ())
    made.configure(Profile(pools={"default": Pool(**WATTS)}))
    assert len(plan(made).placed) == 1


def test_a_start_is_promised_for_when_enough_have_ended_and_short_jobs_go_before_it() -> None:
    made = capped(node("a", gpus=8), node("b", gpus=8), default=800 + 7 * 350)
    for job, gpus, runs_s in (("r1", (0, 1, 2), 1000.0), ("r2", (3, 4, 5), 3000.0)):
        run(made, job, spec(gpus=3, expected_runtime_s=runs_s), placed("a", gpus=gpus), since=NOW)
    # Four more at once: only once the first three have ended. What is over by then may draw the rest meanwhile.
    for number, (gpus, runs_s) in enumerate(((4, 500.0), (1, 5000.0), (1, 900.0))):
        made.enqueue(state(f"j{number}", at=float(number)), spec(gpus=gpus, expected_runtime_s=runs_s))
    done = plan(made)
    assert [one.job for one in done.placed] == ["j2"]
    assert [(one.job, one.start) for one in done.promises] == [("j0", NOW + 1000.0)]


@pytest.mark.parametrize(
    "firm", [{"preemption": Preemption(allowed=False)}, {"effects": "unsafe", "restart": "never"}, {"restart": "never"}]
)
def test_spot_is_for_those_who_may_be_taken_away(firm: dict[str, Any]) -> None:
    profile = Profile(pools={"cheap": Pool(spot=True, gpu_hour=3.0, spot_factor=0.3)})
    made = cluster(node("s", gpus=1, pool="cheap"), profile=profile)
    said = why(made, spec(gpus=1, **firm))
    assert (said.code, said.remedy) == ("SPOT_ONLY", "yours")
    assert "the one node is in spot pools (cheap)" in said.message
    assert why_waiting(made, class_key(state("x"), spec(gpus=1)), NOW) is None
    change = smallest_change(made, state("x"), spec(gpus=1, **firm), NOW)
    assert (change is not None) == ("preemption" in firm)
    assert change is None or change.fields == {"preemption.allowed": True}
    made.put_node(node("o", gpus=1))
    made.set_ready("o", True)
    submit(made, 1, spec(gpus=1, **firm))
    assert nodes_of(plan(made)) == [("j0000", "o")]
