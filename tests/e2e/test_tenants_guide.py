"""docs/guides/tenants.md, as it is written: every command of it, in its order, by the people it names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform import Platform, environment
from tests.warm import Launcher

GUIDE = Path(__file__).parents[2] / "docs/guides/tenants.md"
SECRET = "hf-canary-2b6d1f"


class People:
    """Each has a home of their own; what they write to files they share."""

    def __init__(self, platform: Platform, folder: Path) -> None:
        self.platform = platform
        self.folder = folder
        self.homes = {"You": platform.servers[0].home, "Ann": folder / "ann", "Bob": folder / "bob"}
        self.values: dict[str, str] = {}
        self.launcher = Launcher(folder, Path(sys.executable).with_name("ares"), ())

    def run(self, who: str, command: str) -> subprocess.CompletedProcess[str]:
        home = self.homes[who]
        home.mkdir(exist_ok=True)
        env = {**environment(home), "PATH": f"{self.launcher.folder}:{os.environ['PATH']}", **self.values}
        if who != "You":
            env["ARES_URL"] = self.platform.servers[0].url
        return subprocess.run(
            ["sh", "-c", command], env=env, cwd=self.folder, capture_output=True, text=True, timeout=90, check=False
        )


def commands() -> list[tuple[str, str]]:
    """(heading, command) of every line that begins with a dollar sign."""
    found: list[tuple[str, str]] = []
    heading = ""
    for line in GUIDE.read_text().splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        if line.startswith("$ "):
            found.append((heading, line.removeprefix("$ ")))
    return found


def test_the_guide_as_it_is_written(platform: Platform, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    platform.server()
    platform.agent("n1", gpus=2)
    (tmp_path / "hub.txt").write_text(SECRET + "\n")
    people = People(platform, tmp_path)
    request.addfinalizer(people.launcher.close)
    written = commands()
    assert len([one for one in written if not one[0].startswith("What")]) == 10
    said: dict[str, str] = {}
    for heading, command in written:
        who = re.split(r"[:\s]", heading)[0]
        if who == "What":
            who = "Ann" if not command.startswith(("ares --tenant", "ares audit verify")) else "You"
        done = people.run(who, command)
        assert done.returncode == 0, (who, command, done.stdout, done.stderr)
        assert SECRET not in done.stdout + done.stderr, command
        said[command] = done.stdout + done.stderr
        if " submit " in command:
            people.values["JOB"] = _job(people)
    judge_what_they_saw(people, said)


def _job(people: People) -> str:
    listed = people.run("You", "ares --tenant vision jobs -o name")
    return listed.stdout.split()[0]


def judge_what_they_saw(people: People, said: dict[str, str]) -> None:
    logs = next(text for command, text in said.items() if " logs " in command)
    assert "logged in with ***" in logs
    # Bob is refused by the rule, and told by which.
    bare = "ARES_TOKEN=$(cat bob.token) ares submit --gpus 1 -- true"
    refused = people.run("Bob", bare)
    assert refused.returncode != 0
    assert "gpu-jobs-end" in refused.stderr
    assert "say how long" in refused.stderr
    # And by the quota, with the numbers.
    many = people.run("Bob", "ARES_TOKEN=$(cat bob.token) ares submit --gpus 17 --time 1h -- true")
    assert many.returncode != 0
    assert "16" in many.stderr
    # What was broken open is in ann's record.
    seen = people.run("Ann", "ares audit search -o json")
    assert "ticket 4711" in seen.stdout
    assert SECRET not in seen.stdout
    # His job is kept with the team that it was counted for, which he had not written.
    verified = people.run("You", "ares verify")
    assert verified.returncode == 0, verified.stdout
    # Nobody else's corner is hers, and bob has none of her rights.
    assert people.run("Ann", "ares --tenant default jobs").returncode != 0
    assert people.run("Bob", "ARES_TOKEN=$(cat bob.token) ares user list").returncode != 0
    assert people.run("Ann", "ares user disable bob").returncode == 0
    assert people.run("Bob", "ARES_TOKEN=$(cat bob.token) ares jobs").returncode != 0
