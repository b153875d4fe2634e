"""Whether a job fits, at the edges."""

import pytest
from msgspec.structs import replace

from ares.core.quota.counts import TENANT, QuotaLevel, levels_of
from ares.core.quota.judge import OverQuota, WithinQuota, above_ceiling, bound, judge
from ares.core.quota.measures import month_end, month_of
from ares.model.quota import Limit, Limits, Quota

LEVELS = levels_of("vision", "ada")


def quota(threshold: float = 1.0, **amounts: Limit) -> Quota:
    named = {name.replace("_", "-"): limit for name, limit in amounts.items()}
    return Quota(own=Limits(amounts=named), threshold=threshold)


@pytest.mark.parametrize(
    ("measure", "hard", "threshold", "most"),
    [
        ("jobs", 100, 1.0, 100),
        # What comes in pieces is not cut: of one GPU, nine tenths are none.
        ("jobs", 100, 0.9, 100),
        ("jobs", 0, 0.9, 0),
        ("jobs-queued", 1, 0.9, 1),
        ("gpus", 1, 0.9, 1000),
        ("gpus.A100", 1, 0.5, 1000),
        # 90 of 100 are ninety per cent: refused.
        ("cpu", 1, 0.9, 899),
        # Where the threshold is no whole number, what is below it is taken.
        ("cpu", 0.007, 0.9, 6),
        ("cpu", 0.01, 0.7, 6),
        ("cpu", 0, 0.9, -1),
        ("memory", 1, 0.9, 921),
        ("budget", 100, 0.5, 49_999_999),
        ("budget", 100, 0.9, 89_999_999),
        ("budget", 100, 1.0, 100_000_000),
    ],
)
def test_up_to_where_jobs_are_taken(measure: str, hard: float, threshold: float, most: int) -> None:
    assert bound(measure, hard, threshold) == most


def test_all_levels_must_have_room_and_all_are_shown() -> None:
    limits = replace(quota(gpus=Limit(hard=8)), users={"ada": Limits(amounts={"gpus": Limit(hard=2)})})
    used = {
        TENANT: {"gpus": 4000},
        QuotaLevel("user", "ada"): {"gpus": 1000},
        QuotaLevel("team", "vision"): {"gpus": 4000},
    }
    assert isinstance(judge(limits, LEVELS, used.__getitem__, {"gpus": 1000}), WithinQuota)
    no = judge(limits, LEVELS, used.__getitem__, {"gpus": 2000})
    assert isinstance(no, OverQuota)
    assert {(one.level, one.exceeded, one.limit, one.free) for one in no.levels} == {
        ("tenant", False, 8.0, 4.0), ("user", True, 2.0, 1.0), ("team", False, None, None),
    }  # fmt: skip
    assert "user ada may have 2 GPUs: 1 in use, 2 asked for, 1 free" in no.message
    assert no.needs == 1000


def test_a_job_is_not_refused_for_what_it_does_not_ask_for() -> None:
    limits = quota(gpus=Limit(hard=1), cpu=Limit(hard=4))
    assert isinstance(judge(limits, (TENANT,), lambda _: {"gpus": 9000}, {"cpu": 1000}), WithinQuota)


def test_who_keeps_too_much_gets_no_more_jobs() -> None:
    limits = quota(storage=Limit(hard=1))
    assert isinstance(judge(limits, (TENANT,), lambda _: {"storage": 2**30}, {"cpu": 1}), WithinQuota)
    assert isinstance(judge(limits, (TENANT,), lambda _: {"storage": 2**30 + 1}, {"cpu": 1}), OverQuota)


def test_what_never_fits_comes_before_what_takes_time() -> None:
    limits = quota(cpu=Limit(hard=4), budget=Limit(hard=10))
    asked = {"cpu": 5000, "budget": 1_000_000}
    no = judge(limits, (TENANT,), lambda _: {"budget": 10_000_000}, asked)
    assert isinstance(no, OverQuota)
    assert (no.code, no.worst[1]) == ("quota-too-small", "cpu")
    waits = judge(limits, (TENANT,), lambda _: {"budget": 10_000_000, "cpu": 4000}, {**asked, "cpu": 1000})
    assert isinstance(waits, OverQuota)
    assert (waits.code, {one.measure for one in waits.levels}) == ("budget-exceeded", {"cpu", "budget"})


def test_in_doubt_jobs_are_refused_a_tenth_earlier() -> None:
    limits = quota(1.0, jobs=Limit(hard=10))
    assert isinstance(judge(limits, (TENANT,), lambda _: {"jobs": 8}, {"jobs": 1}), WithinQuota)
    assert isinstance(judge(limits, (TENANT,), lambda _: {"jobs": 8}, {"jobs": 1}, in_doubt=True), OverQuota)


def test_a_quota_of_one_gpu_admits_one_gpu() -> None:
    limits = quota(0.9, gpus=Limit(hard=1))
    assert isinstance(judge(limits, (TENANT,), lambda _: {}, {"gpus": 1000}), WithinQuota)
    assert isinstance(judge(limits, (TENANT,), lambda _: {"gpus": 1000}, {"gpus": 1}), OverQuota)


def test_a_job_that_is_dearer_than_the_whole_budget_need_not_wait_for_the_month() -> None:
    limits = quota(0.9, budget=Limit(hard=10))
    never = judge(limits, (TENANT,), lambda _: {}, {"budget": 10_500_000})
    later = judge(limits, (TENANT,), lambda _: {"budget": 8_000_000}, {"budget": 2_000_000})
    assert isinstance(never, OverQuota)
    assert isinstance(later, OverQuota)
    assert (never.code, later.code) == ("quota-too-small", "budget-exceeded")
    assert "taken below 90 % of a limit" in later.message


def test_the_lowest_ceiling_counts() -> None:
    limits = replace(quota(), own=Limits(priority="HIGH"), team_default=Limits(priority="LOW"))
    assert above_ceiling(limits, (TENANT,), "HIGH") is None
    assert above_ceiling(limits, (TENANT,), "CRITICAL") is not None
    assert above_ceiling(limits, LEVELS, "NORMAL") is not None
    assert above_ceiling(limits, LEVELS, "LOW") is None
    assert above_ceiling(quota(), LEVELS, "CRITICAL") is None


def test_months_begin_with_utc() -> None:
    # 2026-12-31 23:59:59 UTC.
    last = 1_798_761_599.0
    assert (month_of(last), month_of(last + 1)) == ("202612", "202701")
    assert month_end(last) == last + 1
