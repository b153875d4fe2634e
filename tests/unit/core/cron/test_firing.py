"""What becomes of the moments of a schedule."""

from datetime import UTC

from ares.core.cron import HISTORY_MAX, Schedule, considered, due, noted, parse, request_id
from ares.model.cron import CronFiring, CronOwner, CronRecord
from ares.model.job import JobSpec

HOURLY = parse("0 * * * *")
OWNER = CronOwner(token_id="t1", role="submitter")


def record(**more: object) -> CronRecord:
    usual = {"tenant": "a", "name": "n", "schedule": "0 * * * *", "spec": JobSpec(command=("true",)), "owner": OWNER}
    return CronRecord(**{**usual, **more})  # type: ignore[arg-type]


def look(made: CronRecord, now: float, *live: str) -> tuple[float, str] | None:
    assert isinstance(HOURLY, Schedule)
    found = due(made, HOURLY, UTC, live, now)
    return None if found is None else (found.moment, found.action)


def test_nothing_is_due_before_its_moment() -> None:
    assert look(record(considered_at=3600.0), 7199.0) is None
    assert look(record(considered_at=3600.0), 7200.0) == (7200.0, "fire")
    assert look(record(considered_at=7200.0), 7200.0) is None


def test_missed_moments_make_one_job_or_none() -> None:
    late = 36_000.0 + 120.0
    assert look(record(considered_at=3600.0), late) == (36_000.0, "missed")
    assert look(record(considered_at=3600.0, missed="once"), late) == (36_000.0, "fire")
    # Within a minute it is not missed.
    assert look(record(considered_at=3600.0), 36_030.0) == (36_000.0, "fire")


def test_an_earlier_job_that_still_runs() -> None:
    before = (CronFiring(at=3600.0, done_at=3600.0, job="j1"),)
    for overlap, action in (("forbid", "overlap"), ("replace", "replace"), ("allow", "fire")):
        made = record(considered_at=3600.0, history=before, overlap=overlap)
        assert look(made, 7200.0, "j1") == (7200.0, action)
        assert look(made, 7200.0) == (7200.0, "fire")


def test_a_clock_that_was_ahead_does_not_silence_a_schedule() -> None:
    ahead = record(considered_at=100 * 3600.0)
    assert look(ahead, 7190.0) is None
    assert look(ahead, 7201.0) == (7200.0, "fire")
    after = noted(ahead, CronFiring(at=7200.0, done_at=7201.0))
    assert considered(after, 7201.0) == 7200.0
    assert look(after, 7202.0) is None
    # Servers' clocks differ a little: within that it is what it says.
    assert look(record(considered_at=7230.0), 7201.0) is None


def test_the_history_is_bounded() -> None:
    made = record()
    for hour in range(1, HISTORY_MAX + 10):
        made = noted(made, CronFiring(at=hour * 3600.0, done_at=0.0))
    assert (len(made.history), made.considered_at) == (HISTORY_MAX, (HISTORY_MAX + 9) * 3600.0)


def test_one_request_id_for_each_moment() -> None:
    assert request_id("nightly", 7200.0) == "cron nightly 7200"
