"""The files a job handed over: listed, read on after a lost connection, saved only when they are what was committed."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ares.api.jobs import CheckpointList, OutputList
from ares.edge.client.calls import calls
from ares.edge.client.calls.calls import Call, Reply, Request
from ares.edge.client.errors import DamagedOutput, NotFound, UnsafePath
from ares.edge.client.flows import SILENCE_S, Flows, Patience
from ares.edge.client.steps import Broken, Emit, Flow, Open, Read
from ares.model.state import OutputFile

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Path, bytes of it that are here, and its size.
OnProgress = Callable[[str, int, int], None]


def listing(job_id: str) -> Call[OutputList]:
    return Call(Request("GET", f"/v1/jobs/{calls.part(job_id)}/outputs"), OutputList)


def checkpoint_listing(job_id: str) -> Call[CheckpointList]:
    return Call(Request("GET", f"/v1/jobs/{calls.part(job_id)}/checkpoints"), CheckpointList)


def content(job_id: str, path: str, offset: int = 0) -> Request:
    steps = "/".join(calls.part(step) for step in path.split("/"))
    headers = (("range", f"bytes={offset}-"),) if offset else ()
    return Request("GET", f"/v1/jobs/{calls.part(job_id)}/outputs/{steps}", headers=headers)


def fetch(flows: Flows, job_id: str, path: str) -> Flow[None]:
    """Emits a file's bytes, then fails if they are not those that were committed."""
    digest, at, patience = hashlib.sha256(), 0, Patience(flows)
    while True:
        request = content(job_id, path, at)
        opened: Reply | Broken = yield Open(request, patience.tour.next(), SILENCE_S)
        lost = opened
        if isinstance(opened, Reply) and opened.status < 400:
            patience.reset()
            patience.tour.answered()
            while True:
                chunk: bytes | Broken = yield Read()
                lost = chunk if isinstance(chunk, Broken) else None
                if isinstance(chunk, Broken) or not chunk:
                    break
                yield Emit(chunk)
                digest.update(chunk)
                at += len(chunk)
            if lost is None:
                return _verify(path, opened, digest.hexdigest())
        assert lost is not None, "a whole answer has been returned from"
        yield from patience.lose(lost, request)


def _verify(path: str, reply: Reply, found: str) -> None:
    committed = reply.headers.get("etag", "").strip('"')
    if found != committed:
        raise DamagedOutput(f"{path} has the SHA-256 {found}, {committed or 'nothing'} was committed")


def chosen(found: OutputList, paths: Sequence[str]) -> tuple[OutputFile, ...]:
    """The files that are named, by their path or a directory they are in; all when none is named."""
    wanted = [path.strip("/") for path in paths]
    for path in wanted:
        if not any(_below(file.path, path) for file in found.files):
            raise NotFound(f"job {found.job} has no output {path!r}", code="not-found", fix="`ares outputs` lists them")
    return tuple(file for file in found.files if not wanted or any(_below(file.path, path) for path in wanted))


def _below(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")


class Saving:
    """One file on its way below a directory: whole and as committed, or not there at all."""

    def __init__(self, directory: Path, file: OutputFile, on_progress: OnProgress | None = None) -> None:
        self._directory = directory
        self._file = file
        self._on_progress = on_progress
        self._digest = hashlib.sha256()
        self._size = 0
        self.path = directory / file.path

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        *steps, self._name = _steps(self._file.path)
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as failing:
            failing.callback(self._stack.close)
            self._folder = self._stack.enter_context(_entered(self._directory, steps))
            self._draft = f".{self._name[:80]}.{secrets.token_hex(4)}.part"
            self._fd = os.open(self._draft, _NEW, 0o666, dir_fd=self._folder)
            failing.pop_all()
        return self

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self._digest.update(data)
        self._size += len(data)
        if self._on_progress is not None:
            self._on_progress(self._file.path, self._size, self._file.size)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            os.close(self._fd)
            if kind is None:
                self._check()
                os.replace(self._draft, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._draft, dir_fd=self._folder)
            self._stack.close()

    def _check(self) -> None:
        found = self._digest.hexdigest()
        if (self._size, found) != (self._file.size, self._file.sha256):
            raise DamagedOutput(
                f"{self._file.path} came as {self._size:,} bytes with the SHA-256 {found}; "
                f"{self._file.size:,} with {self._file.sha256} were committed"
            )


def _steps(path: str) -> list[str]:
    steps = path.split("/")
    if any(step in ("", ".", "..") or "\x00" in step for step in steps):
        raise UnsafePath(repr(path))
    return steps


@contextlib.contextmanager
def _entered(directory: Path, steps: Sequence[str]) -> Generator[int]:
    """The folder below the directory, made where it is missing. A link on the way could lead anywhere."""
    with contextlib.ExitStack() as opened:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, fd)
        for step in steps:
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, dir_fd=fd)
            try:
                fd = os.open(step, _DIRECTORY, dir_fd=fd)
            except OSError as error:
                raise UnsafePath(f"{step!r} below {directory}: {error.strerror}") from error
            opened.callback(os.close, fd)
        yield fd
