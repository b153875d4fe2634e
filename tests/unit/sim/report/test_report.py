"""The HTML report: well-formed, alone, harmless, of bounded size, and with the figures that programs get."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise

import pytest

from ares.sim.report import gantt, metrics
from ares.sim.report.figures import figures
from ares.sim.report.report import report
from ares.sim.traces.outcome import Outcome
from tests.unit.sim.report.made import outcome

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a&amp;b", "]]>", "nul\x00esc\x1b[31m",
    "x" * 5000, "\u202eevil", "javascript:alert(1)",
)  # fmt: skip
SIZE_MAX = 3_000_000


def parsed(page: str) -> ET.Element:
    """As strictly as XML is: nothing left open, nothing unquoted."""
    return ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def texts(tree: ET.Element, tag: str) -> Iterator[str]:
    for found in tree.iter(tag):
        yield "".join(found.itertext())


def made(*outcomes: Outcome) -> str:
    return report(figures(outcomes), outcomes)


def test_nothing_is_loaded_from_anywhere() -> None:
    page = made(outcome(), outcome("easy"))
    tree = parsed(page)
    assert {found.tag for found in tree.iter()} & {"script", "link", "img", "iframe", "object", "image", "use"} == set()
    assert [
        name for found in tree.iter() for name in found.attrib if name in {"src", "href"} or name.startswith("on")
    ] == []
    assert not re.search(r"https?:|url\(|@import", page)


def test_figures_are_those_of_the_json() -> None:
    outcomes = outcome("fifo", wait_s=900.0), outcome("easy", wait_s=300.0), outcome("best", wait_s=30.0, seed=2)
    found = figures(outcomes)
    table = next(parsed(report(found, outcomes)).iter("table"))
    rows = {"".join(row[0].itertext()): row[1:] for row in table.iter("tr")}
    for metric in metrics.shown([run.summary for run in found.runs]):
        cells = rows[metric.title]
        assert [float(cell.attrib["title"]) for cell in cells] == [getattr(r.summary, metric.field) for r in found.runs]
    starred = {
        title: [n for n, cell in enumerate(cells) if cell.get("class") == "best"] for title, cells in rows.items()
    }
    assert starred["mean wait"] == [2]
    waits = [run.summary.mean_wait_s for run in found.runs]
    assert next(texts(rows["mean wait"][1], "small")) == f"{(waits[1] / waits[0] - 1) * 100:+.1f} %"


def test_every_policy_is_in_every_plot_and_legend() -> None:
    tree = parsed(made(outcome("alpha"), outcome("beta"), outcome("gamma")))
    compared = [
        one
        for one in tree.iter("svg")
        if "over time" in one.get("aria-label", "") or "distr" in one.get("aria-label", "")
    ]
    assert len(compared) == 6
    for picture in compared:
        lines = [one for one in picture.iter("path") if "line" in one.get("class", "")]
        assert [next(texts(line, "title"))[:4] for line in lines] == ["alph", "beta", "gamm"]
        # By colour and by dashes.
        assert len({line.get("class") for line in lines}) == 3
        assert len({line.get("stroke-dasharray") for line in lines}) == 3


@pytest.mark.parametrize("bad", HOSTILE)
def test_names_of_a_trace_are_only_text(bad: str) -> None:
    page = made(outcome(bad, names=(bad,), tenants=(bad, "beta"), nodes=(bad, "n1")))
    assert {found.tag for found in parsed(page).iter()} & {"script", "img"} == set()
    page.encode("utf-8")
    assert "\x1b" not in page


def test_halves_of_characters_do_not_stop_the_page_from_being_written() -> None:
    page = made(outcome(names=("half \udc80",), tenants=("\ud800",)))
    assert "half \ufffd" in page
    page.encode("utf-8")


def test_jobs_can_be_pointed_at() -> None:
    one = outcome(jobs=20, names=("resnet",), tenants=("alpha",))
    tree = parsed(made(one))
    marks = list(tree.iter("rect"))
    assert 0 < len(marks) <= 20
    for mark in marks:
        assert re.search(r"resnet of alpha on n[012]: 1 GPU, 4 CPU; began .*, ran ", next(texts(mark, "title")))


def test_a_hundred_thousand_jobs_make_a_small_file_that_says_what_it_left_out() -> None:
    nodes = tuple(f"node-{n:04d}" for n in range(1000))
    page = made(*(outcome(f"policy {n}", jobs=100_000, nodes=nodes, names=("x" * 200,), wait_s=1e4) for n in range(2)))
    assert len(page.encode()) < SIZE_MAX
    said = " ".join(texts(parsed(page), "p"))
    assert "24 of 1,000 nodes are shown" in said
    assert "are drawn one by one, the others as grey patches" in said
    assert "most that waited at once within" in said


def test_the_worst_names_and_many_policies_stay_small_too() -> None:
    bad = tuple('"' * 30 + str(n) for n in range(50))
    page = made(*(outcome(f"policy {n}", jobs=3000, names=bad, tenants=bad, nodes=bad) for n in range(12)))
    assert len(page.encode()) < SIZE_MAX
    assert "The first 6 of 12 policies are shown" in page


def test_lines_of_a_node_do_not_overlap() -> None:
    made_up = outcome(jobs=400, nodes=("only",))
    picture = ET.fromstring(gantt.draw(made_up, gantt.whole([made_up]), 10_000).picture)
    boxes = [tuple(float(mark.attrib[name]) for name in ("x", "width", "y")) for mark in picture.iter("rect")]
    by_line: dict[float, list[tuple[float, float]]] = {}
    for x, width, y in sorted(boxes):
        by_line.setdefault(y, []).append((x, x + width))
    assert len(by_line) > 1
    for line in by_line.values():
        # Coordinates are rounded to tenths.
        assert all(after[0] >= before[1] - 0.21 for before, after in pairwise(line))


def test_everything_drawn_was_there() -> None:
    """Marks and what the note says of the rest are all intervals on the nodes shown."""
    made_up = outcome(jobs=5000)
    drawn = gantt.draw(made_up, gantt.whole([made_up]), 100)
    marks = len(list(ET.fromstring(drawn.picture).iter("rect")))
    assert marks == 100
    assert drawn.thinned
    assert "the 100 widest of 5,000 intervals" in drawn.note


def test_a_replay_without_jobs() -> None:
    empty = outcome(jobs=1)
    empty.jobs.first_start[:] = float("nan")
    empty.jobs.end[:] = float("nan")
    said = " ".join(texts(parsed(made(empty)), "td"))
    assert "unfinished 1" in said
