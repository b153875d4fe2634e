"""`ares tune` through the real command."""

import json
from pathlib import Path

import msgspec
import pytest

from ares.model.profile import Pool, Profile
from tests.unit.edge.cli.conftest import Ares
from tests.unit.sim.written import NODES, table


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return str(table(tmp_path / "jobs.csv", jobs=80))


def test_figures_files_and_what_to_do_next(ares: Ares, trace: str, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "html", "profile")}
    arguments = ("tune", trace, "--nodes", NODES, "--base", "fcfs", "--trials", "4", "-j", "1", "--objective", "wait")
    done = ares(
        *arguments, "--objective", "fairness", "--json", str(files["json"]), "--report", str(files["html"]),
        "--write", str(files["profile"]),
    )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(files["json"].read_text())
    assert found["objectives"] == ["wait", "fairness"]
    assert found["trainingJobs"] + found["heldOutJobs"] == 80
    assert found["tried"] == 4
    assert "PROFILE  WAIT" in done.out
    assert f"{files['profile']} holds the tuned profile" in done.out
    assert "\ntuning: " in f"\n{done.err}"
    written = json.loads(files["profile"].read_text())
    # No version: nobody said what was in force when it was made.
    assert set(written) == {"profile", "tuned"}
    assert written["tuned"]["settings"] == found["settings"]
    assert repr(found["heldOut"]["runs"][1]["summary"]["meanWaitS"]) in files["html"].read_text()
    # What was written is a policy like any other: on the whole trace it does what its settings do.
    again = ares("simulate", trace, "--nodes", NODES, "-p", str(files["profile"]), "-o", "json", "-j", "1")
    assert json.loads(again.out)["runs"][0]["summary"]["unfinished"] == 0


def test_what_was_in_force_is_kept(ares: Ares, trace: str, tmp_path: Path) -> None:
    """Pools and the version of the file that it began with."""
    mine, tuned = tmp_path / "mine.yaml", tmp_path / "tuned.json"
    profile = msgspec.to_builtins(Profile(pools={"spot": Pool(gpu_hour=0.5)}, actions=("claim", "allocate")))
    mine.write_text(json.dumps({"version": 7, "profile": profile, "by": "ann"}))
    done = ares(
        "tune", trace, "--nodes", NODES, "--base", str(mine), "--trials", "3", "-j", "1", "-q", "--write", str(tuned)
    )
    assert done.code == 0, done.err
    written = json.loads(tuned.read_text())
    assert written["version"] == 7
    assert written["profile"]["pools"]["spot"]["gpuHour"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--objective", "fame"), 2, "'fame' is not one of"),
        (("--holdout", "1.5"), 2, "1.5 is not in the range"),
        (("--first", "1"), 1, "jobs has 1 jobs: tuning needs some to learn from"),
        (("--base", "nothing.json"), 1, "no policy 'nothing.json'"),
    ],
)
def test_bad_options(ares: Ares, trace: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = ares("tune", trace, "--nodes", NODES, "-j", "1", *arguments)
    assert done.code == code
    lines = done.err.splitlines()
    assert said in lines[0]
    assert lines[1].startswith("fix: ")
    assert len(lines) == 2


def test_a_file_that_is_no_profile(ares: Ares, trace: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"profile": {"scorer": []}}')
    done = ares("tune", trace, "--nodes", NODES, "--base", str(path))
    assert done.code == 1
    assert f"{path}: not a profile: it has no 'scorer'" in done.err
