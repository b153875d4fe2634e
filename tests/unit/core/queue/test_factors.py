"""A job's rank: each factor alone, their sum, and why no job waits for ever."""

from math import fsum

import pytest

from ares.core.ask import Ask
from ares.core.queue.drf import Amounts
from ares.core.queue.factors import FACTORS, STATIC, JobFacts, explain, latest_start, rank
from ares.core.queue.shares import Shares
from ares.core.queue.usage import DecayedUsage
from ares.model.job import PRIORITIES, JobSpec, Priority
from ares.model.profile import OrderPolicy, Weight
from tests.unit.core.queue.filling import ORDER, shares, times

GPU = Amounts(1000, 1024, 1000)
CLUSTER = times(GPU, 100)
WIDE = Ask(1000, 1024, 1, ranks=50)
HOUR = 3600.0
NOW = 1_000 * HOUR


def _job(
    priority: Priority = "NORMAL",
    waited: float = 0.0,
    late: float | None = None,
    account: str = "a/x/u",
    *,
    ask: Ask = Ask(0, 0, 0),
) -> JobFacts:
    """Asks for nothing unless told: its width counts nothing then."""
    start = None if late is None else NOW + late
    return JobFacts(PRIORITIES.index(priority), NOW - waited, start, account, ask=ask)


def _value(name: str, job: JobFacts, tally: Shares | None = None) -> float:
    return FACTORS[name](job, tally or shares(CLUSTER), ORDER, NOW)


def _first(job: JobFacts, tally: Shares | None = None, order: OrderPolicy = ORDER) -> float:
    return rank(job, tally or shares(CLUSTER), order, NOW)[0]


def test_level_is_worth_its_weight_and_so_is_the_wait_of_one_ageing() -> None:
    ranks = [_first(_job(priority)) for priority in reversed(PRIORITIES)]
    assert ranks == [1300.0, 2300.0, 3300.0, 4300.0, 5300.0]
    assert _first(_job("LOW", waited=ORDER.ageing_s)) == _first(_job("NORMAL"))


def test_submission_in_the_future_of_this_clock_is_no_age() -> None:
    assert _value("age", _job(waited=-5.0)) == 0.0


@pytest.mark.parametrize(
    ("late", "value"),
    [(None, 0.0), (48 * HOUR, 0.0), (24 * HOUR, 0.0), (12 * HOUR, 0.5), (0.0, 1.0), (-1.0, 0.0)],
)
def test_deadline_counts_from_the_horizon_to_no_slack(late: float | None, value: float) -> None:
    assert _value("deadline", _job(late=late)) == value


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({}, None),
        ({"deadline_at": 1000.0}, 1000.0),
        ({"deadline_at": 1000.0, "time_limit_s": 300.0}, 700.0),
        ({"deadline_at": 1000.0, "time_limit_s": 300.0, "expected_runtime_s": 100.0}, 900.0),
        ({"deadline_at": 1000.0, "time_limit_s": 300.0, "expected_runtime_s": 0.0}, 1000.0),
        ({"time_limit_s": 300.0}, None),
    ],
)
def test_latest_start_goes_by_the_best_known_run_time(fields: dict[str, float], start: float | None) -> None:
    assert latest_start(JobSpec(command=("true",), **fields)) == start  # pyright: ignore[reportArgumentType]


def test_drf_falls_with_what_is_held_by_more_than_there_is_too() -> None:
    tally = shares(CLUSTER)
    values = [_value("drf", _job(), tally)]
    for _ in range(3):
        tally.take("a/x/u", times(GPU, 50))
        values.append(_value("drf", _job(), tally))
    assert values == pytest.approx([1.0, 0.5, 0.0, -0.5], abs=1e-5)


@pytest.mark.parametrize(("gpus", "value"), [(0, 0.0), (2, 0.04), (25, 0.5), (50, 1.0), (100, 1.0), (1000, 1.0)])
def test_size_is_a_part_of_half_the_cluster(gpus: int, value: float) -> None:
    ask = Ask(1000, 1024, 1, ranks=gpus)
    assert _value("size", _job(waited=ORDER.ageing_s, ask=ask)) == pytest.approx(value)


def test_size_goes_by_the_greatest_part_of_any_resource() -> None:
    assert _value("size", _job(waited=ORDER.ageing_s, ask=Ask(2000, 25 * 1024, 3))) == pytest.approx(0.5)


@pytest.mark.parametrize("ask", [Ask(1000, 1024, 0), Ask(1000, 1024, 1), Ask(8000, 1024, 1), Ask(500, 1024, 0)])
def test_a_job_of_one_gpu_or_one_cpu_is_not_wide_on_any_cluster(ask: Ask) -> None:
    """On a machine with one GPU a level of priority stays worth six hours."""
    tiny = shares(Amounts(1000, 1024, 1000))
    assert _value("size", _job(waited=ORDER.ageing_s, ask=ask), tiny) == 0.0


@pytest.mark.parametrize(("ageings", "value"), [(-1.0, 0.0), (0.0, 0.0), (0.25, 0.25), (1.0, 1.0), (50.0, 1.0)])
def test_size_grows_with_the_wait_up_to_one_ageing(ageings: float, value: float) -> None:
    assert _value("size", _job(waited=ageings * ORDER.ageing_s, ask=WIDE)) == pytest.approx(value)


@pytest.mark.parametrize("waited", [1.0, HOUR, 3 * HOUR])
def test_a_wide_job_passes_narrow_ones_only_that_waited_less_than_three_times_as_long(waited: float) -> None:
    """So none that just came passes one that has waited for hours."""
    wide = _first(_job(waited=waited, ask=WIDE))
    assert wide > _first(_job(waited=2.99 * waited))
    assert wide < _first(_job(waited=3.01 * waited))


def test_a_wide_job_that_waited_for_long_is_passed_by_no_later_narrow_one_whatever_accounts_hold() -> None:
    """As in the order of submission, and so under EASY."""
    tally = shares(CLUSTER)
    tally.take("greedy/x/u", CLUSTER)
    for waited in (0.65 * ORDER.ageing_s, ORDER.ageing_s, 40 * ORDER.ageing_s):
        wide = _job(waited=waited, account="greedy/x/u", ask=WIDE)
        assert _first(wide, tally) > _first(_job(waited=waited - 1.0, account="idle/x/u"), tally)


def test_fair_share_is_the_same_throughout_a_cycle() -> None:
    usage = DecayedUsage(ORDER.half_life_s)
    tally = Shares(CLUSTER, {}, usage, NOW)
    assert _value("fair-share", _job(), tally) == 1.0
    usage.charge("a/x/u", HOUR, 0.0, at=NOW)
    usage.charge("b/x/u", HOUR, 0.0, at=NOW)
    assert _value("fair-share", _job(), tally) == 1.0
    assert _value("fair-share", _job(), Shares(CLUSTER, {}, usage, NOW)) == 0.5


def test_fifo_makes_all_jobs_equal() -> None:
    order = OrderPolicy(primary=(Weight(name="fifo", weight=1000.0),), secondary=())
    jobs = [_job("CRITICAL", waited=5.0, late=0.0), _job("BEST_EFFORT")]
    assert {rank(job, shares(CLUSTER), order, NOW) for job in jobs} == {(0.0, 0.0)}


def test_only_what_is_called_static_stays_while_jobs_are_placed() -> None:
    tally = shares(CLUSTER)
    job = _job("HIGH", waited=HOUR, late=HOUR)
    before = {name: _value(name, job, tally) for name in FACTORS}
    tally.take("a/y/v", times(GPU, 10))
    changed = {name for name in FACTORS if _value(name, job, tally) != before[name]}
    assert changed == {"drf"} == set(FACTORS) - STATIC


def test_terms_are_shown_in_the_order_of_the_policy() -> None:
    tally = shares(CLUSTER)
    tally.take("a/x/u", times(GPU, 25))
    job = _job("HIGH", waited=ORDER.ageing_s / 4, late=6 * HOUR, ask=Ask(1000, 1024, 1, ranks=10))
    shown = explain(job, tally, ORDER, NOW)
    assert [(one.name, one.sum) for one in shown] == [
        ("priority", "primary"),
        ("age", "primary"),
        ("deadline", "primary"),
        ("drf", "primary"),
        ("fair-share", "primary"),
        ("size", "primary"),
        ("served", "primary"),
    ]
    assert [one.product for one in shown] == pytest.approx([3000.0, 250.0, 600.0, 675.0, 400.0, 100.0, 0.0], abs=1e-2)
    assert fsum(one.product for one in shown) == rank(job, tally, ORDER, NOW)[0]


def test_factor_added_by_a_plugin_counts_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    order = OrderPolicy(primary=(Weight(name="lucky", weight=7.0),), secondary=())
    monkeypatch.setitem(FACTORS, "lucky", lambda *_: 3.0)
    assert rank(_job(), shares(CLUSTER), order, NOW) == (21.0, 0.0)
    assert explain(_job(), shares(CLUSTER), order, NOW)[0].product == 21.0


# The other job may be better in everything that is bounded: four levels, a deadline, an account that holds nothing, and
# half of the cluster.
BOUND_S = ORDER.ageing_s * (4 * 1000.0 + 800.0 + 900.0 + 2000.0) / 1000.0


@pytest.mark.parametrize("later", [ORDER.ageing_s, 1e6, 1e9])
def test_no_job_is_passed_by_one_submitted_after_the_bound(later: float) -> None:
    tally = shares(CLUSTER)
    tally.take("greedy/x/u", CLUSTER)

    def distance(apart: float) -> float:
        """How far the humblest job is ahead of the most favoured one, submitted `apart` after it."""
        humble = _job("BEST_EFFORT", waited=later + apart, account="greedy/x/u")
        favoured = _job("CRITICAL", waited=later, late=0.0, account="idle/x/u", ask=WIDE)
        return _first(humble, tally) - _first(favoured, tally)

    assert distance(BOUND_S + 1.0) > 0.0
    # And it is the least such bound.
    assert distance(BOUND_S - 1.0) < 0.0


def test_four_ageings_are_enough_between_equals() -> None:
    assert _first(_job("BEST_EFFORT", waited=4 * ORDER.ageing_s + 1.0)) > _first(_job("CRITICAL"))
    assert _first(_job("BEST_EFFORT", waited=4 * ORDER.ageing_s - 1.0)) < _first(_job("CRITICAL"))
