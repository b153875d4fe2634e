"""`ares simulate` through the real command: tables, JSON, files, questions, errors."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ares.check.replay.checker import Checker
from ares.check.replay.rules import ReplayVerdict
from ares.model.profile import Profile
from ares.sim.report.metrics import METRICS, words_of
from ares.sim.report.report import JOB_COLUMNS
from tests.unit.edge.cli.conftest import Ares
from tests.unit.sim.written import NODES, table


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return str(table(tmp_path / "jobs.csv"))


def figures(ares: Ares, *arguments: str) -> Any:
    done = ares("simulate", *arguments, "-o", "json", "-j", "1")
    assert done.code == 0, done.err
    # Nothing but the figures on stdout, and no progress in between.
    assert done.err == ""
    return json.loads(done.out)


def test_policies_side_by_side(ares: Ares, trace: str) -> None:
    done = ares("simulate", trace, "--nodes", NODES, "-p", "fcfs", "-p", "easy", "-j", "1")
    assert done.code == 0, done.err
    found = figures(ares, trace, "--nodes", NODES, "-p", "fcfs", "-p", "easy")
    assert "150 jobs on 2 nodes with 32 CPUs and 8 GPUs." in done.out
    assert re.search(r"^ +fcfs +easy$", done.out, re.MULTILINE)
    first, second = (run["summary"] for run in found["runs"])
    mean_wait = next(metric for metric in METRICS if metric.field == "mean_wait_s")
    change = (second["meanWaitS"] / first["meanWaitS"] - 1) * 100
    row = rf"^mean wait +{words_of(mean_wait, first['meanWaitS'])} +{words_of(mean_wait, second['meanWaitS'])}\* "
    assert re.search(row + re.escape(f"({change:+.1f} %)"), done.out, re.MULTILINE)
    # Without a terminal, progress is a few plain lines.
    assert re.search(r"^easy: 150 of 150 jobs$", done.err, re.MULTILINE)
    assert "\x1b" not in done.err


def test_quiet(ares: Ares, trace: str) -> None:
    assert ares("simulate", trace, "--nodes", NODES, "-q", "-j", "1").err == ""


def test_files_hold_the_same_figures(ares: Ares, trace: str, tmp_path: Path) -> None:
    names = {kind: tmp_path / f"out.{kind}" for kind in ("html", "json", "csv")}
    found = figures(
        ares, trace, "--nodes", NODES, "-p", "easy", "-p", "conservative", "--report", str(names["html"]),
        "--json", str(names["json"]), "--jobs-csv", str(names["csv"]),
    )  # fmt: skip
    written = json.loads(names["json"].read_text())
    assert without_time(written) == without_time(found)
    assert repr(found["runs"][1]["summary"]["boundedSlowdown"]) in names["html"].read_text()
    with names["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == JOB_COLUMNS
    assert len(rows) == 300
    for run in found["runs"]:
        waits = [float(row["wait_s"]) for row in rows if row["policy"] == run["policy"]]
        assert sum(waits) / len(waits) == pytest.approx(run["summary"]["meanWaitS"], rel=1e-6)


def without_time(found: Any) -> Any:
    """What the computer took is no part of what was found out."""
    return {**found, "runs": [{**run, "wallS": 0} for run in found["runs"]]}


def test_several_processes_come_to_the_same(ares: Ares, trace: str) -> None:
    arguments = (
        "simulate",
        trace,
        "--nodes",
        NODES,
        "-p",
        "easy",
        "-p",
        "fair-share",
        "--failures",
        "6h/1h",
        "-o",
        "json",
    )
    alone, together = (ares(*arguments, "-j", count) for count in ("1", "2"))
    assert together.code == 0, together.err
    assert without_time(json.loads(alone.out)) == without_time(json.loads(together.out))
    assert json.loads(alone.out)["runs"][0]["nodeFailures"] > 0


def test_more_gpus_beside_what_there_is(ares: Ares, trace: str) -> None:
    runs = figures(ares, trace, "--nodes", "4x16x4", "-p", "easy", "--more-gpus", "50%")["runs"]
    assert [run["policy"] for run in runs] == ["easy", "easy, 50 % more GPUs"]
    assert [run["gpus"] for run in runs] == [16, 24]
    assert runs[1]["summary"]["meanWaitS"] < runs[0]["summary"]["meanWaitS"]
    alone = figures(ares, trace, "--nodes", "4x16x4", "-p", "easy", "--more-gpus", "50%", "--no-baseline")["runs"]
    assert [run["digest"] for run in alone] == [runs[1]["digest"]]


def test_fair_share_and_load(ares: Ares, trace: str) -> None:
    runs = figures(ares, trace, "--nodes", NODES, "-p", "easy", "--fair-share", "--load", "1.5")["runs"]
    assert runs[1]["policy"] == "easy, 50 % more load, fair share"
    # Jobs that come faster wait longer.
    assert runs[1]["summary"]["meanWaitS"] > runs[0]["summary"]["meanWaitS"]
    fair = figures(ares, trace, "--nodes", NODES, "-p", "easy", "--fair-share")["runs"]
    # One user has three fifths of the jobs: the others are held up by them less.
    assert fair[1]["digest"] != fair[0]["digest"]
    refused = ares("simulate", trace, "--nodes", NODES, "-p", "sjf", "--fair-share")
    assert refused.code == 1
    assert refused.err == (
        "error: sjf orders jobs by shortest, which does not go with fair share\n"
        "fix: leave that policy out, or ask without --fair-share\n"
    )


def test_a_profile_from_a_file(ares: Ares, trace: str, tmp_path: Path) -> None:
    """Bare, and wrapped as `ares profile show` prints it: the same."""
    profile = msgspec.to_builtins(Profile(actions=("claim", "allocate")))
    bare, wrapped = tmp_path / "strict.json", tmp_path / "strict.yaml"
    bare.write_text(json.dumps(profile))
    wrapped.write_text(json.dumps({"version": 3, "profile": profile}))
    runs = figures(ares, trace, "--nodes", NODES, "-p", str(bare), "-p", str(wrapped), "-p", "default")["runs"]
    assert [run["policy"] for run in runs] == ["strict", "strict (2)", "default"]
    assert runs[0]["summary"] | {"policy": ""} == runs[1]["summary"] | {"policy": ""}
    assert runs[0]["summary"]["meanWaitS"] != runs[2]["summary"]["meanWaitS"]


def test_a_part_of_the_trace(ares: Ares, trace: str) -> None:
    assert figures(ares, trace, "--nodes", NODES, "--first", "20")["jobs"] == 20
    whole = [line.split(",") for line in Path(trace).read_text().splitlines()[1:]]
    first = float(whole[0][2])
    inside = [job for job in whole if 3600 <= float(job[2]) - first < 7200]
    assert figures(ares, trace, "--nodes", NODES, "--from", "1h", "--until", "2h")["jobs"] == len(inside)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("-p", "nonsense"), 1, "no policy 'nonsense': there are fcfs"),
        (("--nodes", "many"), 1, "'many' is no file and no kind of node"),
        (("--failures", "often"), 1, "--failures often: no such file, and not a time"),
        (("--failures", "3d/0s"), 1, "--failures 3d/0s: one or two times above 0"),
        (("--more-gpus", "lots"), 2, "'lots' is not a percentage"),
        (("--more-gpus", "-100%"), 2, "leaves nothing"),
        (("--from", "5"), 2, "duration 5 has no unit"),
        (("--from", "900d"), 1, "no job of jobs comes then"),
        (("--report", "/nowhere/out.html"), 2, "/nowhere/out.html cannot be written"),
        (("--format", "cobol"), 1, "no format 'cobol'"),
    ],
)
def test_bad_options(ares: Ares, trace: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = ares("simulate", trace, *arguments)
    assert done.code == code, done.err
    lines = done.err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    assert lines[1].startswith("fix: ")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bad.csv", b"job_id,num_gpu,submit_time,duration\n1,1,0,5\n2,1,ten,5\n", "bad.csv:3: submit_time is 'ten'"),
        ("short.csv", b"job_id,num_gpu,submit_time\n1,1,0\n", "short.csv:1: column duration missing"),
        ("bytes.csv", b"job_id,num_gpu,submit_time,duration\n\xff,1,0,5\n", "bytes.csv:2: byte 0xff"),
        ("cut.csv", b"job_id,num_gpu,submit_time,duration\n1,1,0,5\n2,1\n", "cut.csv:3: 2 of 4 columns"),
        ("none.csv", b"job_id,num_gpu,submit_time,duration\n", "none has no jobs"),
    ],
)
def test_bad_traces_are_named_with_their_line(ares: Ares, tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    done = ares("simulate", str(path), "--nodes", NODES)
    assert done.code == 1
    lines = done.err.splitlines()
    assert lines[0].startswith(f"error: {said}")
    assert lines[1].startswith("fix: ")
    assert len(lines) == 2


def test_what_is_written_takes_the_place_of_nothing(ares: Ares, trace: str, tmp_path: Path) -> None:
    before, out = Path(trace).read_bytes(), str(tmp_path / "out")
    done = ares("simulate", trace, "--json", trace)
    assert (done.code, "is the trace; name another file" in done.err) == (2, True)
    done = ares("simulate", trace, "--json", out, "--report", out)
    assert (done.code, "is named twice; name another file" in done.err) == (2, True)
    assert Path(trace).read_bytes() == before
    assert (
        ares("simulate", trace, "--nodes", NODES, "-j", "1", "--json", "/dev/null", "--report", "/dev/null").code == 0
    )


def test_failures_from_a_file(ares: Ares, trace: str, tmp_path: Path) -> None:
    path = tmp_path / "down.csv"
    path.write_text("at,node,lasts_s\n1000,a0,600\n5000,a1,60\n")
    assert figures(ares, trace, "--nodes", NODES, "--failures", str(path))["runs"][0]["nodeFailures"] == 2
    path.write_text("at,node,lasts_s\n1000,a0,600\nsoon,a1,60\n")
    done = ares("simulate", trace, "--nodes", NODES, "--failures", str(path))
    assert done.err.startswith("error: down.csv:3: could not convert string to float: 'soon'\nfix: ")
    path.write_text("at,node,lasts_s\n1000,elsewhere,600\n")
    done = ares("simulate", trace, "--nodes", NODES, "--failures", str(path))
    assert done.err == "error: down.csv:2: there is no node 'elsewhere'\nfix: there are a0, a1, ...\n"


def test_names_in_a_trace_do_not_drive_the_terminal(ares: Ares, tmp_path: Path) -> None:
    path = table(tmp_path / "\x1b[31mred.csv", jobs=5, user="\x1b]0;x\x07")
    done = ares("simulate", str(path), "--nodes", NODES, "-j", "1")
    assert done.code == 0
    assert "\x1b" not in done.out + done.err


def test_what_policies_there_are(ares: Ares) -> None:
    done = ares("simulate", "--list")
    assert done.code == 0
    assert re.search(r"^easy +whoever does not delay the first", done.out, re.MULTILINE)


def test_help_names_everything(ares: Ares) -> None:
    done = ares("simulate", "--help")
    assert "ares simulate jobs.csv -p easy --fair-share" in done.out
    assert done.code == 0


def test_every_decision_is_checked(ares: Ares, trace: str, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    arguments = ("simulate", trace, "--nodes", NODES, "-p", "easy", "-p", "fcfs", "--check", "-j", "1")
    done = ares(*arguments, "--report", str(page))
    assert done.code == 0, done.out
    counted = re.search(r"^checked (\d+) decisions: 0 violations$", done.out, re.MULTILINE)
    assert counted
    runs = figures(ares, *arguments[1:])["runs"]
    assert sum(run["checked"]["decisions"] for run in runs) == int(counted[1]) > 300
    assert [run["checked"]["starts"] for run in runs] == [150, 150]
    assert "easy: " in page.read_text().split("Every decision was judged")[1]


def test_a_violation_is_told_and_fails(ares: Ares, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Strict(Checker):
        def verdict(self) -> ReplayVerdict:
            return msgspec.structs.replace(super().verdict(), violations=("at 5 s: job \x1b[1m7 was lost",))

    monkeypatch.setattr("ares.sim.study.runs.Checker", Strict)
    done = ares("simulate", trace, "--nodes", NODES, "--check", "-j", "1", "-q")
    assert done.code == 1
    assert "decisions: 1 violations\n" in done.out
    assert "  at 5 s: job \\x1b[1m7 was lost\n" in done.out


def test_told_starts_are_judged(ares: Ares, tmp_path: Path) -> None:
    """Jobs that state exact run times in strict order, one at a time: whoever is told is told right."""
    lines = ["; MaxProcs: 4", *(swf(job, submit=10 * job, runs=600) for job in range(1, 41))]
    path = tmp_path / "line.swf"
    path.write_text("\n".join(lines) + "\n")
    done = ares("simulate", str(path), "-p", "fcfs", "--eta", "-j", "1", "-q")
    assert done.code == 0, done.err
    assert "fcfs: 100.0 % of 39 jobs that had to wait\n" in done.out
    judged = figures(ares, str(path), "-p", "fcfs", "-p", "srtf", "--eta")["runs"]
    assert judged[0]["starts"] == {"told": 39, "within": 39}
    # An oracle tells nobody anything.
    assert judged[1]["starts"] is None


def swf(job: int, *, submit: int, runs: int) -> str:
    """A line of a job that takes all four processors."""
    return f"{job} {submit} -1 {runs} 4 -1 -1 4 {runs} -1 1 1 1 -1 1 -1 -1 -1"


def test_machines_by_need_beside_a_fleet_that_is_always_on(ares: Ares, trace: str) -> None:
    found = figures(ares, trace, "--nodes", NODES, "-p", "easy", "--scale", "--unit-hour", "2")["scalers"]
    assert [row["scaler"] for row in found] == ["always on", "threshold", "ares"]
    assert {row["jobs"] for row in found} == {150}
    assert found[2]["cost"] <= found[0]["cost"]
    done = ares("simulate", trace, "--nodes", NODES, "-p", "easy", "--scale")
    assert (done.code, done.out.splitlines()[0].split()) == (
        0,
        ["SCALER", "JOBS", "MACHINES", "COST", "WAIT", "S", "P95", "LATE"],
    )
