"""From a trace to a profile in force: tune, write, apply, and a job that is scheduled by it."""

import json
from pathlib import Path

from tests.platform import Platform
from tests.unit.sim.written import NODES, table


def test_a_tuned_profile_is_put_in_force_and_taken_back(platform: Platform, tmp_path: Path) -> None:
    platform.server()
    platform.agent("node-a")
    assert platform.cli("profile", "set", "pools.spot.gpu_hour=0.5", "actions=claim,allocate").code == 0
    mine, tuned = tmp_path / "mine.yaml", tmp_path / "tuned.json"
    mine.write_text(platform.cli("profile", "show", "-o", "yaml").out)
    # Nobody may start before one that waits: that is easily beaten.
    found = platform.cli(
        "tune", str(table(tmp_path / "jobs.csv", jobs=80)), "--nodes", NODES, "--base", str(mine), "--trials", "10",
        "--objective", "wait", "--write", str(tuned), "-o", "json", "-j", "1",
    )  # fmt: skip
    assert found.code == 0, found
    settings = json.loads(found.out)["settings"]
    assert settings, "nothing was found to change: the test shows nothing"

    edited = platform.cli("profile", "edit", "-f", str(tuned), "--note", "tuned")
    assert edited.out.startswith("version 2 is in force"), edited
    shown = dict(line.split("=", 1) for line in platform.cli("profile", "show").out.splitlines()[1:])
    for key, value in settings.items():
        # What was taken away is not there, which is what an empty value asks for.
        assert same(shown.get(key, ""), value), key
    # What tuning does not touch is as it was.
    assert shown["pools.spot.gpu_hour"] == "0.5"
    client = platform.client()
    assert client.wait(client.submit(command=["true"]), 60).state.phase == "SUCCEEDED"

    # It was made from version 1, which is no longer in force.
    again = platform.cli("profile", "edit", "-f", str(tuned))
    assert again.code != 0
    assert "2" in again.err
    assert platform.cli("profile", "revert", "1").out.startswith("version 3 is in force")

    # The single settings that tune prints do the same.
    sets = [f"{key}={value}" for key, value in settings.items()]
    assert platform.cli("profile", "set", *sets).code == 0
    assert platform.cli("profile", "diff", "2", "4", "-o", "json").out.strip() == "{}"


def same(shown: str, asked: str) -> bool:
    try:
        return abs(float(shown) - float(asked)) <= 1e-5 * abs(float(asked))
    except ValueError:
        return shown == asked
