"""`ares usage` and what `ares show` tells of it: what people read, and what programs get."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

from ares.api.books.costs import CostReport, CostRow
from ares.edge.cli.commands.cost import csv_of
from tests.unit.edge.client.stub import JOB, Stub, detail

Ares = Callable[..., Any]
ROWS = [
    {
        "key": "red", "jobs": 1200, "gpuHours": 40.0, "cpuHours": 160.0, "energyKwh": 16.5, "cost": 1144.0,
        "wastedGpuHours": 10.0, "wastedCpuHours": 40.0, "wastedCost": 286.0, "name": "",
    },
    {"key": "blue", "jobs": 1, "gpuHours": 0.0, "cpuHours": 2.5, "energyKwh": 0.0075, "cost": 0.0},
]  # fmt: skip
REPORT = {
    "by": "team", "since": 0.0, "until": 100_000.0, "knownSince": 0.0, "groups": 2, "rows": ROWS,
    "total": {"key": "total", "jobs": 1201, "gpuHours": 40.0, "cpuHours": 162.5, "energyKwh": 16.5075, "cost": 1144.0},
}  # fmt: skip
TABLE = """\
TEAM   JOBS   GPU-HOURS  CPU-HOURS  KWH     COST      WASTED GPU-HOURS  WASTED COST
red    1,200  40.00      160.00     16.500  1,144.00  10.00 (25%)       286.00
blue   1      0.00       2.50       0.007   0.00      0.00              0.00
total  1,201  40.00      162.50     16.508  1,144.00  0.00 (0%)         0.00
"""


def test_usage_for_people_and_for_programs(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/usage", REPORT)
    assert ares("usage", "--by", "team", "--since", "7d").out == TABLE
    assert stub.requests("GET", "/v1/usage")[0].query == {"by": "team", "sinceS": "604800.0", "limit": "1000"}
    assert json.loads(ares("usage", "-o", "json").out) == REPORT
    first, *rest = csv.DictReader(io.StringIO(ares("usage", "-o", "csv").out))
    assert (first["team"], first["gpu_hours"], first["wasted_cost"]) == ("red", "40.0", "286.0")
    assert [row["team"] for row in rest] == ["blue"]
    assert ares("usage", "-o", "name").out == "red\nblue\n"


def test_nothing_used_and_a_time_that_is_none(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/usage", {"by": "tenant", "rows": [], "total": {"key": ""}})
    done = ares("usage")
    assert (done.out, done.err) == ("", "no jobs that used anything\n")
    wrong = ares("usage", "--since", "7")
    assert wrong.code == 2
    assert "write 7s for seconds or 7m for minutes" in wrong.err


def test_show_tells_what_a_job_used(stub: Stub, ares: Ares) -> None:
    used = {"gpuS": 7200.0, "cpuS": 1.0, "energyWh": 840.0, "cost": 5.1, "lostGpuS": 1800.0, "watts": 420.4}
    stub.on("GET", f"/v1/jobs/{JOB}", {**detail("RUNNING"), "used": used})
    stub.on("GET", f"/v1/jobs/{JOB}/events", {"events": []})
    line = next(line for line in ares("show", JOB).out.splitlines() if line.startswith("  Used"))
    assert line == "  Used        2.00 GPU-hours, 0.84 kWh, cost 5.10; 25% of the GPU time lost; draws 420 W"


def test_a_name_from_elsewhere_is_no_formula_in_the_csv_of_cost() -> None:
    row, total = CostRow(key="=1+1", running_cost=-2.5), CostRow(key="total")
    report = CostReport(
        cluster="c", incarnation=1, by="gpu-model", currency="", first_day="2026-11-01", last_day="2026-11-01",
        closed_day="", books_since="", at=0.0, rows=(row,), total=total, groups=1, whole=False,
    )  # fmt: skip
    (read,) = csv.DictReader(io.StringIO(csv_of(report)))
    assert (read["key"], read["running_cost"]) == ("'=1+1", "-2.5")
