"""Which moments a schedule names, also where clocks are set."""

from datetime import datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.core.cron import Schedule, following, latest, parse, upcoming
from ares.core.refusal import Refusal

BERLIN = ZoneInfo("Europe/Berlin")


def schedule(text: str) -> Schedule:
    found = parse(text)
    assert isinstance(found, Schedule), found
    return found


def coming(text: str, after: str, count: int, zone: ZoneInfo = BERLIN) -> list[str]:
    since = datetime.fromisoformat(after).replace(tzinfo=zone).timestamp()
    moments = islice(upcoming(schedule(text), zone, since), count)
    return [datetime.fromtimestamp(moment, zone).isoformat() for moment in moments]


@pytest.mark.parametrize(
    ("text", "after", "first"),
    [
        ("*/15 * * * *", "2026-11-17T08:01", "2026-11-17T08:15:00+01:00"),
        ("30 3 * * *", "2026-11-17T08:00", "2026-11-18T03:30:00+01:00"),
        ("0 9 * * MON-FRI", "2026-11-20T10:00", "2026-11-23T09:00:00+01:00"),
        ("0 9 * * 7", "2026-11-20T10:00", "2026-11-22T09:00:00+01:00"),
        ("0 0 1,15 jan *", "2026-11-20T10:00", "2027-01-01T00:00:00+01:00"),
        ("0 0 29 2 *", "2026-11-20T10:00", "2028-02-29T00:00:00+01:00"),
        ("5/20 * * * *", "2026-11-17T08:06", "2026-11-17T08:25:00+01:00"),
        ("@monthly", "2026-11-17T08:06", "2026-12-01T00:00:00+01:00"),
        # Either day is enough where both are named.
        ("0 0 13 * FRI", "2026-11-14T00:00", "2026-11-20T00:00:00+01:00"),
    ],
)
def test_the_next_moment(text: str, after: str, first: str) -> None:
    assert coming(text, after, 1) == [first]


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *", "5-1 * * * *",
     "*/0 * * * *", "0 0 30 2 *", "*-5 * * * *", "1,,2 * * * *", "0 0 * * MON#1", "@never"],
)  # fmt: skip
def test_what_is_no_schedule(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Refusal)
    assert (found.code, bool(found.message), "five fields" in found.fix) == ("cron-invalid", True, True)


def test_a_time_that_does_not_exist_fires_later() -> None:
    """On 29 March 2026 clocks in Berlin go from 2:00 to 3:00."""
    assert coming("30 2 * * *", "2026-03-28T12:00", 2) == ["2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"]


def test_a_time_that_comes_twice_fires_once() -> None:
    """On 25 October 2026 clocks in Berlin go from 3:00 back to 2:00."""
    assert coming("30 2 * * *", "2026-10-24T12:00", 2) == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]


@pytest.mark.parametrize(("day", "count"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-17", 24)])
def test_every_hour_goes_on_as_hours_pass(day: str, count: int) -> None:
    start = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=BERLIN)
    end = (start + timedelta(days=1)).replace(tzinfo=BERLIN).timestamp()
    moments = [one for one in islice(upcoming(schedule("0 * * * *"), BERLIN, start.timestamp() - 1), 30) if one < end]
    assert len(moments) == count
    assert {later - sooner for sooner, later in pairwise(moments)} == {3600.0}


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 */5 * * *", "15 3 1 * *", "0 12 * * 1", "59 23 31 * *"]),
    st.integers(1_704_067_200, 1_893_456_000),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_next_and_latest_agree(text: str, now: int, zone: str) -> None:
    times, place = schedule(text), ZoneInfo(zone)
    coming_at = following(times, place, now)
    assert coming_at is not None
    assert coming_at > now
    assert latest(times, place, now, coming_at) == coming_at
    assert latest(times, place, now, coming_at - 1) is None
    assert (
        latest(times, place, now - 40 * 86_400, now) is None
        or (latest(times, place, now - 40 * 86_400, now) or 0) <= now
    )
