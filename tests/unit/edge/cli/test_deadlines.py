"""Deadlines and classes of service on the command line."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ares.edge.client import wishes
from ares.edge.client.errors import InvalidSpec
from tests.unit.edge.client.stub import JOB, Stub, detail, state

Ares = Callable[..., Any]
WAY: dict[str, Any] = {
    "fields": {"resources.gpuModel": "V100"},
    "message": "on V100: ends about 14:20 UTC",
    "startsAt": 1.0,
    "endsAt": 2.0,
}
NO: dict[str, Any] = {
    "verdict": "no",
    "message": "it cannot be met by the estimates: it ends about 19:10 UTC, 1 h too late",
    "ways": [WAY],
}
YES: dict[str, Any] = {
    "verdict": "yes",
    "message": "it can be met: it ends about 16:40 UTC, 1 h before its deadline",
    "ways": [],
}
CLASSES = {
    "classes": [
        {"name": "", "jobs": 3, "met": 1, "missed": 1, "open": 1, "atRisk": 1, "atRiskJobs": [JOB], "metPercent": 50.0,
         "budgetLeftPercent": -900.0},
        {"name": "gold", "startWithinS": 60.0, "endWithinS": 3600.0, "targetPercent": 99.0},
    ]
}  # fmt: skip
TABLE = f"""\
CLASS  PROMISES                          JOBS  MET  MISSED  OPEN  AT RISK  MET %  TARGET %  BUDGET LEFT %
(own)  -                                 3     1    1       1     1        50     95        -900
gold   starts within 1m, ends within 1h  0     0    0       0     0        -      99        -
at risk (own): {JOB}
"""


def test_the_answer_to_a_submission_tells_of_the_deadline(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/jobs", {"id": JOB, "deadline": YES}, {"id": JOB, "deadline": NO})
    done = ares("submit", "--deadline", "2h", "--", "x")
    assert (done.code, done.err) == (0, f"its deadline: {YES['message']}\n")
    done = ares("submit", "--deadline", "2h", "--", "x")
    assert done.err.splitlines() == [
        f"warning: its deadline: {NO['message']}",
        "would be met on V100: ends about 14:20 UTC (--gpu-model V100)",
    ]


def test_flags_of_deadlines(stub: Stub, ares: Ares, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    stub.on("POST", "/v1/jobs", {"id": JOB})
    flags = ("--deadline", "+2h", "--start-by", "10m", "--deadline-strict", "--sla", "gold")
    assert ares("submit", *flags, "--runtime-on", "A100=2h", "--runtime-on", "V100=3h", "--", "x").code == 0
    assert stub.asked[-1].body["spec"] == {
        "command": ["x"], "deadlineAt": 8200.0, "startByAt": 1600.0, "deadlineStrict": True, "sla": "gold",
        "expectedRuntimesS": {"A100": 7200.0, "V100": 10_800.0}, "resources": {"memoryMib": 0},
    }  # fmt: skip


@pytest.mark.parametrize("text", ["0:00", "09:30", "23:59"])
def test_a_time_of_day_is_the_next_one(text: str) -> None:
    before = datetime.now(UTC).timestamp()
    found = wishes.deadline(text)
    assert 0 < found - before <= 86_400 + 60
    local = datetime.fromtimestamp(found, UTC).astimezone()
    assert (local.hour, local.minute, local.second) == (*map(int, text.split(":")), 0)


@pytest.mark.parametrize("text", ["24:00", "9:60", "soon", "18:00:00x"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match="neither a duration nor a moment"):
        wishes.deadline(text)


@pytest.mark.parametrize("text", ["A100", "=2h", "A100="])
def test_run_times_need_a_model_and_a_time(text: str) -> None:
    with pytest.raises(InvalidSpec, match="is not a GPU model and a run time"):
        wishes.runtimes(text)


def test_classes_in_a_table_and_for_programs(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/sla", CLASSES)
    assert ares("sla").out == TABLE
    assert json.loads(ares("sla", "-o", "json").out) == CLASSES
    assert ares("sla", "-o", "name").out == "gold\n"


@pytest.mark.usefixtures("now")
def test_jobs_tell_who_is_at_risk(stub: Stub, ares: Ares) -> None:
    jobs = [state("PENDING", deadlineAt=4600.0 + 600.0), state("RUNNING", id="b" * 16, deadlineAt=4600.0 - 60.0)]
    stub.on("GET", "/v1/jobs", {"jobs": jobs, "cursor": "", "atRisk": [JOB]})
    lines = ares("jobs", "-o", "wide").out.splitlines()
    assert "will miss its deadline (in 10m)" in lines[1]
    assert "1m ago" in lines[2]


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (None, "in 10m"),
        (YES, f"in 10m; {YES['message']}"),
        (NO, f"in 10m: {NO['message']}; would be met on V100: ends about 14:20 UTC"),
    ],
)
def test_show_tells_whether_it_will_be_met(stub: Stub, ares: Ares, seen: Any, shown: str) -> None:
    found = detail("PENDING", spec={"command": ["x"], "deadlineAt": 5200.0}, deadlineAt=5200.0)
    stub.on("GET", f"/v1/jobs/{JOB}", {**found, "deadline": seen})
    stub.on("GET", f"/v1/jobs/{JOB}/events", {"events": []})
    (line,) = [line for line in ares("show", JOB).out.splitlines() if line.startswith("  Deadline")]
    assert line.split(maxsplit=1)[1] == shown


def test_a_plan_lists_ways_to_meet_it(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/plan", {"startsNow": False, "deadline": NO})
    out = ares("plan", "--deadline", "2h", "--", "x").out
    assert f"Deadline    {NO['message']}" in out
    assert "Ways to meet the deadline" in out
    assert "--gpu-model V100" in out
