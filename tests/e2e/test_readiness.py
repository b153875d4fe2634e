"""`/readyz` of a real server tells of a store that is gone, frozen or full, and of its return."""

import contextlib
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform import Platform, Server, eventually

pytestmark = pytest.mark.timeout(180)


def refusal(server: Server) -> dict[str, str]:
    """The checks of a server that says it is not ready, empty while it says it is."""
    try:
        with urllib.request.urlopen(f"{server.url}/readyz", timeout=10):
            return {}
    except urllib.error.HTTPError as error:
        return json.load(error)["checks"] if error.code == 503 else {}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Of 16 MB, mounted."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a full disk needs a small tmpfs, and only root may mount one. Run this test as root.")
    at = tmp_path / "disk"
    at.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(at)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"NOT TESTED: this machine refuses to mount a small tmpfs: {done.stderr.decode()}")
    yield at
    subprocess.run(["umount", "-l", str(at)], check=True)


def test_a_full_disk_is_not_ready_until_there_is_room(small_disk: Path) -> None:
    with Platform(small_disk / "platform") as platform:
        server, ballast = platform.server(0), small_disk / "ballast"
        assert server.checks()["disk"] == "has room"
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        checks = eventually(lambda: refusal(server), "a refusal")
        assert "bytes are left at" in checks["disk"], checks
        ballast.unlink()
        eventually(server.ready, "readiness with room")


@pytest.mark.etcd
def test_a_dead_and_a_frozen_etcd_are_not_ready(tmp_path: Path) -> None:
    with Platform(tmp_path, "etcd", warm=True) as platform:
        server = platform.server(0)
        assert server.checks()["writes"] == "proven"
        assert platform.etcd is not None
        platform.etcd.kill()
        checks = eventually(lambda: refusal(server), "a refusal")
        assert checks["writes"] != "proven", checks
        platform.etcd.start()
        eventually(server.ready, "readiness with etcd")
        platform.etcd.pause()
        checks = eventually(lambda: refusal(server), "a refusal")
        platform.etcd.resume()
        assert checks["writes"] != "proven", checks
        eventually(server.ready, "readiness after the pause")
