"""The guides about torch, MPI and Ray: their files as they are written, with the real launchers."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform import Platform, eventually
from tests.runtimes import WITHIN_S, open_mpi, ray_python, torch_python

pytestmark = pytest.mark.timeout(WITHIN_S)
ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
NODES = ("node-a", "node-b")


def files(page: str, folder: Path, **replaced: str) -> Path:
    """Writes every file that the page names in the first line of a block."""
    folder.mkdir()
    for name, text in re.findall(r"^```\w+\n# ([\w.]+)[^\n]*\n(.*?)^```", (GUIDES / page).read_text(), re.M | re.S):
        for old, new in replaced.items():
            text = text.replace(f"/{old}/", f"{new}/")
        (folder / name).write_text(text)
    return folder


def agents(platform: Platform, tools: Path | None = None) -> Platform:
    platform.server()
    path = os.environ["PATH"] if tools is None else f"{tools}:{os.environ['PATH']}"
    for name in NODES:
        platform.agent(name, env={"PATH": path})
    return platform


def submitted(platform: Platform, at: Path, name: str, *flags: str) -> str:
    # The folder that tests lend their jobs covers the one in which an agent has `ares.job` for them.
    done = platform.cli("submit", "-f", name, "--env", f"PYTHONPATH={ROOT / 'src'}", *flags, at=at)
    assert done.code == 0, done
    return re.findall(r"\b([0-9a-z]{16})\b", done.out + done.err)[0]


def worker(platform: Platform, job: str, rank: str) -> int | None:
    """The process of the program itself in that rank."""
    for pid, who in platform.job_processes().items():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            env = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        started = words[1:2] == [b"train.py"] and f"ARES_RANK_ID={rank}".encode() in env
        if started and who.split()[0] == job:
            return pid
    return None


@pytest.mark.slow
def test_torch_goes_on_from_its_checkpoint_when_a_process_is_killed(platform: Platform, tmp_path: Path) -> None:
    agents(platform, torch_python())
    client = platform.client()
    jobs = dict[str, str]()
    for name in ("struck", "whole"):
        (tmp_path / f"{name}-shared").mkdir()
        at = files("torch.md", tmp_path / name, shared=str(tmp_path / f"{name}-shared"))
        jobs[name] = submitted(platform, at, "train.yaml", "--cpus", "0.5")
    saved = tmp_path / "struck-shared" / "train.pt"
    pid = eventually(lambda: worker(platform, jobs["struck"], "1") if saved.exists() else None, "a checkpoint", 120)
    os.kill(pid, signal.SIGKILL)
    ends = {name: client.wait(job, timeout=240) for name, job in jobs.items()}
    events = client.job_events(jobs["struck"])
    repeated = next(event for event in events if event.kind == "retrying")
    assert (repeated.data["rank"], repeated.data["failure"]) == (1, "signal"), repeated
    assert re.search(r"rank 1 on node-\w: process 1 \(local rank 0\): killed by SIGKILL", repeated.reason), repeated
    assert (ends["struck"].state.phase, ends["struck"].state.attempt) == ("SUCCEEDED", 2)
    begun = b"".join(client.logs(jobs["struck"], rank=0)).decode()
    assert [int(step) > 0 for step in re.findall(r"begins at step (\d+)", begun)][-1]
    # The same work was done, once: both end with the same loss.
    results = [ends[name].result for name in jobs]
    assert results[0] is not None
    assert results[1] is not None
    assert results[0].value == results[1].value
    assert results[0].value["steps"] == 60
    assert "torch, 1 processes" in platform.cli("show", jobs["whole"]).out


def test_the_mpi_program_says_where_it_runs(platform: Platform, tmp_path: Path) -> None:
    open_mpi()
    agents(platform)
    at = files("mpi.md", tmp_path / "project")
    job = submitted(platform, at, "hello.yaml", "--cpus", "0.2")
    detail = platform.client().wait(job, timeout=60)
    assert detail.state.phase == "SUCCEEDED", detail.state.reason
    for rank, place in enumerate(detail.state.placements):
        said = b"".join(platform.client().logs(job, rank=rank)).decode().splitlines()
        assert sorted(said) == [f"process {n} of 4 on {place.node}" for n in (2 * rank, 2 * rank + 1)]


@pytest.mark.slow
def test_ray_has_a_worker_on_each_node(tmp_path: Path) -> None:
    """ray.md, in a network of its own: Ray takes the address of any interface for the node's, and speaks to the
    outside."""
    alone = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net")
    tools = ray_python()
    command = [*alone, sys.executable, "-m", "tests.e2e.ray_guide", str(tmp_path), str(tools)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    ended = json.loads((tmp_path / "ended.json").read_bytes())
    assert ended == ["SUCCEEDED", {"nodes": ["node-a", "node-b"], "sum": 285}]
