"""The helper as a process: it ends as its program does, says why, and begins anew when an elastic gang changes."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ares.agent.attempts.runtime import equipped
from ares.agent.attempts.workspace import Folder
from ares.agent.helper.orders import HelperOrders, command_of
from ares.agent.helper.slot import HelperEnd, SlotProcesses
from ares.core.runtime.kind import RuntimePlan
from ares.model.job import Gang, JobSpec, RuntimeWish
from ares.model.link import AttemptRef, GangPeer, Start, WorldInfo
from ares.model.state import Fence, Placement
from ares.ports.executor import Launch
from tests.ports import free_ports

TIMEOUT_S = 60.0


def world(folder: Path, generation: int, ranks: list[int], place: int = 0, port: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    peers = [{"rank": rank, "node": f"n{rank}", "address": "127.0.0.1"} for rank in ranks]
    draft = folder / "world.new"
    draft.write_text(json.dumps({"generation": generation, "rank": place, "peers": peers, "masterPort": port}))
    draft.rename(folder / "world.json")


def helper(folder: Path, script: str, elastic_s: float = 20.0, **plan: Any) -> "subprocess.Popen[bytes]":
    told = {
        "plan": structs.asdict(RuntimePlan(**plan)), "command": ["sh", "-c", script], "key": "k",
        "folder": str(folder), "meetS": 5.0, "elasticS": elastic_s,
    }  # fmt: skip
    (folder / "runtime.json").write_text(json.dumps(told))
    env = {**os.environ, "ARES_WORLD_FILE": str(folder / "world.json"), "SEEN": str(folder / "seen")}
    return subprocess.Popen(command_of("main", str(folder / "runtime.json")), env=env)


@pytest.mark.parametrize(("script", "ended"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
def test_it_ends_as_its_program_does(tmp_path: Path, script: str, ended: int) -> None:
    world(tmp_path, 0, [0])
    assert helper(tmp_path, script).wait(TIMEOUT_S) == ended


def test_it_says_which_process_failed_without_waiting_for_the_launcher(tmp_path: Path) -> None:
    """The launcher, a shell, would go on for long."""
    world(tmp_path, 0, [0])
    program = 'echo $$ > "$SEEN.shell"; RANK=3 LOCAL_RANK=1 ares-watch "$@"; exec sleep 1000'
    process = helper(tmp_path, "exit 5", launcher=("sh", "-c", program, "sh"))
    assert process.wait(TIMEOUT_S) == 5
    # On a node it ends with its slot.
    os.kill(int((tmp_path / "seen.shell").read_text()), signal.SIGKILL)
    assert json.loads((tmp_path / "ended.json").read_bytes())["message"] == "process 3 (local rank 1): exit code 5"


def test_a_command_that_is_missing_is_a_fault_of_the_start(tmp_path: Path) -> None:
    world(tmp_path, 0, [0])
    assert helper(tmp_path, "", launcher=("no-such-launcher",)).wait(TIMEOUT_S) == 127
    note = json.loads((tmp_path / "ended.json").read_bytes())
    assert (note["failure"], "command not found: no-such-launcher" in note["message"]) == ("staging", True)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("ray, version 2.51.9", "is version 2.51.9, and at least 2.52 is needed"),
        ("ray, version 1.99", "is version 1.99, and at least 2.52 is needed"),
        ("", "does not say its version"),
        ("ray, version 2.52.0", ""),
        ("ray, version 2.100.1", ""),
        ("ray, version 3.0.0", ""),
    ],
)
def test_a_service_that_is_too_old_is_not_started(tmp_path: Path, version: str, says: str) -> None:
    world(tmp_path, 0, [0])
    service = tmp_path / "service"
    service.write_text(f'#!/bin/sh\n[ "$1" != --version ] || {{ echo "{version}"; exit; }}\ntouch "$SEEN"; exit 9\n')
    service.chmod(0o700)
    plan: dict[str, Any] = {"meets": True, "service_first": (str(service),), "service_least": (2, 52)}
    assert helper(tmp_path, "true", **plan).wait(TIMEOUT_S) == 1
    note = json.loads((tmp_path / "ended.json").read_bytes())
    assert (note["failure"], (says or "ended with 9") in note["message"]) == ("staging", True), note
    assert (tmp_path / "seen").exists() == (not says)


def test_an_elastic_program_begins_anew_with_the_new_world(tmp_path: Path) -> None:
    world(tmp_path, 0, [0])
    script = 'set -- $ARES_MEETING; echo "$1" >> "$SEEN"; [ "$1" = 1 ] || exit 0; exec sleep 1000'
    process = helper(tmp_path, script, elastic=True)
    seen, deadline = tmp_path / "seen", time.monotonic() + TIMEOUT_S
    while not seen.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    world(tmp_path, 1, [0, 1])
    assert process.wait(TIMEOUT_S) == 0
    assert seen.read_text().split() == ["1", "2"]


# What each framework reads to find its place, and what it must find: process 5 of 8, the second of the third rank.
READ = {
    "torch": {
        "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "2", "ROLE_RANK": "5",
        "GROUP_WORLD_SIZE": "4", "ROLE_WORLD_SIZE": "8", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "777",
    },
    "accelerate": {
        "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "777",
    },
    "DeepSpeed": {
        "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_SIZE": "2", "CROSS_RANK": "2", "CROSS_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "777",
    },
    "Lightning": {
        "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "NODE_RANK": "2", "GROUP_RANK": "2",
        "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "777",
    },
    "Horovod": {
        "HOROVOD_RANK": "5", "HOROVOD_SIZE": "8", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "2", "HOROVOD_CROSS_SIZE": "4",
    },
    "JAX": {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:777", "JAX_PROCESS_ID": "5", "JAX_NUM_PROCESSES": "8",
        "JAX_LOCAL_DEVICE_IDS": "1",
    },
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}  # fmt: skip
HYDRA = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "2"}


@pytest.mark.parametrize("launcher", [OPEN_MPI, HYDRA, TORCHRUN], ids=["mpirun", "hydra", "torchrun"])
def test_a_process_has_what_frameworks_read(tmp_path: Path, launcher: dict[str, str]) -> None:
    """As the real program sets it, which launchers start; and the guide says so."""
    found, guide = tmp_path / "found", (Path(__file__).parents[4] / "docs" / "guides" / "torch.md").read_text()
    env = {
        "PATH": os.environ["PATH"], "ARES_MEETING": "4 10.0.0.1 777", "ARES_HELPER_ENDS": str(tmp_path / "ends"),
        "ARES_HELPER_START": "0", "ARES_HELPER_OUTPUT": "/nowhere", **launcher,
    }  # fmt: skip
    subprocess.run(command_of("watch", "sh", "-c", f"env > {found}"), env=env, check=True, timeout=TIMEOUT_S)
    seen = dict(line.split("=", 1) for line in found.read_text().splitlines() if "=" in line)
    for framework, expected in READ.items():
        assert {name: seen.get(name) for name in expected} == expected, framework
        assert [name for name in expected if f"`{name}`" not in guide] == [], framework


# Its ranks begin when all are there, and go on until the gate is open.
RANK = """
set -- $ARES_MEETING
echo "$1 $3" >> "$SEEN"
while [ ! -e "$SEEN.gate" ]; do sleep 0.05; done
exit "$(cat "$SEEN.gate")"
"""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Two ranks of an elastic gang whose leases are long, each with a program that has begun."""
    port, folders = free_ports(1)[0], [tmp_path / "0", tmp_path / "1"]
    for place, folder in enumerate(folders):
        world(folder, 0, [0, 1], place, port)
    plan: dict[str, Any] = {"elastic": True, "everywhere": True, "meets": True, "ports": 1}
    ranks = [helper(folder, RANK, elastic_s=10 * TIMEOUT_S, **plan) for folder in folders]
    assert settled(lambda: all((folder / "seen").exists() for folder in folders))
    yield ranks
    for rank in ranks:
        rank.kill()
        rank.wait()
    for folder in folders:
        (folder / "seen.gate").write_text("0")


@pytest.mark.parametrize("fails", [0, 1])
def test_a_mistake_of_the_program_ends_an_elastic_gang_without_waiting_for_the_lease(
    tmp_path: Path, pair: list["subprocess.Popen[bytes]"], fails: int
) -> None:
    (tmp_path / str(fails) / "seen.gate").write_text("3")
    assert pair[fails].wait(TIMEOUT_S) == 3
    assert pair[1 - fails].wait(TIMEOUT_S) == 1
    note = json.loads((tmp_path / str(1 - fails) / "ended.json").read_bytes())
    assert (note["blames"], note["message"]) == (fails, f"it ended with rank {fails}")


@pytest.mark.parametrize("lost", [0, 1])
def test_an_elastic_gang_goes_on_when_a_rank_is_lost(
    tmp_path: Path, pair: list["subprocess.Popen[bytes]"], lost: int
) -> None:
    """The other's program fails, too, and begins anew in the smaller world, where it meets at another port."""
    left = tmp_path / str(1 - lost)
    pair[lost].kill()
    (left / "seen.gate").write_text("1")
    assert settled(lambda: not [word for word in alive_below(pair[1 - lost].pid) if "SEEN" in word])
    (left / "seen.gate").write_text("0")
    world(left, 1, [1 - lost], 0, free_ports(1)[0])
    assert pair[1 - lost].wait(TIMEOUT_S) == 0
    (first, port), (second, other) = (line.split() for line in (left / "seen").read_text().splitlines())
    assert (first, second, port != other) == ("2", "1", True)


def alive_below(pid: int) -> list[str]:
    """Command lines of its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode() for child in children]


def settled(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# The first world's worker has a session of its own and heeds no SIGTERM. The second world's program waits for its end.
STUBBORN = """
if [ "${ARES_MEETING%% *}" = 1 ]; then
    setsid env $HIDES sh -c 'trap "" TERM; echo $$ >> "$SEEN"; while :; do sleep 0.1; done' &
    [ -n "$HIDES" ] || { while [ ! -s "$SEEN" ]; do sleep 0.05; done; exit 3; }
    wait
fi
while [ ! -e "$SEEN.gone" ]; do sleep 0.05; done
"""


@pytest.mark.parametrize("hides", ["-u ARES_HELPER_ENDS", ""])
def test_no_worker_of_the_earlier_world_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hides: str
) -> None:
    """One that the launcher alone leads to, and one whose launcher has ended before."""
    monkeypatch.setenv("HIDES", hides)
    world(tmp_path, 0, [0])
    process = helper(tmp_path, STUBBORN, elastic_s=2 * TIMEOUT_S, elastic=True)
    seen = tmp_path / "seen"
    assert settled(lambda: seen.exists() and seen.read_text().endswith("\n"))
    worker = int(seen.read_text())
    try:
        assert running(worker)
        world(tmp_path, 1, [0, 1])
        assert settled(lambda: not running(worker))
    finally:
        (tmp_path / "seen.gone").touch()
        if running(worker):
            os.kill(worker, signal.SIGKILL)
    assert process.wait(TIMEOUT_S) == 0


def test_an_end_of_an_earlier_start_is_not_an_end_of_this_one(tmp_path: Path) -> None:
    async def heard() -> list[HelperEnd]:
        failed = list[HelperEnd]()
        processes = SlotProcesses(str(tmp_path / "ends"), failed.append)
        await processes.stop_all()
        for start, code in ((0, 4), (1, 5)):
            told = json.dumps({"rank": 0, "local": 0, "start": start, "code": code})
            (tmp_path / "ends").write_text(f"{told}\n")
        while not failed:
            await asyncio.sleep(0)
        return failed

    assert [end.code for end in asyncio.run(asyncio.wait_for(heard(), TIMEOUT_S))] == [5]


@pytest.mark.parametrize(
    ("lease_s", "dead_after_s", "waits_s"), [(9.0, 9.0, 23.0), (0.5, 2.0, 20.0), (600.0, 9.0, 614.0)]
)
def test_the_wait_for_a_smaller_world_outlasts_the_leases(
    tmp_path: Path, lease_s: float, dead_after_s: float, waits_s: float
) -> None:
    spec = JobSpec(
        command=("x",),
        gang=Gang(ranks=2, min_ranks=1),
        runtime=RuntimeWish(kind="torch", elastic=True),
        lease_s=lease_s,
    )
    peers = tuple(GangPeer(rank=rank, node=f"n{rank}", address="10.0.0.1") for rank in range(2))
    start = Start(
        ref=AttemptRef(job="j1", tenant="t", fence=Fence(counter=3)), attempt=1,
        placement=Placement(node="n0", incarnation=1, cpu_milli=1000, memory_mib=100, gpus=()),
        spec=spec, world=WorldInfo(peers=peers, master_port=1), key="k",
    )  # fmt: skip
    folder = Folder(str(tmp_path))
    launch = Launch(
        (), {}, cwd="", log_path="", memory_mib=1, cpu_milli=1, file_bytes_max=1, processes_max=1, open_files_max=1
    )
    equipped(launch, start, folder, dead_after_s)
    assert HelperOrders(folder.runtime).elastic_s == waits_s
