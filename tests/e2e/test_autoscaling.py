"""The guide about pools that scale, as it is written, with real agents; and a server killed while it buys."""

import contextlib
import re
import subprocess
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks, placed
from tests.everyday import Person
from tests.platform import eventually
from tests.ports import free_ports
from tests.unit.sim.written import table

PAGE = ROOT / "docs" / "guides" / "autoscaling.md"


def machines(home: Path) -> list[str]:
    """The ids of machines whose agents run."""
    found: set[str] = set()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
        except OSError:
            continue
        if b"agent" in words and any(word.startswith(f"{home}/machines/".encode()) for word in words):
            found |= {word.decode().rpartition("/")[2] for word in words if b"/machines/" in word}
    return sorted(found)


@pytest.mark.slow
def test_the_guide_as_it_is_written(tmp_path: Path) -> None:
    with Person(tmp_path, ordinary=False) as reader:
        assert reader.run("ares down --yes").returncode == 0
        http, agents = free_ports(2)
        home = reader.home / ".ares"
        # The second one is about a cluster of Kubernetes: tests/unit/app/test_providers.py.
        (toml, _) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
        (home / "ares.toml").write_text(toml)

        def latest() -> str:
            return reader.run("ares jobs --limit 1 -o name").stdout.strip()

        trace = table(tmp_path / "jobs.csv")
        said: list[str] = []
        for block in blocks(PAGE):
            for command in () if block.not_run else block.commands():
                own = f"ares up --port {http} --set agents.port={agents}"
                done = reader.run(placed(command.replace("ares up", own).replace("jobs.csv", str(trace)), latest))
                assert done.returncode == 0, (block.name, command, done.stdout, done.stderr)
                said.append(done.stdout)
        job = latest()
        assert any("1 x burst would start 1 waiting job; the pool is off" in text and job in text for text in said)
        assert any(f"bought 1 x burst because job {job} found no room" in text for text in said)
        # Nothing runs on it any more: it is given back, and nothing is left of it.
        eventually(lambda: not machines(home) or None, "the machine is given back", 90)
        eventually(lambda: "burst-" not in reader.run("ares nodes").stdout or None, "its node is forgotten", 60)
        assert reader.run("ares autoscale show burst -o json").stdout.count('"node"') == 0


@pytest.mark.slow
def test_a_server_killed_while_it_buys_loses_no_machine(tmp_path: Path) -> None:
    with Person(tmp_path, ordinary=False) as reader:
        assert reader.run("ares down --yes").returncode == 0
        http, agents = free_ports(2)
        home = reader.home / ".ares"
        toml = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.M | re.S)[0]
        (home / "ares.toml").write_text(toml)
        assert reader.run(f"ares up --no-sample --port {http} --set agents.port={agents}").returncode == 0
        wants = "--name burst --cpus 0.1 --memory 32M --selector tier=burst"
        assert reader.run(f"ares submit {wants} -- sleep 5; ares autoscale enable burst").returncode == 0
        job = reader.run("ares jobs --limit 1 -o name").stdout.strip()
        eventually(lambda: machines(home) or None, "a machine", 60)
        servers = server_pids(home)
        assert servers, "no server process was found"
        # The supervisor starts another server; the machine's agent goes on, and finds it.
        subprocess.run(["kill", "-9", *servers], check=True)
        eventually(lambda: reader.run("ares jobs").returncode == 0 or None, "another server", 60)
        assert reader.run(f"ares wait {job} --timeout 2m").returncode == 0
        shown = reader.run("ares autoscale show burst -o json").stdout
        assert len(machines(home)) <= 1
        assert all(id_ in shown for id_ in machines(home))
        eventually(lambda: not machines(home) or None, "the machine is given back", 90)


def server_pids(home: Path) -> list[str]:
    """Processes that have the store open."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            open_files = [str(fd.readlink()) for fd in (entry / "fd").iterdir()] if entry.name.isdecimal() else []
            if str(home / "store.db") in open_files:
                found.append(entry.name)
    return found
