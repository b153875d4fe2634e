"""Runs the guide about Ray on two agents, in a network that has the loopback interface only; ended.json says how."""

import fcntl
import json
import socket
import struct
import sys
from pathlib import Path

from tests.e2e.test_runtime_guides import agents, files, submitted
from tests.platform import Platform, eventually

_SIOCSIFFLAGS = 0x8914
_UP_AND_RUNNING = 0x41


def main(folder: Path, tools: Path) -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", _UP_AND_RUNNING, b""))
    with Platform(folder / "platform", warm=True) as platform:
        agents(platform, tools)
        job = submitted(platform, files("ray.md", folder / "project"), "squares.yaml")
        detail = platform.client().wait(job, timeout=240)
        value = detail.state.reason if detail.result is None else detail.result.value
        eventually(lambda: not platform.job_processes(), "the end of all its processes")
        (folder / "ended.json").write_text(json.dumps([detail.state.phase, value]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
