"""Keys of jobs put the time first and give the id back."""

from collections.abc import Callable

import pytest

from ares.core import keys


@pytest.mark.parametrize("job", ["abcdefghj0000001", "abcdefghj0000001_0", "abcdefghj0000001_999", "j1", "j1_7"])
@pytest.mark.parametrize("key", [keys.job, keys.state, keys.result, keys.array, keys.progress])
def test_the_id_comes_back(key: Callable[[str, str], str], job: str) -> None:
    assert keys.job_of(key("acme", job)) == job


def test_jobs_of_one_moment_lie_side_by_side() -> None:
    early, late, later = "zzzzzzzzz0000001", "aaaaaaaaa0000002", "mmmmmmmmm0000002"
    made = [keys.state("acme", job) for job in (early, late, later, f"{late}_3")]
    assert sorted(made) == [made[0], made[1], made[3], made[2]]


def test_events_of_one_job_share_a_prefix_with_no_other() -> None:
    task = keys.event("acme", "aaaaaaaaa0000002_1", 3)
    assert task.startswith(keys.job_events("acme", "aaaaaaaaa0000002_1"))
    assert not task.startswith(keys.job_events("acme", "aaaaaaaaa0000002"))


def test_events_of_one_job_stay_in_order_after_the_millionth() -> None:
    assert keys.event("acme", "j1", 999_999) < keys.event("acme", "j1", 1_000_000)
