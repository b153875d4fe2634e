"""The guides about torch, MPI, Ray and Julia: their files as they are written, with the real launchers of the first."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.images import Image
from tests.platform import Platform, eventually, say
from tests.ports import free_ports
from tests.runtimes import WITHIN_S, mpich, open_mpi, ray_python, torch_python

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


def agents(platform: Platform, tools: Path | None = None, names: Sequence[str] = NODES) -> Platform:
    platform.server()
    path = os.environ["PATH"] if tools is None else f"{tools}:{os.environ['PATH']}"
    for name in names:
        platform.agent(name, env={"PATH": path})
    return platform


def submitted(platform: Platform, at: Path, name: str, *flags: str) -> str:
    # The folder that tests lend their jobs covers the one in which an agent has `ares.job` for them.
    done = platform.cli("submit", "-f", name, "--env", f"PYTHONPATH={ROOT / 'src'}", *flags, at=at)
    assert done.code == 0, done
    return re.findall(r"\b([0-9a-z]{16})\b", done.out + done.err)[0]


def worker(platform: Platform, job: str, rank: str, program: str = "train.py") -> int | None:
    """The process of the program itself in that rank."""
    for pid, who in platform.job_processes().items():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            env = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        started = words[1:2] == [program.encode()] and f"ARES_RANK_ID={rank}".encode() in env
        if started and who.split()[0] == job:
            return pid
    return None


# Both ranks of a program in one Python, without a launcher and without a fault: torch is imported once.
WHOLE = """
import os, runpy, sys
import torch
import torch.distributed
rank = 0 if os.fork() else 1
os.environ.update(RANK=str(rank), LOCAL_RANK="0")
runpy.run_path(sys.argv[1], run_name="__main__")
if rank == 0:
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def whole(at: Path, tools: Path, program: str = "train.py", **env: str) -> object:
    """What the program in that folder has as its result when nothing goes wrong."""
    (at / "whole.py").write_text(WHOLE)
    result = at / "result.json"
    known = {
        "PYTHONPATH": str(ROOT / "src"), "GLOO_SOCKET_IFNAME": "lo", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_ports(1)[0]), "ARES_RESULT_FILE": str(result), "SAVED": str(at / "saved.pt"),
    }  # fmt: skip
    subprocess.run([str(tools / "python"), "whole.py", program], cwd=at, env={**os.environ, **known, **env}, check=True)
    return json.loads(result.read_bytes())


@pytest.mark.slow
def test_torch_goes_on_from_its_checkpoint_when_a_process_is_killed(platform: Platform, tmp_path: Path) -> None:
    tools = torch_python()
    agents(platform, tools)
    client = platform.client()
    (tmp_path / "shared").mkdir()
    at = files("torch.md", tmp_path / "project", shared=str(tmp_path / "shared"))
    job = submitted(platform, at, "train.yaml")
    saved = tmp_path / "shared" / "train.pt"
    pid = eventually(lambda: worker(platform, job, "1") if saved.exists() else None, "a checkpoint", 120)
    os.kill(pid, signal.SIGKILL)
    detail = client.wait(job, timeout=240)
    events = client.job_events(job)
    repeated = next(event for event in events if event.kind == "retrying")
    assert (repeated.data["rank"], repeated.data["failure"]) == (1, "signal"), repeated
    assert re.search(r"rank 1 on node-\w: process 1 \(local rank 0\): killed by SIGKILL", repeated.reason), repeated
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 2)
    begun = b"".join(client.logs(job, rank=0)).decode()
    assert [int(step) > 0 for step in re.findall(r"begins at step (\d+)", begun)][-1]
    # The same work was done, once: it ends with the same loss as without a fault.
    assert detail.result is not None
    assert detail.result.value == whole(at, tools)
    assert detail.result.value["steps"] == 60
    assert "torch, 1 processes" in platform.cli("show", job).out


STRIKES = [(rank, how) for rank in (0, 1) for how in ("between saves", "in a save")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "how"),
    [strike if strike == (1, "in a save") else pytest.param(*strike, marks=pytest.mark.soak) for strike in STRIKES],
)
def test_ranks_that_save_together_go_on_together(platform: Platform, tmp_path: Path, rank: int, how: str) -> None:
    """checkpoints.md, torch's own distributed checkpoints: a rank is killed, also when its files are written and are no
    checkpoint yet."""
    tools = torch_python()
    agents(platform, tools)
    client, at = platform.client(), files("checkpoints.md", tmp_path / "project")
    program = at / "sharded.py"
    without_fault = program.read_text()
    if how == "in a save":
        dies = f"if job.attempt == 1 and state['step'] > 30 and rank == {rank}: __import__('signal').raise_signal(9)"
        program.write_text(
            without_fault.replace("        job.checkpoint(new,", f"        {dies}\n        job.checkpoint(new,")
        )
    job = submitted(platform, at, "sharded.yaml")
    if how == "between saves":
        eventually(lambda: client.get(job).state.checkpoint, "a checkpoint", 120)
        pid = worker(platform, job, str(rank), "sharded.py")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    detail = client.wait(job, timeout=240)
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 2), detail.state.reason
    repeated = next(event for event in client.job_events(job) if event.kind == "retrying")
    assert (repeated.data["rank"], repeated.data["failure"]) == (rank, "signal"), repeated
    steps = set[int]()
    for number in range(2):
        said = b"".join(client.logs(job, rank=number, attempt=2)).decode()
        steps |= {int(step) for step in re.findall(rf"rank {number} of 2 begins at step (\d+)", said)}
    # Both from the same one, and later than the beginning.
    assert (len(steps), min(steps) > 0) == (1, True), steps
    program.write_text(without_fault)
    assert detail.result is not None
    assert detail.result.value == whole(at, tools, "sharded.py")


@pytest.mark.slow
def test_torch_goes_on_with_fewer_ranks_when_a_machine_is_lost(platform: Platform, tmp_path: Path) -> None:
    agents(platform, torch_python())
    client = platform.client()
    (tmp_path / "shared").mkdir()
    at = files("torch.md", tmp_path / "project", shared=str(tmp_path / "shared"))
    job = submitted(platform, at, "elastic.yaml")
    eventually((tmp_path / "shared" / "train.pt").exists, "a checkpoint", 120)
    platform.agents[client.get(job).state.placements[1].node].kill()
    detail = client.wait(job, timeout=240)
    # No attempt was lost: the one rank that was left went on from the checkpoint.
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 1), detail.state.reason
    begun = re.findall(r"of (\d) begins at step (\d+)", b"".join(client.logs(job, rank=0)).decode())
    assert (begun[0], begun[-1][0], int(begun[-1][1]) > 0) == (("2", "0"), "1", True), begun
    assert detail.result is not None
    assert detail.result.value["steps"] == 60
    eventually(lambda: not platform.job_processes(), "the end of all its processes")


@pytest.mark.parametrize("file", ["hello.yaml", "mpich.yaml"])
def test_the_mpi_program_says_where_it_runs(platform: Platform, tmp_path: Path, file: str) -> None:
    (mpich if file == "mpich.yaml" else open_mpi)()
    agents(platform)
    at = files("mpi.md", tmp_path / "project")
    job = submitted(platform, at, file, "--cpus", "0.2")
    detail = platform.client().wait(job, timeout=60)
    assert detail.state.phase == "SUCCEEDED", detail.state.reason
    for rank, place in enumerate(detail.state.placements):
        said = b"".join(platform.client().logs(job, rank=rank)).decode().splitlines()
        assert sorted(said) == [f"process {n} of 4 on {place.node}" for n in (2 * rank, 2 * rank + 1)]


def test_torchrun_of_an_image_is_started_by_the_node(tmp_path: Path) -> None:
    """With a stand-in for torchrun: the image would have gigabytes otherwise."""
    root = Image().unpacked(tmp_path / "images" / "plain")
    (root / "bin" / "torchrun").write_text(
        '#!/bin/sh\necho "$@"; while [ "$1" != --no_python ]; do shift; done; shift; "$@"'
    )
    (root / "bin" / "torchrun").chmod(0o755)
    with Platform(tmp_path / "site", lend=False, warm=True) as platform:
        platform.server()
        for name in NODES:
            platform.agent(name, flags=[f"--set=node.images.roots={tmp_path}/images"])
        client = platform.client()
        job = client.submit(
            command=["sh", "-c", "echo $RANK of $WORLD_SIZE; exit $RANK"], image=f"dir:{root}", runtime="torch",
            procs=2, ranks=2, per_node=1, retries=0, memory="64M", cpus=0.2, workdir="none",
        ).id  # fmt: skip
        detail = client.wait(job, timeout=120)
        assert (detail.state.phase, "rank 1 on" in detail.state.reason) == ("FAILED", True), detail.state.reason
        for rank in range(2):
            flags, place = b"".join(client.logs(job, rank=rank)).decode().splitlines()
            assert {"--nnodes=2", f"--node_rank={rank}", "--nproc_per_node=2", "--max_restarts=0"} <= set(flags.split())
            assert place == f"{rank} of 2"
        eventually(lambda: not platform.job_processes(), "the end of all its processes")


@pytest.mark.parametrize("dies", ["", "yes"])
def test_julia_has_its_workers_before_it_begins(platform: Platform, tmp_path: Path, dies: str) -> None:
    """julia.md, with a stand-in for Julia, as the page says."""
    tools = tmp_path / "tools"
    tools.mkdir()
    # Jobs have a /tmp of their own: they would not find it in a checkout below /tmp.
    stand_in = shutil.copy(ROOT / "tests" / "julia_stand_in.py", tools)
    script = f'#!/bin/sh\nexec {sys.executable} {stand_in} "$@"\n'
    (tools / "julia").write_text(script)
    (tools / "julia").chmod(0o755)
    agents(platform, tools, ("node-a", "node-b", "node-c"))
    at = files("julia.md", tmp_path / "project")
    job = submitted(platform, at, "squares.yaml", "--cpus", "0.2", "--env", f"DIES={dies}", "--retries", "0")
    detail = platform.client().wait(job, timeout=120)
    said = b"".join(platform.client().logs(job, rank=0)).decode().splitlines()
    if dies:
        # The fifth number is for the second worker of the four.
        assert (detail.state.phase, "rank 1 on" in detail.state.reason) == ("FAILED", True), detail.state.reason
        assert "worker 2 of this rank: killed by signal 6" in detail.state.reason
    else:
        assert (detail.state.phase, said) == ("SUCCEEDED", ["4 workers: 385"]), detail.state.reason
    eventually(lambda: not platform.job_processes(), "the end of all its processes")


@pytest.mark.slow
def test_ray_has_a_worker_on_each_node(tmp_path: Path) -> None:
    """ray.md, in a network of its own: Ray takes the address of any interface for the node's, and speaks to the
    outside."""
    in_ray_network(tmp_path, 0)
    ended = json.loads((tmp_path / "ended.json").read_bytes())
    assert ended == ["SUCCEEDED", {"nodes": ["node-a", "node-b"], "sum": 285}]


# Three parts are killed in each round: 51 kills.
RAY_ROUNDS = 17


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_a_part_of_ray_that_is_killed_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    in_ray_network(tmp_path, int(os.environ.get("ARES_STRIKES", RAY_ROUNDS)))
    # A machine of an elastic cluster that is lost costs no attempt.
    assert json.loads((tmp_path / "elastic.json").read_bytes()) == ["SUCCEEDED", 1, {"sum": 20540}]
    struck = json.loads((tmp_path / "struck.json").read_bytes())
    say(f"a retry was decided after {max(took for *_, took in struck):.1f} s at most: {struck}")
    assert [named for _, _, named, _ in struck] == [rank for _, rank, _, _ in struck], struck


def in_ray_network(folder: Path, rounds: int) -> None:
    alone = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net")
    command = [*alone, sys.executable, "-m", "tests.e2e.ray_guide", str(folder), str(ray_python()), str(rounds)]
    limit_s = 400 * (1 + 3 * rounds)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit_s)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
