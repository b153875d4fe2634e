"""The disk under logs is full, or has only its reserve left: jobs end well, and logs come out whole."""

import os
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ares.edge.client.sync import Client
from tests.chaos.disk.test_full_disk import join, small_disk, start
from tests.chaos.disk.traced import PATIENCE_S, Place, placed
from tests.platform import eventually

LINES = 2_000
SPEAK = f"for n in range({LINES}): print('line', n)"


def metric(place: Place, name: str) -> float:
    headers = {"authorization": f"Bearer {place.server.token()}"}
    asked = urllib.request.Request(f"{place.server.url}/metrics", headers=headers)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def speak(client: Client) -> str:
    return client.submit(command=[sys.executable, "-c", SPEAK]).id


def log_of(client: Client, job: str) -> str:
    return b"".join(client.logs(job)).decode()


@contextmanager
def full_soon(tmp_path: Path) -> Generator[tuple[Path, Place]]:
    """A place whose logs are on a disk of 1 MB."""
    home = tmp_path / "place"
    home.mkdir()
    with small_disk(home / "logs") as disk, placed(home) as place:
        yield disk, place


def test_a_log_is_whole_though_its_disk_was_full_for_a_while(tmp_path: Path) -> None:
    """A job SUCCEEDED with 558 of 2,000 lines, on the version before, and nobody was told."""
    with full_soon(tmp_path) as (disk, place), start(place) as client:
        place.agent = join(place, client, "n", tmp_path / "nodes")
        ballast = disk / "ballast"
        ballast.write_bytes(bytes((free := os.statvfs(disk)).f_bavail * free.f_frsize))
        job = speak(client)
        eventually(lambda: metric(place, "ares_log_unkept_total") > 1, "output that cannot be kept", PATIENCE_S)
        assert client.get(job).state.phase != "SUCCEEDED"
        ballast.unlink()
        assert client.wait(job, timeout=PATIENCE_S).state.phase == "SUCCEEDED"
        assert log_of(client, job) == "".join(f"line {n}\n" for n in range(LINES))
        assert place.server.alive


def test_logs_leave_the_reserve_to_the_store(tmp_path: Path) -> None:
    """Output stops at the reserve of its disk, people are told, and jobs come and go."""
    with full_soon(tmp_path) as (disk, place), start(place) as client:
        place.agent = join(place, client, "n", tmp_path / "nodes")
        # A tenth of the disk is reserved, and half of the tenth is left beside it.
        disk.joinpath("ballast").write_bytes(bytes((free := os.statvfs(disk)).f_bavail * free.f_frsize - 150_000))
        loud = client.submit(command=[sys.executable, "-c", "print('x' * 300_000)"]).id
        eventually(lambda: metric(place, "ares_log_unkept_total") > 1, "the reserve", PATIENCE_S)
        left = os.statvfs(disk)
        assert left.f_bavail >= left.f_blocks // 10 - 1
        alerts = eventually(
            lambda: [one for one in client.alerts(platform=True) if one.kind == "disk-reserve"], "alert", PATIENCE_S
        )
        assert "reserved for the store" in alerts[0].text
        quiet = client.submit(command=["true"]).id
        assert client.wait(quiet, timeout=PATIENCE_S).state.phase == "SUCCEEDED"
        client.cancel(loud)
