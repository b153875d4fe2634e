"""Python environments that attempts ask for: found on the node, or built there with uv, once for all that need it.

A build runs code of the packages it installs. It is started as the job would be: in the sandbox, as the tenant's user,
within the job's limits, with its output in the job's log.
"""

import asyncio
import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import structlog

from ares.agent.attempts.attempt import Attempt
from ares.agent.link.mailbox import Mailbox
from ares.agent.settings import AgentSettings
from ares.agent.staging.node_environment import NoEnvironment, ReadyEnvironment, find_environment, folder_at, shown_at
from ares.agent.staging.shelf import EnvironmentShelf
from ares.agent.staging.stager import Stager, StagingFailed, TenantThreads, in_thread
from ares.agent.staging.unpack import NotWanted
from ares.model.job import PythonEnvironment
from ares.model.link import Progress
from ares.ports.executor import CannotStart, Executor, Finished, Launch

_log = structlog.get_logger(__name__)

# A build that takes longer is ended: its job holds its place meanwhile.
_BUILD_S: Final = 3600.0
_RESERVE_BYTES: Final = 512 << 20
_FLIGHTS_MAX: Final = 1000
# Directories that jobs of one tenant named and that are looked at now: each may be on a file system that hangs.
_LOOKS_MAX: Final = 4
_KEY_LETTERS: Final = 20
# Of what uv said, in the message of a failure.
_LINES: Final = 6
_TAIL_BYTES: Final = 4096
# Variables of the job that a build gets: settings of uv, and the way to the network.
_PASSED: Final = ("UV_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_", "LANG", "LC_ALL", "TZ")
# `$0` is uv, `$1` the environment to make, `$2` the file.
_INSTALL: Final = '"$0" venv "$1" && exec "$0" pip install --python "$1/bin/python" -r "$2"'
_COMMANDS: Final = {"uv.lock": 'exec "$0" sync --frozen --no-install-project'}

# How uv ends when requirements cannot be met, and what it says then and of a file that it cannot read. It ends so, too,
# when a package cannot be built or fetched: another node may have the compiler, or the package in its cache.
_UNMET: Final = (1, "No solution found")
_UNREADABLE: Final = ("Couldn't parse", "Failed to parse")
_OF_THE_NODE: Final = ("Failed to build", "network was disabled")

T = TypeVar("T")


@dataclass(slots=True)
class _Flight:
    """One environment that is being built. Attempts that waited for a build that failed do not repeat it."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    failures: int = 0
    why: str = ""
    lasting: bool = False


class Environments:
    """One for all attempts of a node. `stager` is None where files cannot be fetched."""

    def __init__(
        self, state_dir: Path, stager: Stager | None, executor: Executor, mailbox: Mailbox, settings: AgentSettings
    ) -> None:
        # Attempts that have an environment now.
        self._attempts: set[Attempt] = set()
        self._shelf = EnvironmentShelf(state_dir / "cache", settings.environment_bytes_max, self._in_use)
        self._shelf.open()
        self._mailbox = mailbox
        self._stager = stager
        self._executor = executor
        self._settings = settings
        self._flights: dict[str, _Flight] = {}
        self._threads = TenantThreads(_LOOKS_MAX)

    def _in_use(self) -> set[str]:
        # A copy: the caller is a thread.
        return {attempt.python.folder.path for attempt in list(self._attempts) if attempt.python is not None}

    async def dress(self, attempt: Attempt, launch: Launch) -> Launch:
        """The launch with the environment of the attempt. Raises as `provide`."""
        self._attempts.add(attempt)
        found = attempt.python = await self.provide(attempt, launch, lambda text: self._say(attempt, text))
        if found is None:
            return launch
        shown = (*launch.shown, found.folder) if found.covered else launch.shown
        return msgspec.structs.replace(launch, env=found.activate(launch.env), shown=shown)

    def release(self, attempt: Attempt) -> None:
        """The attempt needs its environment no more."""
        self._attempts.discard(attempt)

    def _say(self, attempt: Attempt, text: str) -> None:
        """In the attempt's log, and as what it does now."""
        ref, rank = attempt.key
        self._mailbox.progress(Progress(ref=ref, rank=rank, message=text))
        # A full disk loses the line, as it does output of the job.
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(attempt.folder.log, flags, 0o600)
            try:
                seen = os.fstat(fd)
                # What a build left in its place is not written to.
                if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1:
                    os.write(fd, f"[ares: {text}]\n".encode())
            finally:
                os.close(fd)

    async def provide(self, attempt: Attempt, launch: Launch, say: Callable[[str], None]) -> ReadyEnvironment | None:
        """The environment of the attempt; None when the node lacks it and the job goes without. `say` tells its log.
        Raises StagingFailed, and NotWanted when the attempt is to end."""
        wish = attempt.start.spec.python
        assert wish is not None, "only a job that asks for one is given one"
        if wish.path is None:
            return await self._built(attempt, wish, launch, say)
        path, terms = wish.path, self._settings.environment_terms
        try:
            return await self._threads.look(attempt.start.ref.tenant, lambda: find_environment(path, launch.uid, terms))
        except NoEnvironment as missing:
            if wish.required:
                fix = "make it there, or have one built: --python requirements.txt"
                raise StagingFailed(f"{missing} on this node; {fix}") from None
            attempt.remark = f"{missing} on this node: it runs with the node's own programs"
            say(attempt.remark)
            return None

    # ---- built environments

    async def _built(
        self, attempt: Attempt, wish: PythonEnvironment, launch: Launch, say: Callable[[str], None]
    ) -> ReadyEnvironment:
        folder = self._shelf.folder(attempt.start.ref.tenant, _key(attempt, wish))
        flight = self._flight(folder)
        known, waits = flight.failures, flight.turn.locked()
        if waits:
            say(f"waits for the Python environment of {wish.file}, which another attempt builds on this node")
        async with flight.turn:
            if not await in_thread(lambda: self._shelf.known(folder)):
                if flight.failures != known:
                    raise StagingFailed(flight.why, lasting=flight.lasting)
                try:
                    await self._build(attempt, wish, launch, folder, say)
                except StagingFailed as failed:
                    flight.failures, flight.why, flight.lasting = flight.failures + 1, str(failed), failed.lasting
                    raise
            # Before another attempt makes room for its own.
            attempt.python = await in_thread(lambda: shown_at(f"{folder}/env"))
            return attempt.python

    def _flight(self, folder: str) -> _Flight:
        if len(self._flights) > _FLIGHTS_MAX:
            self._flights = {key: flight for key, flight in self._flights.items() if flight.turn.locked()}
        return self._flights.setdefault(folder, _Flight())

    async def _build(
        self, attempt: Attempt, wish: PythonEnvironment, launch: Launch, folder: str, say: Callable[[str], None]
    ) -> None:
        if not self._settings.uv:
            raise StagingFailed("this node has no uv to build its Python environment with: its operator can install it")
        if self._stager is None:
            raise StagingFailed("this node cannot fetch the files of a Python environment")
        if (free := await in_thread(self._shelf.free_bytes)) < _RESERVE_BYTES:
            raise StagingFailed(f"only {free >> 20:,} MiB of this node's disk are free, too little for an environment")
        say(f"builds the Python environment of {wish.file}, once on this node")
        try:
            await in_thread(lambda: self._shelf.begin(folder, launch.uid))
            await self._stager.stage(
                attempt.start, f"{folder}/src", launch.uid, lambda: not attempt.fenced, wish.project
            )
            began = await in_thread(lambda: _size(attempt.folder.log))
            finished = await self._run(attempt, self._order(launch, wish, folder, attempt.deadline))
            if finished.code != 0:
                lines = await in_thread(lambda: _last_lines(attempt.folder.log, began))
                why = _failure(wish.file, finished, launch.memory_mib, " / ".join(lines[-_LINES:]))
                raise StagingFailed(why, lasting=_lasting(finished, " ".join(lines)))
            size = await in_thread(lambda: self._shelf.seal(folder))
        except BaseException as failed:
            await in_thread(lambda: self._shelf.drop(folder))
            if isinstance(failed, OSError):
                why = failed.strerror or failed
                raise StagingFailed(f"its Python environment cannot be kept here: {why}") from None
            raise
        if size > self._settings.environment_bytes_max:
            raise StagingFailed(
                f"its Python environment takes {size >> 20:,} MiB, and this node keeps at most "
                f"{self._settings.environment_bytes_max >> 20:,} MiB of them (node.python.cache_mib)"
            )
        say(f"built the Python environment of {wish.file}, {size >> 20:,} MiB")
        _log.info("environment.built", job=attempt.start.ref.job, tenant=attempt.start.ref.tenant, bytes=size)

    def _order(self, launch: Launch, wish: PythonEnvironment, folder: str, deadline: float) -> Launch:
        uv, name = self._settings.uv, os.path.basename(wish.file)
        env = {key: value for key, value in launch.env.items() if key.upper().startswith(_PASSED)}
        if self._settings.package_index:
            env.setdefault("UV_DEFAULT_INDEX", self._settings.package_index)
        python = os.path.dirname(getattr(sys, "_base_executable", sys.executable))
        env |= {
            "PATH": f"{python}:{launch.env.get('PATH', '')}",
            "HOME": f"{folder}/tmp",
            "TMPDIR": f"{folder}/tmp",
            "UV_CACHE_DIR": launch.env.get("UV_CACHE_DIR", f"{folder}/tmp/uv"),
            "UV_PROJECT_ENVIRONMENT": f"{folder}/env",
            "UV_PYTHON_DOWNLOADS": "never",
            # A hard link would let jobs that may write to the cache change the environment.
            "UV_LINK_MODE": "copy",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }
        argv = ("/bin/sh", "-c", _COMMANDS.get(name, _INSTALL), uv, f"{folder}/env", wish.file)
        cwd = os.path.normpath(f"{folder}/src/{os.path.dirname(wish.file) if name in _COMMANDS else ''}")
        kept = (*launch.kept, folder_at(folder))
        return msgspec.structs.replace(launch, argv=argv, env=env, cwd=cwd, kept=kept, deadline=deadline)

    async def _run(self, attempt: Attempt, order: Launch) -> Finished:
        """Runs a build to its end. When the attempt is to end, so does the build, before this returns."""
        starting = asyncio.ensure_future(self._executor.start(order))
        ended: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_BUILD_S):
                outcome = await asyncio.shield(starting)
                if isinstance(outcome, CannotStart):
                    raise StagingFailed(f"its Python environment cannot be built: {outcome.message}")
                attempt.building = outcome
                if attempt.extended:
                    outcome.extend(attempt.deadline)
                outcome.on_finished(ended.set_result)
                return await asyncio.shield(ended)
        except (asyncio.CancelledError, TimeoutError) as stopped:
            outcome = await _settled(starting)
            if not isinstance(outcome, CannotStart):
                if attempt.building is None:
                    outcome.on_finished(ended.set_result)
                outcome.kill()
                await _settled(ended)
            if isinstance(stopped, TimeoutError):
                raise StagingFailed(f"its Python environment was not built within {_BUILD_S / 60:g} minutes") from None
            raise NotWanted from None
        finally:
            attempt.building = None


def _key(attempt: Attempt, wish: PythonEnvironment) -> str:
    """What makes a difference to what is built: the files, the job's settings of uv, and this node's Python."""
    spec = attempt.start.spec
    settings = sorted((key, value) for key, value in spec.env.items() if key.upper().startswith("UV_"))
    secrets = sorted(secret.env for secret in spec.secrets if secret.env is not None and secret.env.startswith("UV_"))
    parts = (wish.project, wish.file, settings, secrets, sys.version, sys.base_prefix)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:_KEY_LETTERS]


def _failure(file: str, finished: Finished, memory_mib: int, said: str) -> str:
    if finished.oom:
        why = (
            f"uv was killed for using more than the {memory_mib:,} MiB of memory of the job: ask for more with --memory"
        )
    elif finished.code is None:
        why = f"uv was ended by signal {finished.signal}"
    else:
        why = f"uv ended with {finished.code}"
    return f"its Python environment cannot be built from {file}: {why}{f': {said}' if said else ''}"


def _lasting(finished: Finished, said: str) -> bool:
    """Whether what was asked for cannot be had at all. Of errors that uv did not expect, such as an index that does not
    answer, only a file that it cannot read is so."""
    if finished.code is None or finished.oom or any(words in said for words in _OF_THE_NODE):
        return False
    code, unmet = _UNMET
    return (finished.code == code and unmet in said) or any(words in said for words in _UNREADABLE)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _last_lines(path: str, begin: int) -> list[str]:
    """What was written last since `begin`. The file is the job's: it may be anything by now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                return []
            data = os.pread(fd, _TAIL_BYTES, max(begin, seen.st_size - _TAIL_BYTES))
        finally:
            os.close(fd)
    except OSError:
        return []
    lines = [" ".join(line.split()) for line in data.decode(errors="replace").splitlines()]
    return [line for line in lines if line]


async def _settled(future: "asyncio.Future[T]") -> T:
    """Waits for it, however often this task is cancelled meanwhile: no process may be left behind."""
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            continue
    return future.result()
