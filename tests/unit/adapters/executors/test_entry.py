"""Sessions in a running attempt, with real processes: what they see, what limits them, what is left of them."""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ares.adapters.executors import entry as entering
from ares.adapters.executors.entry import EntryProcess
from ares.adapters.executors.local import Contain, LocalExecutor
from ares.ports.executor import CannotStart, Enterable, Entry, Running
from tests import needs
from tests.unit.adapters.executors.launching import TIMEOUT_S, launch
from tests.unit.adapters.executors.test_local import lives, opened, started, until

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture(params=["best", "none"])
def contain(request: pytest.FixtureRequest) -> Contain:
    return request.param


@pytest.fixture
async def executor(tmp_path: Path, contain: Contain) -> AsyncIterator[LocalExecutor]:
    async with opened(tmp_path, contain) as executor:
        yield executor


async def enter(running: Running, *argv: str, **more: object) -> EntryProcess:
    assert isinstance(running, Enterable)
    entered = await running.enter(Entry(argv=argv, env=ENV, **more))  # pyright: ignore[reportArgumentType]
    assert isinstance(entered, EntryProcess), entered
    return entered


async def output(entered: EntryProcess) -> tuple[bytes, bytes]:
    found = {"out": b"", "err": b""}
    async with asyncio.timeout(TIMEOUT_S):
        while (piece := await entered.read())[1]:
            found[piece[0]] += piece[1]
    return found["out"], found["err"]


async def code(entered: EntryProcess) -> int | None:
    return await asyncio.wait_for(entered.exit_code(), TIMEOUT_S)


async def test_streams_are_apart_and_the_exit_code_is_told(executor: LocalExecutor, tmp_path: Path) -> None:
    running, _ = await started(executor, launch(tmp_path, "sleep", "600"))
    entered = await enter(running, "sh", "-c", "cat; echo trouble >&2; pwd; exit 7", cwd=str(tmp_path))
    await entered.write(b"from outside\n")
    entered.end_input()
    assert await output(entered) == (f"from outside\n{tmp_path}\n".encode(), b"trouble\n")
    assert await code(entered) == 7
    entered.hang_up()
    running.kill()


async def test_a_session_begins_while_the_slot_passes_stderr_on(executor: LocalExecutor, tmp_path: Path) -> None:
    """The thread for it is not in the fork, which has none of its files either."""
    script = "while echo noise >&2; do :; done"
    running, finished = await started(executor, launch(tmp_path, "/bin/sh", "-c", script))
    await until(lambda: (tmp_path / "log").stat().st_size > 1000)
    for _ in range(5):
        entered = await enter(running, "sh", "-c", "ls /proc/$PPID/task | wc -l; ls -l /proc/$PPID/fd | grep -c log")
        assert (await output(entered))[0] == b"1\n0\n"
        entered.hang_up()
    running.kill()
    await asyncio.wait_for(finished, TIMEOUT_S)


async def test_command_that_cannot_start_says_why(executor: LocalExecutor, tmp_path: Path) -> None:
    running, finished = await started(executor, launch(tmp_path, "sleep", "600"))
    assert isinstance(running, Enterable)
    refused = await running.enter(Entry(argv=("no-such-tool",), env=ENV))
    assert isinstance(refused, CannotStart)
    assert "command not found: no-such-tool" in refused.message
    running.kill()
    await asyncio.wait_for(finished, TIMEOUT_S)
    late = await running.enter(Entry(argv=("true",), env=ENV))
    assert isinstance(late, CannotStart)


async def test_terminal_has_its_size_and_takes_characters(executor: LocalExecutor, tmp_path: Path) -> None:
    running, _ = await started(executor, launch(tmp_path, "sleep", "600"))
    script = "stty size; tty; trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    entered = await enter(running, "sh", "-c", script, tty=True, rows=33, cols=101)
    seen = b""
    async with asyncio.timeout(TIMEOUT_S):
        while b"ready" not in seen:
            seen += (await entered.read())[1]
        await entered.write(b"\x03")
        while data := (await entered.read())[1]:
            seen += data
    assert b"33 101\r\n/dev/pts/" in seen
    assert b"interrupted" in seen
    assert await code(entered) == 3
    entered.hang_up()
    running.kill()


async def test_what_a_session_left_ends_with_it(executor: LocalExecutor, tmp_path: Path) -> None:
    running, _ = await started(executor, launch(tmp_path, "sleep", "600"))
    # A child in a session of its own, whose parent has gone.
    script = "(setsid sh -c 'trap \"\" HUP; echo $$; exec sleep 4321' &) ; exec sleep 4322"
    entered = await enter(running, "sh", "-c", script, cwd=str(tmp_path))
    await until(lambda: _sleepers("4321", "4322") == 2)
    entered.hang_up()
    await until(lambda: _sleepers("4321", "4322") == 0)
    assert lives(running.pid)
    running.kill()


async def test_session_ends_with_the_attempt(executor: LocalExecutor, tmp_path: Path) -> None:
    running, finished = await started(executor, launch(tmp_path, "sleep", "600"))
    entered = await enter(running, "sh", "-c", "trap '' HUP TERM; exec sleep 4323")
    await until(lambda: _sleepers("4323") == 1)
    running.kill()
    await asyncio.wait_for(finished, TIMEOUT_S)
    assert await code(entered) is None
    assert _sleepers("4323") == 0
    entered.hang_up()


def lines_of(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _sleepers(*seconds: str) -> int:
    wanted = {f"sleep\0{text}\0".encode() for text in seconds}
    found = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found += Path(f"/proc/{entry}/cmdline").read_bytes() in wanted
            except OSError:
                continue
    return found


async def test_session_is_in_the_attempts_namespaces(tmp_path: Path) -> None:
    async with opened(tmp_path) as executor:
        if executor.isolation()[0] != "pid-namespace":
            pytest.skip(needs.PID_NAMESPACES)
        running, _ = await started(executor, launch(tmp_path, "sleep", "600"))
        script = "cd /proc/self/ns; readlink pid mnt net ipc uts user; cat /proc/self/cgroup; id -u"
        entered = await enter(running, "sh", "-c", script)
        inside = (await output(entered))[0].decode().splitlines()
        own = f"/proc/{running.pid}"
        names = ("pid", "mnt", "net", "ipc", "uts", "user")
        assert inside[:6] == [os.readlink(f"{own}/ns/{name}") for name in names]
        assert inside[6:-1] == lines_of(f"{own}/cgroup")
        assert await code(entered) == 0
        entered.hang_up()


SERVER = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('up', flush=True)\n"
ECHO = SERVER + "while True:\n c, _ = s.accept()\n while d := c.recv(100): c.sendall(d.upper())\n c.close()\n"


async def test_port_of_the_attempt_is_reached_and_no_other(executor: LocalExecutor, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    (tmp_path / "echo.py").write_text(ECHO)
    request = launch(tmp_path, sys.executable, "-u", str(tmp_path / "echo.py"), str(port))
    running, _ = await started(executor, request)
    await until(lambda: "up" in (tmp_path / "log").read_text())
    entered = await enter(running, port=port)
    await entered.write(b"hello")
    assert (await asyncio.wait_for(entered.read(), TIMEOUT_S))[1] == b"HELLO"
    entered.end_input()
    assert await output(entered) == (b"", b"")
    entered.hang_up()
    assert isinstance(running, Enterable)
    # A port of this very process, as the agent's own would be.
    with socket.create_server(("127.0.0.1", 0)) as mine:
        refused = await running.enter(Entry(port=mine.getsockname()[1]))
    assert isinstance(refused, CannotStart)
    assert "belongs to another program" in refused.message
    unheard = await running.enter(Entry(port=1))
    assert isinstance(unheard, CannotStart)
    assert "no process of the job listens on port 1" in unheard.message
    running.kill()


async def test_nothing_is_read_ahead_of_the_caller(executor: LocalExecutor, tmp_path: Path) -> None:
    running, _ = await started(executor, launch(tmp_path, "sleep", "600"))
    entered = await enter(running, "sh", "-c", "yes | head -c 1000000; echo done >&2; exec sleep 600")
    # The command cannot go on, for its output is not taken.
    assert (await asyncio.wait_for(entered.read(), TIMEOUT_S))[0] == "out"
    async with asyncio.timeout(TIMEOUT_S):
        while (await entered.read())[0] == "out":
            pass
    entered.hang_up()
    running.kill()


@pytest.mark.parametrize("left", [0, 1, 2])
async def test_agent_without_a_free_file_answers_and_leaks_none(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe2, made = os.pipe2, list[int]()

    def scarce(flags: int) -> tuple[int, int]:
        if len(made) == left:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        made.append(flags)
        return pipe2(flags)

    def hand(data: bytes, files: Sequence[int]) -> None:
        raise AssertionError(f"nothing is handed over: {data!r} {files}")

    monkeypatch.setattr(os, "pipe2", scarce)
    before = os.listdir("/proc/self/fd")
    refused = await entering.opened(Entry(argv=("true",), env=ENV), hand)
    assert isinstance(refused, CannotStart)
    assert "Too many open files" in refused.message
    assert len(os.listdir("/proc/self/fd")) == len(before)
