"""Old and new versions side by side: agents, replicas, and whole upgrades and downgrades one process at a time."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import ares
from tests.chaos.load import Load
from tests.chaos.test_kill import DRAIN_S, drain
from tests.history import audit_commits, judge, read_store
from tests.platform import Platform, Process, StoreKind, environment, eventually, say

Build = Callable[[StoreKind], Platform]
AGENTS = ("node-a", "node-b", "node-c")
NEW = Path(ares.__file__).parents[1]


class Mixed:
    """A platform whose processes each run one of two versions."""

    def __init__(self, platform: Platform, old: Path) -> None:
        self.platform = platform
        # The old version has no outputs to keep, and refuses settings that it does not know.
        platform.shared = ("logs",)
        # Nor has it a sandbox: jobs of a new agent are lent the folder of the marks by its environment, which changes
        # with its version.
        lent, platform.lent = platform.lent, {}
        variables = {f"ARES_{name.upper().replace('.', '__')}": value for name, value in lent.items()}
        self._env = {
            "old": {"PYTHONPATH": str(old), **dict.fromkeys(variables, "")},
            "new": {"PYTHONPATH": str(NEW), **variables},
        }

    def env(self, version: str) -> dict[str, str]:
        return self._env[version]

    def start(self, servers: Sequence[str], agents: Sequence[str]) -> None:
        """Versions of the replicas and of the agents, in order."""
        for number, version in enumerate(servers):
            self.platform.server(number, env=self.env(version))
        for name, version in zip(AGENTS, agents, strict=False):
            self.platform.agent(name, env=self.env(version))

    def turn(self, process: Process, version: str, rng: random.Random) -> None:
        """Ends a process, politely or not, and starts it as another version."""
        if rng.random() < 0.5:
            process.kill()
        else:
            process.terminate()
        process.change(**self.env(version))

    def turn_all(self, version: str, rng: random.Random, load: Load) -> None:
        """One after the other, each when the one before is back at work, under load."""
        parts = [*((n, None) for n in self.platform.servers), *((None, name) for name in self.platform.agents)]
        for number, name in rng.sample(parts, len(parts)):
            done = len(load.acknowledged)
            if number is not None:
                self.turn(self.platform.servers[number], version, rng)
                self.platform.server(number)
            else:
                assert name is not None
                self.turn(self.platform.agents[name], version, rng)
                self.platform.agent(name)
            eventually(lambda done=done: len(load.acknowledged) > done + 3, "work between two restarts", DRAIN_S)


def judged_run(mixed: Mixed, directory: Path, seed: int, work: Callable[[Load], None]) -> Counter[str]:
    """Does `work` under load; then everything must have ended once, whoever had a hand in it."""
    platform = mixed.platform
    marks = directory / "marks"
    load = Load([platform.client(n % len(platform.servers)) for n in range(3)], marks, seed)
    load.start()
    work(load)
    load.stop(DRAIN_S)
    drain(platform.client(), load.acknowledged)
    for process in (*platform.agents.values(), *platform.servers.values()):
        process.kill()
    seen = judge(load.acknowledged, read_store(platform.store_url), marks)
    if platform.etcd is not None:
        seen["commits"] = audit_commits(platform.store_url)
    say(f"history: {dict(seen)}")
    assert seen["succeeded"] > 10, "hardly any work was done"
    return seen


def some_work(load: Load) -> None:
    eventually(lambda: len(load.acknowledged) >= 40, "forty jobs", DRAIN_S)


def test_the_old_version_is_an_old_one(old: Path, tmp_path: Path) -> None:
    """Else the other tests would compare this version with itself."""
    asked = [sys.executable, "-c", "import ares, pathlib; print(pathlib.Path(ares.__file__).parents[1])"]
    for source in (old, NEW):
        env = {**environment(tmp_path), "PYTHONPATH": str(source)}
        found = subprocess.run(asked, env=env, capture_output=True, text=True, check=True).stdout.strip()
        assert Path(found) == source


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("server", "agents"),
    [
        pytest.param("new", ("old", "new"), id="old-agent"),
        pytest.param("old", ("new", "new"), id="old-server", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("store", ["sqlite", pytest.param("etcd", marks=[pytest.mark.etcd, pytest.mark.soak])])
def test_an_old_end_and_a_new_end_of_the_link(
    build: Build, old: Path, tmp_path: Path, seed: int, server: str, agents: tuple[str, ...], store: StoreKind
) -> None:
    mixed = Mixed(build(store), old)
    mixed.start([server], agents)
    judged_run(mixed, tmp_path, seed, some_work)


# As the mixes are drawn: mostly this version, else an old one in one place or another.
MIXES: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    "all new": (60, ("new", "new", "new"), ("new", "new", "new")),
    "one old agent": (10, ("new", "new", "new"), ("old", "new", "new")),
    "one old replica": (10, ("old", "new", "new"), ("new", "new", "new")),
    "one new replica": (10, ("new", "old", "old"), ("old", "old", "old")),
    "half and half": (10, ("old", "new", "old"), ("new", "old", "new")),
}
RUNS = 50


@pytest.mark.etcd
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(RUNS))
def test_versions_side_by_side_and_a_rolling_restart(
    build: Build, old: Path, tmp_path: Path, seed: int, number: int
) -> None:
    """Up, down and up again, one process at a time, under load, from a mix drawn by the seed."""
    rng = random.Random(seed * RUNS + number)
    name = rng.choices([*MIXES], [weight for weight, _, _ in MIXES.values()])[0]
    _, servers, agents = MIXES[name]
    to = "old" if name == "all new" else rng.choice(["old", "new"])
    say(f"{name}, then all to {to}")
    mixed = Mixed(build("etcd"), old)
    mixed.start(servers, agents)
    judged_run(mixed, tmp_path, seed, lambda load: mixed.turn_all(to, rng, load))
