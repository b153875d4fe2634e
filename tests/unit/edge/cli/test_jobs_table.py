"""The list of jobs on terminals of several widths, and its filters."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ares.edge.cli.render.job_cells import JOB_GIVE_WAY, JOB_HEADER, JOB_HEADER_WIDE
from ares.edge.cli.render.table import cut_middle, fitting, layout
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.units import moment
from tests.unit.edge.client.stub import Stub, state

Ares = Callable[..., Any]
ID = "0123456789abcdef_1999"
REASON = "needs 8 GPUs on one node; the largest has 4, and 3 of them are held until 15:20"
ROW = (ID, "train-resnet50-imagenet-lr0.1-seed-42", "PENDING", "2", "3h12m", "", "15:20-15:50", "gpu-rack7-node-013")
WIDE_ROW = (*ROW, "8", "64Gi", "8 mock", "1.12", "ada", "in 2h", REASON)


@pytest.mark.parametrize(("width", "wide"), [*itertools.product((60, 80, 100, 132, 200), (False, True))])
def test_lines_fit_and_say_why(width: int, wide: bool) -> None:
    header, row = (JOB_HEADER_WIDE, WIDE_ROW) if wide else (JOB_HEADER, (*ROW, REASON))
    shown, rows = fitting(header, [row], width, JOB_GIVE_WAY)
    lines = layout(shown, rows, width)
    assert all(len(line) <= width for line in lines)
    assert lines[1].startswith(ID), "an id is never cut"
    reason = lines[1].split("  ")[-1].rstrip("…")
    assert REASON.startswith(reason)
    assert len(reason) >= width * 0.3


def test_all_columns_are_there_when_there_is_room() -> None:
    assert fitting(JOB_HEADER, [(*ROW[:5], "5m", *ROW[6:], "short")], 200, JOB_GIVE_WAY)[0] == list(JOB_HEADER)


def test_columns_without_a_value_give_way_first() -> None:
    shown, _ = fitting(JOB_HEADER, [(*ROW, REASON)], 200, JOB_GIVE_WAY)
    assert "RUN" not in shown


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [
        ("short", 10, "short"),
        ("train-a-lr0.1-seed-42", 11, "train…ed-42"),
        ("日本語日本語", 7, "日本…語"),
        ("abc", 2, "a…"),
    ],
)
def test_names_are_cut_in_the_middle(text: str, width: int, cut: str) -> None:
    assert cut_middle(text, width) == cut


NOW = 1_800_000_000.0


@pytest.mark.parametrize(("text", "ago_s"), [("2h", 7200.0), ("1d12h", 129_600.0), ("90s", 90.0)])
def test_a_duration_is_that_long_ago(text: str, ago_s: float) -> None:
    assert moment(text, NOW) == NOW - ago_s


def test_times_of_day_and_dates_have_been() -> None:
    assert moment("2026-12-01T18:00+00:00", NOW) == 1_796_148_000.0
    today, yesterday = moment("today", NOW), moment("yesterday", NOW)
    assert today is not None
    assert yesterday is not None
    assert 0 <= NOW - today < 86_400 + 7200
    assert yesterday < today
    assert all((moment(f"{hour:02}:30", NOW) or NOW + 1) <= NOW for hour in range(24))


@pytest.mark.parametrize("text", ["25:00", "soon", "2026-13-01", ""])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidSpec, match="is not a time"):
        moment(text, NOW)


@pytest.mark.usefixtures("now")
def test_filters_are_asked_of_the_server(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": [state("RUNNING")], "cursor": ""})
    assert ares("jobs", "--user", "ada", "--since", "1h", "--until", "10s", "--state", "RUNNING").code == 0
    asked = stub.asked[0].query
    assert (asked["user"], asked["since"], asked["until"], asked["phase"]) == ("ada", "1000.0", "4590.0", "RUNNING")


def test_a_wrong_time_names_the_option(stub: Stub, ares: Ares) -> None:
    done = ares("jobs", "--since", "soon")
    assert (done.code, "--since" in done.err, "2h (ago)" in done.err) == (2, True, True)
    assert not stub.asked


@pytest.mark.usefixtures("now")
def test_mock_gpus_are_called_mock(stub: Stub, ares: Ares) -> None:
    placed = {"node": "n", "incarnation": 1, "cpuMilli": 1000, "memoryMib": 256, "gpus": [0, 1]}
    job = state("RUNNING", attempt=1, startedAt=4000.0, placements=[placed])
    stub.on("GET", "/v1/jobs", {"jobs": [job], "cursor": "", "mockGpus": [job["id"]]})
    assert "  2 mock  " in ares("jobs", "-o", "wide").out
