"""A provider whose machines are agents on this machine, each a process with a home of its own.

What is written down can be lost between two steps, the process cannot: a machine is found by its id in the environment
of its agent, also when the server that started it was killed before it could note it.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from ares.ports.machines import ListedMachine, MachineWarning, NotProvided, ProviderUnknown, WantedMachine

log = structlog.get_logger()

_ID: Final = "ARES_MACHINE_ID"
_NOTE: Final = "machine.json"
_WARNING: Final = "warning"
_WARNING_BYTES: Final = 200
# What runs on a machine that is given back has been told before: it is drained.
_TERM_S: Final = 15.0
_LOOK_S: Final = 0.05


class ProcessMachines:
    """`folder` belongs to it alone."""

    def __init__(self, folder: Path, *, settings: Sequence[str] = ()) -> None:
        self._folder = folder
        # More of the agents' configuration, as "key=value".
        self._settings = tuple(settings)
        self._children: list[subprocess.Popen[bytes]] = []

    async def create(self, want: WantedMachine) -> str | NotProvided:
        return await asyncio.to_thread(self._create, want)

    async def machines(self) -> Sequence[ListedMachine]:
        return await asyncio.to_thread(self._machines)

    async def warnings(self) -> Sequence[MachineWarning]:
        """A file `warning` in a machine's folder, with the reason in it: as a cloud says it of a spot machine."""
        return await asyncio.to_thread(self._warnings)

    def _warnings(self) -> list[MachineWarning]:
        found: list[MachineWarning] = []
        for note in self._folder.glob(f"*/{_WARNING}"):
            with contextlib.suppress(OSError):
                why = note.read_bytes()[:_WARNING_BYTES].decode(errors="replace").strip()
                found.append(MachineWarning(note.parent.name, why or "no reason"))
        return found

    async def delete(self, ids: Sequence[str]) -> None:
        await asyncio.gather(*(self._delete(id_) for id_ in ids))

    def _create(self, want: WantedMachine) -> str | NotProvided:
        home = self._folder / want.id
        if self._agents(want.id):
            return home.name
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            # First: it is listed from now on, whatever comes.
            (home / _NOTE).write_text(json.dumps({"id": want.id, "node": want.node, "at": time.time()}))
            log_file = open(home / "agent.log", "ab")  # noqa: SIM115 - handed to the process
        except OSError as error:
            return NotProvided(f"cannot write to {home}: {error.strerror}")
        with log_file:
            agent = subprocess.Popen(
                self._command(want, home),
                env={**_environment(), _ID: want.id, "ARES_JOIN_TOKEN": want.join, "ARES_HOME": str(home)},
                stdin=subprocess.DEVNULL, stdout=log_file, stderr=subprocess.STDOUT, cwd=home, start_new_session=True,
            )  # fmt: skip
        self._children.append(agent)
        log.info("machine.created", id=want.id, node=want.node, pid=agent.pid)
        return home.name

    def _command(self, want: WantedMachine, home: Path) -> list[str]:
        shape = want.shape
        servers = [part for server in want.servers for part in ("--server", server)]
        labels = [f"--label={key}={value}" for key, value in shape.labels.items()]
        return [
            sys.executable, "-m", "ares", "agent", "--home", str(home), "--name", want.node, "--pool", want.pool,
            *servers, *labels, *(("--mock-gpu", str(shape.gpus)) if shape.gpus else ()),
            *(f"--set={setting}" for setting in self._settings),
        ]  # fmt: skip

    def _machines(self) -> Sequence[ListedMachine]:
        self._children = [child for child in self._children if child.poll() is None]
        running = _running()
        found: dict[str, ListedMachine] = {}
        for note in self._folder.glob(f"*/{_NOTE}"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                known = json.loads(note.read_text())
                found[known["id"]] = ListedMachine(known["id"], note.parent.name, float(known["at"]))
        # Its agent has ended: what is left is a directory.
        gone = [id_ for id_ in found if id_ not in running]
        for id_ in gone:
            if time.time() - found[id_].at > 1.0:
                shutil.rmtree(self._folder / found.pop(id_).handle, ignore_errors=True)
        return tuple(found.values())

    async def _delete(self, id_: str) -> None:
        deadline = asyncio.get_running_loop().time() + _TERM_S
        sent = signal.SIGTERM
        _signal(self._agents(id_), sent)
        while agents := await asyncio.to_thread(self._agents, id_):
            for child in self._children:
                child.poll()
            if asyncio.get_running_loop().time() > deadline:
                if sent == signal.SIGKILL:
                    raise ProviderUnknown(f"the agent of {id_} does not end")
                sent, deadline = signal.SIGKILL, deadline + _TERM_S
                _signal(agents, sent)
            await asyncio.sleep(_LOOK_S)
        await asyncio.to_thread(shutil.rmtree, self._folder / id_, True)
        log.info("machine.deleted", id=id_)

    def _agents(self, id_: str) -> list[int]:
        return _running().get(id_, [])


def _environment() -> dict[str, str]:
    """Without what this server was told by its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}


def _running() -> dict[str, list[int]]:
    """Processes by the id of the machine whose agent they are."""
    found: dict[str, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"agent" not in words:
                continue
            for item in (entry / "environ").read_bytes().split(b"\0"):
                name, _, value = item.partition(b"=")
                if name == _ID.encode() and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.setdefault(value.decode(errors="replace"), []).append(int(entry.name))
    return found


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
