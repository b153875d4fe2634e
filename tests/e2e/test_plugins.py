"""A third party's wheel, built, installed and used by a real server; decisions that outlive it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ares.api.jobs import JobDetail, Waiting
from ares.edge.client.calls import operator, predictions
from tests.platform import Platform, eventually

EXAMPLE = Path(__file__).parents[2] / "plugins" / "example"
pytestmark = pytest.mark.slow


def run(*command: str, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The example from its source, and beside it one that cannot be loaded and one that wants a taken name."""
    target, wheels = tmp_path / "site", tmp_path / "wheels"
    run("hatchling", "build", "-t", "wheel", "-d", str(wheels), cwd=EXAMPLE)
    (wheel,) = wheels.glob("*.whl")
    run("pip", "install", "-q", "--no-index", "--no-deps", "--target", str(target), str(wheel), cwd=tmp_path)
    broken = target / "broken-2.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (broken / "entry_points.txt").write_text(
        "[ares.scorers]\nfit = ares_example:even_racks\nlost = not_there:score\n"
        "[ares.actions]\nnumber = ares_example:LABEL\n"
    )
    return target


def judged(job: JobDetail) -> Waiting | None:
    """Why it waits, once a cycle has looked at it."""
    return None if job.waiting is None or job.waiting.code == "NEXT_CYCLE" else job.waiting


def test_a_wheel_of_a_third_party_is_used_and_broken_ones_are_refused_by_name(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))
    with Platform(tmp_path / "platform") as platform:
        server = platform.server()
        for name, rack in (("node-a", 9), ("node-b", 1)):
            labels = [f"--set=node.labels.rack-order={rack}", "--set=node.labels.quarantine=yes"]
            platform.agent(name, flags=labels)
        client = platform.client()

        # What is there, where it comes from, and what was not taken.
        found = client.send(operator.plugins())
        mine = {(one.kind, one.name): one for one in found.plugins if one.origin == "ares-example-plugin 1.0.0"}
        assert set(mine) == {
            ("filter", "quarantine"), ("scorer", "even-racks"), ("order", "oncall-first"), ("action", "one-at-a-time"),
        }  # fmt: skip
        assert not any(one.used for one in mine.values())
        refused = {one.name: (one.origin, one.error) for one in found.refused}
        assert refused["fit"] == ("broken 2.0", "the name is taken; rename the entry point")
        assert refused["lost"] == ("broken 2.0", "ModuleNotFoundError: No module named 'not_there'")
        assert refused["number"][1] == "the entry point gives str, which cannot be called"
        assert server.checks()["plugins"] == "refused: fit, lost, number"

        # A scorer changes where a job goes: with no difference otherwise the first node has it.
        first = client.submit(command=["true"])
        assert client.wait(first, 60).state.placements[0].node == "node-a"
        client.send(operator.set_profile({"weight.even-racks": "1000", "actions": "+one-at-a-time"}, "", None))
        second = client.submit(command=["true"])
        assert client.wait(second, 60).state.placements[0].node == "node-b"

        # A filter keeps a job out, in its own words.
        client.send(operator.set_profile({"filters": "+quarantine"}, "", None))
        third = client.submit(command=["true"])
        reason = eventually(lambda: judged(client.get(third)), "a reason of the planner")
        assert reason.code == "REFUSED_BY_PLUGIN"
        assert reason.message == "2 nodes in quarantine; the first is node-a"
        shown = platform.cli("explain", third.id)
        assert "2 nodes in quarantine; the first is node-a" in shown.out, shown
        listed = platform.cli("plugins", "-o", "json")
        used = [one["name"] for one in json.loads(listed.out)["plugins"] if one.get("used")]
        assert {"quarantine", "even-racks", "one-at-a-time"} <= set(used)
        assert platform.cli("profile", "revert", "0").out.startswith("version 3 is in force")
        assert client.wait(third, 60).state.phase == "SUCCEEDED"

        # A decision is found after a restart, by the job it was about.
        server.terminate()
        platform.server()
        again = platform.client().send(predictions.replay(second.id, {}))
        assert (again.chosen, again.same, again.profile_version) == (("node-b",), True, 1)
        other = platform.client().send(predictions.replay(second.id, {"even-racks": 0.0}))
        assert (other.chosen_again, other.same) == (("node-a",), False)
