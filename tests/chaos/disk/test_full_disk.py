"""Disks that are really full: a file system of 1 MB, and a limit on the size of files."""

import contextlib
import itertools
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ares.edge.client.errors import ApiError, AresError
from ares.edge.client.sync import Client
from ares.model.job import JobSpec
from tests.chaos.disk.traced import PATIENCE_S, Place, placed
from tests.chaos.load import TINY
from tests.history import read_store
from tests.platform import NeverHappened, Process, eventually, say

FILES_MAX = 60
FILLS_MAX = 2_000


@contextmanager
def small_disk(at: Path) -> Generator[Path]:
    """1 MB, and few files."""
    at.mkdir()
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a full disk needs a small tmpfs, and only root may mount one. Run this test as root.")
    mount = ["mount", "-t", "tmpfs", "-o", f"size=1m,nr_inodes={FILES_MAX}", "tmpfs", str(at)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: this machine refuses to mount a small tmpfs: {done.stderr}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def start(place: Place) -> Client:
    place.server.start()
    eventually(place.server.ready, "readiness", PATIENCE_S)
    eventually(place.server.token, "the administrator's token", PATIENCE_S)
    return place.client()


def fill(client: Client, place: Place) -> tuple[dict[str, str], AresError]:
    """Submits until it is refused: what was acknowledged, by request, and the refusal."""
    told: dict[str, str] = {}
    for number in itertools.count():
        request = f"request-{number}"
        try:
            told[request] = client.submit(bulky(), request_id=request).id
        except AresError as error:
            return told, error
        assert number < FILLS_MAX, "the disk never became full"
    raise AssertionError


def server_ended(server: Process, told: dict[str, str], client: Client) -> bool:
    """After one more submission, which is noted if it was acknowledged."""
    request = f"request-{len(told)}"
    with contextlib.suppress(AresError):
        told[request] = client.submit(bulky(), request_id=request).id
        return False
    with contextlib.suppress(NeverHappened):
        return eventually(lambda: not server.alive, "its end", 1.0)
    return False


def bulky() -> JobSpec:
    # Not on any node: only the store is asked for room.
    return JobSpec(command=("true",), env={"BULK": "x" * 8_000}, resources=TINY, selector={"no": "such-node"})


def kept(place: Place) -> dict[str, str]:
    """What the store holds when nobody uses it: jobs by request."""
    return {request: record.job for request, (record, _) in read_store(place.store_url).requests.items()}


def test_server_on_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, placed(disk / "place") as place:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(200_000))
        with start(place) as client:
            told, refusal = fill(client, place)
            assert isinstance(refusal, ApiError)
            # Store and audit chain are on the one disk; either may be the first to say so.
            assert refusal.status == 507, repr(refusal)
            assert refusal.code in ("store-full", "audit-full"), repr(refusal)
            assert "disk" in str(refusal)
            assert told
            # Refused, not broken: what is there can be read.
            assert {client.get(job).state.phase for job in told.values()} == {"PENDING"}
            ballast.unlink()
            request = f"request-{len(told)}"
            job = eventually(lambda: client.submit(bulky(), request_id=request).id, "room", PATIENCE_S)
            told[request] = job
        assert place.server.alive
        say(f"{len(told)} jobs on 1 MB")
        assert place.server.terminate() == 0
        found = kept(place)
        assert told.items() <= found.items()


def test_server_with_a_limit_on_files_stops_and_loses_nothing(tmp_path: Path) -> None:
    """A write that fails for any other reason than a full disk ends the process: what is true is read anew."""
    with placed(tmp_path / "place") as place:
        server = place.server
        server._command = ["prlimit", "--fsize=300000", *server._command]  # pyright: ignore[reportPrivateUsage]
        told: dict[str, str] = {}
        with start(place) as client:
            # A refusal of another kind, such as that there is no leader for a moment, is not yet the end.
            while not server_ended(server, told, client):
                assert len(told) < FILLS_MAX, "no file reached its limit"
        assert told
        assert server.code == 1
        assert "the store's disk failed" in server.tail()
        assert told.items() <= kept(place).items()


def test_agent_on_a_full_disk_says_why_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """It cannot even make a directory: the job ends with the reason, the agent stays and works again."""
    with small_disk(tmp_path / "disk") as disk, placed(tmp_path / "place") as place, start(place) as client:
        place.agent = agent = join(place, client, "full", disk)
        taken = [file for file in (disk / f"file-{number}" for number in range(FILES_MAX)) if touched(file)]
        done = client.wait(client.submit(command=["true"]), timeout=PATIENCE_S)
        assert done.state.phase == "FAILED"
        assert "cannot create the attempt's directory: No space left" in done.state.reason
        for file in taken:
            file.unlink()
        again = client.wait(client.submit(command=["true"]), timeout=PATIENCE_S)
        assert again.state.phase == "SUCCEEDED"
        assert agent.alive


def join(place: Place, client: Client, name: str, home: Path) -> Process:
    agent = place.new_agent(name, home)
    agent.change(ARES_JOIN_TOKEN=client.create_join_token(node=name).token)
    agent.start()
    eventually(lambda: [node for node in client.nodes() if node.name == name and node.ready], name, PATIENCE_S)
    return agent


def touched(file: Path) -> bool:
    try:
        file.touch()
    except OSError:
        return False
    return True
