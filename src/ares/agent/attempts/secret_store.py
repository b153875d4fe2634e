"""Secrets on a node: given to the attempt that declares them, masked in its output, removed at its end.

They stay off the disk where the node has memory for them: their files are below /dev/shm. The output of an attempt
with secrets goes through pipes and is masked before it is written to the log.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from ares.agent.attempts.workspace import Folder
from ares.agent.files.job_files import ResultFile
from ares.model.link import Start
from ares.model.secret import SecretGiven
from ares.model.state import ExitInfo
from ares.ports.clock import Clock
from ares.ports.executor import STDERR_INDEX, STDERR_RECORD, STDERR_RECORDS_MAX, Launch

_MEMORY: Final = "/dev/shm"
_PIPE_BYTES: Final = 1024 * 1024
_READ_BYTES_MAX: Final = 64 * 1024
_READ_BYTES_MIN: Final = 4 * 1024
# Masking blocks the event loop. When a read takes longer than this, the next one is smaller.
_READ_S: Final = 0.01
_STDERR: Final = 1


class Uncovered(Exception):
    """The secrets cannot be given; the attempt must not start."""


class Shelter:
    """The directory of this agent's secrets. It is removed when the agent starts and when it ends."""

    def __init__(self, attempts: Path) -> None:
        """`attempts` is where this agent's attempts have their directories."""
        name = hashlib.sha256(os.fsencode(attempts.resolve())).hexdigest()[:12]
        self.root = f"{_MEMORY}/ares-{os.getuid()}-{name}"

    def clear(self) -> None:
        if _is_ours(self.root):
            shutil.rmtree(self.root, ignore_errors=True)

    def cover(self, start: Start, folder: Folder, clock: Clock) -> "SecretGuard | None":
        """The guard of the attempt's secrets, None when it has none. Raises Uncovered or OSError."""
        if start.secrets_trouble:
            raise Uncovered(start.secrets_trouble)
        missing = {ref.name for ref in start.spec.secrets} - {given.name for given in start.secrets}
        if missing:
            raise Uncovered(f"the control plane did not send the secret {min(missing)}")
        if not start.secrets:
            return None
        cover = SecretGuard(start.secrets, folder, clock)
        try:
            cover.open(self._room(folder))
        except OSError:
            cover.finish()
            raise
        return cover

    def _room(self, folder: Folder) -> str:
        """An empty directory for one attempt's secrets: in memory, or in the attempt's directory without /dev/shm."""
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.root, 0o700)
            if _is_ours(self.root):
                room = f"{self.root}/{os.path.basename(folder.path)}"
                os.mkdir(room, 0o700)
                os.symlink(room, folder.secrets)
                return room
        os.mkdir(folder.secrets, 0o700)
        return folder.secrets


class SecretGuard:
    """One attempt's secrets: their files, and the pipe and mask for the attempt's output."""

    def __init__(self, given: Iterable[SecretGiven], folder: Folder, clock: Clock) -> None:
        # Imported late: the mask needs a large library, and an agent without secrets does not load it.
        from ares.core.secrets import Masker

        self.given = tuple(given)
        self._folder = folder
        self._clock = clock
        # stdout and stderr; a secret is looked for in each of them.
        self._maskers = [Masker(secret.value.reveal() for secret in self.given) for _ in range(2)]
        self._room = ""
        self._pipes: list[tuple[int, int]] = []
        self._log = self._index = -1
        self._records = 0
        self._at_once = _READ_BYTES_MAX

    @property
    def versions(self) -> dict[str, int]:
        return {secret.name: secret.version for secret in self.given}

    def open(self, room: str) -> None:
        self._room = room
        for secret in self.given:
            if secret.file is not None:
                with open(os.open(f"{room}/{secret.file}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(secret.value.reveal())
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._log = os.open(self._folder.log, flags, 0o600)
        self._index = os.open(self._folder.log + STDERR_INDEX, flags, 0o600)
        for number, path in enumerate((self._folder.pipe, self._folder.stderr_pipe)):
            os.mkfifo(path, 0o600)
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            # A writer of our own: without one, the pipe reads as closed whenever the job has it closed.
            self._pipes.append((reader, os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)))
            with contextlib.suppress(OSError):
                fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            asyncio.get_running_loop().add_reader(reader, self._readable, number)

    def dress(self, launch: Launch) -> Launch:
        """The launch with the secrets in its environment, and the pipes as its output."""
        mine = {secret.env: os.fsdecode(secret.value.reveal()) for secret in self.given if secret.env is not None}
        env = {**launch.env, **mine, "ARES_SECRETS_DIR": self._folder.secrets}
        folders = (*launch.folders, self._room)
        pipe, stderr_pipe = self._folder.pipe, self._folder.stderr_pipe
        return msgspec.structs.replace(launch, env=env, log_path=pipe, stderr_path=stderr_pipe, folders=folders)

    # ---- output and result

    def _readable(self, number: int) -> None:
        began = self._clock.monotonic()
        self._read(number)
        slow = self._clock.monotonic() - began > _READ_S
        self._at_once = max(_READ_BYTES_MIN, self._at_once // 2) if slow else min(_READ_BYTES_MAX, self._at_once * 2)

    def _read(self, number: int) -> bool:
        """Moves one read of a pipe to the log. False when the pipe was empty."""
        try:
            data = os.read(self._pipes[number][0], self._at_once)
        except BlockingIOError:
            return False
        self._keep(self._maskers[number].feed(data), stderr=number == _STDERR)
        return bool(data)

    def _keep(self, data: bytes, *, stderr: bool) -> None:
        # A full disk loses output, as it does for a job without secrets.
        with contextlib.suppress(OSError):
            if data and stderr and self._records < STDERR_RECORDS_MAX:
                self._records += 1
                os.write(self._index, STDERR_RECORD.pack(os.fstat(self._log).st_size, len(data)))
            while data:
                data = data[os.write(self._log, data) :]

    def text(self, text: str) -> str:
        return self._maskers[0].text(text)

    def result(self, result: ResultFile) -> ResultFile:
        """The result with its strings masked. It stays valid JSON."""
        if not result.value:
            return result
        masked = msgspec.json.encode(self._maskers[0].value(msgspec.json.decode(result.value)))
        return msgspec.structs.replace(result, value=masked)

    def exit(self, ended: ExitInfo) -> ExitInfo:
        return msgspec.structs.replace(ended, message=self.text(ended.message))

    # ---- the end

    def finish(self) -> None:
        """Called when the attempt has no process left: writes the rest of its output and removes its secrets."""
        for number, (reader, writer) in enumerate(self._pipes):
            asyncio.get_running_loop().remove_reader(reader)
            # As much as a pipe can hold: a process elsewhere may have it open and go on.
            for _ in range(_PIPE_BYTES // self._at_once):
                if not self._read(number):
                    break
            self._keep(self._maskers[number].end(), stderr=number == _STDERR)
            os.close(reader)
            os.close(writer)
        self._pipes.clear()
        for fd in (self._log, self._index):
            if fd >= 0:
                os.close(fd)
        self._log = self._index = -1
        if self._room:
            shutil.rmtree(self._room, ignore_errors=True)
            self._room = ""
        for path in (self._folder.pipe, self._folder.stderr_pipe, self._folder.secrets):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _is_ours(path: str) -> bool:
    """Whether the directory is this user's alone. Another user of the machine may have made one of that name first."""
    try:
        seen = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o077
