"""The executor with real processes: what starts, what is contained, what is left."""

import asyncio
import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from ares.adapters.executors import leftovers, local
from ares.adapters.executors.local import Contain, ExecutorBusy, LocalExecutor
from ares.adapters.executors.warden import stderr
from ares.ports.executor import STDERR_INDEX, STDERR_RECORD, CannotStart, Finished, Launch, Running
from tests import needs
from tests.unit.adapters.executors.launching import TIMEOUT_S, launch


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def started(executor: LocalExecutor, request: Launch) -> tuple[Running, "asyncio.Future[Finished]"]:
    running = await asyncio.wait_for(executor.start(request), TIMEOUT_S)
    assert not isinstance(running, CannotStart), running.message
    finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
    # A test that gave up waiting has cancelled it.
    running.on_finished(lambda end: None if finished.done() else finished.set_result(end))
    return running, finished


async def run(executor: LocalExecutor, request: Launch) -> Finished:
    _, finished = await started(executor, request)
    return await asyncio.wait_for(finished, TIMEOUT_S)


async def log_has(folder: Path, lines: int) -> list[str]:
    log = folder / "log"
    await until(lambda: log.exists() and len(log.read_text().splitlines()) >= lines)
    return log.read_text().splitlines()


@pytest.fixture(params=["best", "none"])
def contain(request: pytest.FixtureRequest) -> Contain:
    return request.param


@contextlib.asynccontextmanager
async def opened(folder: Path, contain: Contain = "best") -> AsyncIterator[LocalExecutor]:
    """Closed also when the test fails or is left out: its sockets would be the next test's failure."""
    executor = LocalExecutor(folder / "state", contain=contain)
    await executor.open()
    try:
        yield executor
    finally:
        await executor.close()


@pytest.fixture
async def executor(tmp_path: Path, contain: Contain) -> AsyncIterator[LocalExecutor]:
    async with opened(tmp_path, contain) as executor:
        yield executor


async def kill_warden(executor: LocalExecutor) -> None:
    """With it end its slots, each by itself: a command that one of them takes until then is lost with it."""
    warden, slots = executor._warden, list(executor._slots.values())
    assert warden is not None
    os.kill(warden.pid, signal.SIGKILL)
    await until(lambda: executor._warden is not warden and executor._control is not None)
    await until(lambda: not any(slot in slots for slot in executor._slots.values()))


async def test_output_exit_code_and_usage(executor: LocalExecutor, tmp_path: Path) -> None:
    finished = await run(executor, launch(tmp_path, "sh", "-c", "echo out; echo err >&2; cat; exit 3"))
    assert (finished.code, finished.signal, finished.oom, finished.expired) == (3, None, False, False)
    assert finished.max_rss_mib > 0
    assert (tmp_path / "log").read_text() == "out\nerr\n"


async def test_output_is_appended(executor: LocalExecutor, tmp_path: Path) -> None:
    for word in ("one", "two"):
        await run(executor, launch(tmp_path, "echo", word))
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def told_apart(log: Path) -> tuple[bytes, bytes]:
    """What was written to stdout and to stderr, by the index beside the log."""
    data, index = log.read_bytes(), Path(f"{log}{STDERR_INDEX}")
    records = STDERR_RECORD.iter_unpack(index.read_bytes()) if index.exists() else ()
    out, err, at = b"", b"", 0
    for begin, length in records:
        out, err, at = out + data[at:begin], err + data[begin : begin + length], begin + length
    return out + data[at:], err


async def test_stderr_is_told_apart(executor: LocalExecutor, tmp_path: Path) -> None:
    """In the order of the writes, where the slot has the time to read one before the next."""
    seen = "until grep -q {} log; do sleep 0.01; done;".format
    script = f"echo one; echo two >&2; {seen('two')} echo three; echo four >/dev/stderr; {seen('four')} echo five 2>&1"
    await run(executor, launch(tmp_path, "/bin/sh", "-c", script))
    assert told_apart(tmp_path / "log") == (b"one\nthree\nfive\n", b"two\nfour\n")
    assert await log_has(tmp_path, 5) == ["one", "two", "three", "four", "five"]
    await run(executor, launch(tmp_path, "/bin/sh", "-c", "echo again >&2"))
    assert told_apart(tmp_path / "log")[1] == b"two\nfour\nagain\n"


async def test_a_job_that_is_quiet_on_stderr_has_no_index(executor: LocalExecutor, tmp_path: Path) -> None:
    await run(executor, launch(tmp_path, "/bin/sh", "-c", "echo one"))
    assert sorted(os.listdir(tmp_path)) == ["log", "state"]


async def test_much_stderr_is_kept_whole(executor: LocalExecutor, tmp_path: Path) -> None:
    script = "import os\nfor n in range(300): os.write(2, b'e' * 9000); os.write(1, b'o' * 10)"
    await run(executor, launch(tmp_path, sys.executable, "-c", script))
    assert told_apart(tmp_path / "log") == (b"o" * 3000, b"e" * 2_700_000)


async def test_a_process_that_keeps_stderr_open_holds_nothing_up(executor: LocalExecutor, tmp_path: Path) -> None:
    """A grandchild in a session of its own floods it; another passes it to a process outside."""
    script = (
        "import os, time\n"
        "if not os.fork():\n    os.setsid()\n    while True: os.write(2, b'flood')\n"
        "time.sleep(0.3); os.write(2, b'the end')"
    )
    done = await run(executor, launch(tmp_path, sys.executable, "-c", script))
    assert done.code == 0
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    path = tmp_path / "door"
    with theirs, ours, socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        handing = (
            f"import socket\ns = socket.socket(socket.AF_UNIX); s.connect({str(path)!r})\n"
            "socket.send_fds(s, [b'x'], [2])\n"
        )
        _, finished = await started(executor, launch(tmp_path, sys.executable, "-c", handing))
        talk = (await asyncio.to_thread(door.accept))[0]
        with talk:
            _, files, _, _ = socket.recv_fds(talk, 1, 1)
            done = await asyncio.wait_for(finished, TIMEOUT_S)
            assert done.code == 0
            with pytest.raises(BrokenPipeError):
                os.write(files[0], b"for the next attempt")
            os.close(files[0])


async def test_a_disk_that_hangs_under_stderr_does_not_stop_the_deadline(
    tmp_path: Path, contain: Contain, monkeypatch: pytest.MonkeyPatch
) -> None:
    warden = tmp_path / "warden.py"
    warden.write_text(
        "import os, runpy, time\n"
        "os.ftruncate = lambda *_: time.sleep(1e6)\n"
        f"runpy.run_path({str(local._WARDEN / '__main__.py')!r}, run_name='__main__')"
    )
    monkeypatch.setattr(local, "_WARDEN", warden)
    async with opened(tmp_path, contain) as executor:
        script = "echo stuck >&2; sleep 1000"
        _, ends = await started(executor, launch(tmp_path, "/bin/sh", "-c", script, deadline=boottime() + 3))
        finished = await asyncio.wait_for(ends, TIMEOUT_S)
        assert finished.expired
        assert told_apart(tmp_path / "log") == (b"", b"stuck\n")
        # A slot whose thread hangs has no further attempt.
        again = await run(executor, launch(tmp_path, "/bin/sh", "-c", "ls /proc/$PPID/task | wc -l"))
        assert again.code == 0
        assert told_apart(tmp_path / "log") == (b"1\n", b"stuck\n")


async def test_only_stderr_costs_a_thread_and_none_outlives_its_attempt(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    count = "ls /proc/$PPID/task | wc -l"
    loud = f"{count}; echo loud >&2; until grep -q loud log; do sleep 0.01; done; {count}"
    # A thread that has done its work may take a moment to end.
    calm = f'until [ "$({count})" = 1 ]; do sleep 0.01; done; echo calm'
    for script in (count, loud, calm):
        await run(executor, launch(tmp_path, "/bin/sh", "-c", script))
    assert told_apart(tmp_path / "log") == (b"1\n1\n2\ncalm\n", b"loud\n")


def test_small_writes_to_stderr_cost_the_slot_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes here, and a rest lasts until the end: after the reads that are free nothing more is read."""
    monkeypatch.setattr(stderr, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(stderr, "_REST_MS", None)
    relay, reads = stderr.StderrRelay(select.epoll()), 0

    def keep(data: bytes) -> None:
        nonlocal reads
        reads += 1
        os.write(writer, data)

    monkeypatch.setattr(relay, "_keep", keep)
    with relay.lent(str(tmp_path / "log"), "", -1) as writer:
        os.write(writer, b"x")
        relay.begin()
        began = time.monotonic()
        while time.monotonic() < began + TIMEOUT_S and reads < stderr._SMALL_READS - 1:
            time.sleep(0.01)
        time.sleep(0.1)
        assert reads == stderr._SMALL_READS
        assert relay.finish()
    assert reads == stderr._SMALL_READS + stderr._LAST_READS


def test_output_does_not_end_the_wait_for_processes_that_are_killed(tmp_path: Path) -> None:
    """A process that does not die at once would cost the slot a walk over all processes, again and again."""
    script = f"""
import os, socket, time
from ares.adapters.executors.warden.limits import CgroupLimits
from ares.adapters.executors.warden.slot import WardenSlot
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
life, alive = os.pipe()
slot, left = WardenSlot(theirs, life, False, CgroupLimits({{}})), [True] * 5 + [False]
slot._reap, slot._kill_all = lambda _: left.pop(0), lambda: None
ours.send(b"unread")
with slot._stderr.lent({str(tmp_path / "log")!r}, "", -1) as stderr:
    os.write(stderr, b"unread")
    began = time.monotonic()
    slot._sweep()
print(time.monotonic() - began)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # Five waits of 10 ms.
    assert float(done.stdout) > 0.049


async def test_what_a_job_puts_in_the_place_of_its_log_is_not_written_to(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    for ending in ("", STDERR_INDEX):
        script = f"rm -f log{ending}; ln -s {victim} log{ending}; echo harm >&2; sleep 0.1; rm log{ending}"
        done = await run(executor, launch(tmp_path, "/bin/sh", "-c", script))
        assert done.code == 0
    assert victim.read_bytes() == b"mine"


async def test_the_job_has_its_own_session_and_no_foreign_files(executor: LocalExecutor, tmp_path: Path) -> None:
    script = "import os; print(os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd')))"
    await run(executor, launch(tmp_path, sys.executable, "-I", "-S", "-c", script))
    # 3 is the listing itself.
    assert (tmp_path / "log").read_text() == "True ['0', '1', '2', '3']\n"


async def test_signals_are_at_their_defaults(executor: LocalExecutor, tmp_path: Path) -> None:
    await run(executor, launch(tmp_path, "sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status"))
    masks = [int(line.split()[1], 16) for line in (tmp_path / "log").read_text().splitlines()]
    # glibc's posix_spawn ignores 32 and 33, which are its own.
    assert [mask & ~(3 << 31) for mask in masks] == [0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"argv": ("no-such-command",)},
            r"command not found: no-such-command \(looked in PATH=/usr/local/bin:/usr/bin:/bin\)",
        ),
        ({"argv": ("tool",), "env": {"PATH": "/empty"}}, r"command not found: tool \(looked in PATH=/empty\)"),
        ({"argv": ("/etc/passwd",)}, "cannot run /etc/passwd: permission denied"),
        ({"argv": ("/nowhere/tool",)}, "cannot run /nowhere/tool: no such file"),
        ({"cwd": "/nowhere"}, "cannot enter the working directory /nowhere: No such file"),
        ({"log_path": "/nowhere/log"}, "cannot write the log /nowhere/log"),
        ({"argv": ("true", "x" * 200_000)}, "too large for this system"),
    ],
)
async def test_what_cannot_start_says_why(
    executor: LocalExecutor, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    outcome = await executor.start(launch(tmp_path, "true", **changes))
    assert isinstance(outcome, CannotStart)
    assert re.search(message, outcome.message), outcome.message
    assert (await run(executor, launch(tmp_path, "true"))).code == 0, "the slot is still good"


async def test_a_script_without_its_interpreter_is_explained(executor: LocalExecutor, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    outcome = await executor.start(launch(tmp_path, "./script"))
    assert isinstance(outcome, CannotStart)
    assert "interpreter" in outcome.message


async def test_the_jobs_own_path_decides(executor: LocalExecutor, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "only-here"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    await run(executor, launch(tmp_path, "only-here", env={"PATH": f"/nowhere:{tmp_path}/bin"}))
    assert (tmp_path / "log").read_text() == "found\n"


async def test_nothing_outlives_the_attempt(executor: LocalExecutor, tmp_path: Path) -> None:
    """A daemon: forked twice, in its own session, deaf to SIGTERM, still writing."""
    daemon = "trap '' TERM HUP; while :; do date +%s%N > beat; sleep 0.01; done"
    script = f'(setsid sh -c "{daemon}" </dev/null >/dev/null 2>&1 &) ; while [ ! -e beat ]; do sleep 0.01; done'
    finished = await run(executor, launch(tmp_path, "sh", "-c", script))
    assert finished.code == 0
    beat = (tmp_path / "beat").read_text()
    for _ in range(10):
        await asyncio.sleep(0.01)
    assert (tmp_path / "beat").read_text() == beat


async def test_kill_ends_what_ignores_and_what_is_stopped(executor: LocalExecutor, tmp_path: Path) -> None:
    script = "trap '' TERM; (setsid sleep 1000 &); echo up; kill -STOP $$"
    running, finished = await started(executor, launch(tmp_path, "sh", "-c", script))
    await log_has(tmp_path, 1)
    running.signal(signal.SIGTERM)
    running.kill()
    assert (await asyncio.wait_for(finished, TIMEOUT_S)).signal == signal.SIGKILL
    assert not lives(running.pid)
    running.kill()  # Too late, and harmless.


async def test_a_signal_reaches_the_process_group(executor: LocalExecutor, tmp_path: Path) -> None:
    running, finished = await started(
        executor, launch(tmp_path, "sh", "-c", "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.01; done")
    )
    await log_has(tmp_path, 1)
    running.signal(signal.SIGUSR1)
    assert (await asyncio.wait_for(finished, TIMEOUT_S)).code == 5


# A launcher without a handler, a worker with one in a session of its own, and one that has none either.
_LAUNCHER = """
import signal, subprocess, sys
worker = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: (print('saved', flush=True), sys.exit(0)))"
worker = worker.replace("import signal", "import signal, sys", 1) + "; print('up', flush=True)"
# Not one long sleep: a signal that comes just before it begins is only looked at when it ends.
worker += "\\nwhile True: time.sleep(0.05)"
deaf = "import time; print('up', flush=True); time.sleep(1000)"
both = [subprocess.Popen([sys.executable, "-I", "-S", "-c", text], start_new_session=True) for text in (worker, deaf)]
print("worker", both[0].wait(), flush=True)
print("deaf", both[1].poll(), flush=True)
"""


async def test_a_signal_reaches_each_process_that_catches_it_and_no_other(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    running, finished = await started(executor, launch(tmp_path, sys.executable, "-I", "-S", "-c", _LAUNCHER))
    await log_has(tmp_path, 2)
    running.tell(signal.SIGUSR2)
    running.tell(signal.SIGUSR1)
    # The launcher and the second worker, which have no handler, would have died of it.
    assert (await asyncio.wait_for(finished, TIMEOUT_S)).code == 0
    assert (await log_has(tmp_path, 5))[2:] == ["saved", "worker 0", "deaf None"]


@pytest.mark.parametrize("trouble", [TimeoutError(), OSError("it ended")], ids=["late", "ended"])
async def test_a_machine_that_is_slow_for_a_moment_keeps_its_namespaces(
    tmp_path: Path, trouble: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, troubles = LocalExecutor._start_warden, [trouble]  # pyright: ignore[reportPrivateUsage]

    async def start(self: LocalExecutor) -> None:
        if troubles:
            raise troubles.pop()
        await begun(self)

    async with opened(tmp_path) as usual:
        can = usual.isolation()
    monkeypatch.setattr(LocalExecutor, "_start_warden", start)
    async with opened(tmp_path) as executor:
        assert executor.isolation() == can
    assert not troubles


async def test_a_fork_bomb_stays_within_its_limit(tmp_path: Path) -> None:
    async with opened(tmp_path) as executor:
        if executor.isolation()[1] == "none":
            pytest.skip(needs.CGROUPS)
        script = """
import os, sys, time
born = 0
try:
    while born < 500:
        if os.fork() == 0:
            time.sleep(1000)
        born += 1
except BlockingIOError:
    pass
print(born)
"""
        finished = await run(executor, launch(tmp_path, sys.executable, "-I", "-S", "-c", script, processes_max=20))
        assert finished.code == 0
        assert (tmp_path / "log").read_text() == "19\n"
        assert (await run(executor, launch(tmp_path, "true"))).code == 0


async def test_too_much_memory_is_recognised(tmp_path: Path) -> None:
    async with opened(tmp_path) as executor:
        if executor.isolation()[1] == "none":
            pytest.skip(needs.CGROUPS)
        hungry = launch(tmp_path, sys.executable, "-I", "-S", "-c", "x = bytearray(300 << 20)", memory_mib=32)
        finished = await run(executor, hungry)
        assert finished.oom
        assert finished.signal == signal.SIGKILL
        enough = launch(tmp_path, sys.executable, "-I", "-S", "-c", "x = bytearray(300 << 20)", memory_mib=512)
        finished = await run(executor, enough)
        assert not finished.oom
        assert finished.code == 0


async def test_a_file_that_grows_too_large_ends_the_job(executor: LocalExecutor, tmp_path: Path) -> None:
    finished = await run(
        executor, launch(tmp_path, "sh", "-c", "exec head -c 5000000 /dev/zero > big", file_bytes_max=1_000_000)
    )
    assert finished.signal == signal.SIGXFSZ
    assert (tmp_path / "big").stat().st_size == 1_000_000


async def test_the_deadline_kills(executor: LocalExecutor, tmp_path: Path) -> None:
    finished = await run(executor, launch(tmp_path, "sleep", "1000", deadline=boottime() + 5))
    assert (finished.expired, finished.signal) == (True, signal.SIGKILL)


async def test_a_deadline_that_was_moved_kills_nobody(executor: LocalExecutor, tmp_path: Path) -> None:
    # Far enough ahead that a busy machine moves it in time.
    deadline = boottime() + 8
    script = "until [ -e go ]; do sleep 0.05; done"
    running, ends = await started(executor, launch(tmp_path, "sh", "-c", script, deadline=deadline))
    running.extend(boottime() + 1000)
    await until(lambda: boottime() > deadline + 1)
    (tmp_path / "go").touch()
    finished = await asyncio.wait_for(ends, TIMEOUT_S)
    assert (finished.expired, finished.code) == (False, 0)


async def test_nothing_starts_after_its_deadline(executor: LocalExecutor, tmp_path: Path) -> None:
    outcome = await executor.start(launch(tmp_path, "touch", "ran", deadline=boottime() - 1))
    assert isinstance(outcome, CannotStart)
    assert outcome.expired
    assert not (tmp_path / "ran").exists()


async def test_attempts_run_side_by_side_and_slots_are_reused(executor: LocalExecutor, tmp_path: Path) -> None:
    # Each waits for all the others: they end only if all five run at once.
    script = "touch here.$1; while [ $(ls here.* | wc -l) -lt 5 ]; do sleep 0.01; done"
    await asyncio.gather(*(run(executor, launch(tmp_path, "sh", "-c", script, "-", str(i))) for i in range(5)))
    codes = await asyncio.gather(*(run(executor, launch(tmp_path, "true")) for _ in range(40)))
    assert {finished.code for finished in codes} == {0}


async def test_close_kills_everything(tmp_path: Path, contain: Contain) -> None:
    async with opened(tmp_path, contain) as executor:
        running, finished = await started(executor, launch(tmp_path, "sh", "-c", "trap '' TERM; sleep 1000"))
    assert (await finished).signal == signal.SIGKILL
    assert not lives(running.pid)
    assert not sleeping_in(tmp_path)


async def test_a_dead_warden_takes_its_jobs_along_and_is_replaced(executor: LocalExecutor, tmp_path: Path) -> None:
    running, finished = await started(executor, launch(tmp_path, "sleep", "1000"))
    await kill_warden(executor)
    assert (await asyncio.wait_for(finished, TIMEOUT_S)).signal == signal.SIGKILL
    await until(lambda: not lives(running.pid))
    assert (await run(executor, launch(tmp_path, "true"))).code == 0


async def test_starts_while_the_warden_dies_are_answered(executor: LocalExecutor, tmp_path: Path) -> None:
    await run(executor, launch(tmp_path, "true"))
    warden = executor._warden
    assert warden is not None
    os.kill(warden.pid, signal.SIGKILL)
    warden.wait()
    # The loop has not seen it yet.
    answers = [executor.start(launch(tmp_path, "true")) for _ in range(20)]
    assert len(await asyncio.wait_for(asyncio.gather(*answers), TIMEOUT_S)) == 20
    assert (await run(executor, launch(tmp_path, "true"))).code == 0


async def test_a_command_its_slot_never_read_goes_to_another_slot(executor: LocalExecutor, tmp_path: Path) -> None:
    await run(executor, launch(tmp_path, "true"))
    frozen = [slot.pid for slot in executor._lobby.idle()]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    answer = executor.start(launch(tmp_path, "echo", "ran"))
    for pid in frozen:
        os.kill(pid, signal.SIGKILL)
    running = await asyncio.wait_for(answer, TIMEOUT_S)
    assert not isinstance(running, CannotStart), running.message
    assert await log_has(tmp_path, 1) == ["ran"]
    assert executor._launching == 0


async def test_a_slot_that_dies_with_a_message_unread_is_heard(executor: LocalExecutor, tmp_path: Path) -> None:
    """The product's loop calls once after an error: what is not read then is never read, and the job ran for ever."""
    running, finished = await started(executor, launch(tmp_path, "sleep", "1000"))
    (slot,) = (slot for slot in executor._slots.values() if slot not in executor._lobby.idle() and slot.pid)
    os.kill(slot.pid, signal.SIGSTOP)
    running.extend(boottime() + 1000)
    os.kill(slot.pid, signal.SIGKILL)
    assert (await asyncio.wait_for(finished, TIMEOUT_S)).signal == signal.SIGKILL
    # And its place is free again.
    assert slot not in executor._slots.values()
    assert (await run(executor, launch(tmp_path, "true"))).code == 0


async def test_a_command_its_slot_has_read_is_not_started_twice(executor: LocalExecutor, tmp_path: Path) -> None:
    await run(executor, launch(tmp_path, "true"))
    # Opening it takes until somebody reads it.
    os.mkfifo(tmp_path / "pipe")
    answer = executor.start(launch(tmp_path, "true", log_path=str(tmp_path / "pipe")))
    await until(lambda: bool(sleeping_in(tmp_path)))
    for pid in sleeping_in(tmp_path):
        os.kill(pid, signal.SIGKILL)
    outcome = await asyncio.wait_for(answer, TIMEOUT_S)
    assert isinstance(outcome, CannotStart)
    assert outcome.uncertain


ORPHAN = """
import os, socket
from ares.adapters.executors.warden.limits import CgroupLimits
from ares.adapters.executors.warden.slot import WardenSlot

agent, slot = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
life, alive = os.pipe()
os.close(alive)
WardenSlot(slot, life, False, CgroupLimits({})).serve()
"""


def test_a_slot_ends_also_when_its_warden_ended_before_it_was_ready() -> None:
    """The kernel then tells it nothing: it would serve an agent whose new warden knows nothing of it."""
    assert subprocess.run([sys.executable, "-c", ORPHAN], timeout=TIMEOUT_S, check=False).returncode == 0


async def test_a_warden_that_cannot_be_started_again_is_tried_until_it_can(
    executor: LocalExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(executor, launch(tmp_path, "true"))
    warden, popen, refusing = executor._warden, executor._popen_warden, asyncio.Event()
    assert warden is not None
    refusing.set()

    def flaky(theirs: socket.socket) -> "subprocess.Popen[bytes]":
        if refusing.is_set():
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return popen(theirs)

    monkeypatch.setattr(executor, "_popen_warden", flaky)
    os.kill(warden.pid, signal.SIGKILL)
    await until(lambda: executor._control is None)
    said = ""
    while "could not be started again" not in said:
        # Its slots end with it, each noticed for itself: until then one of them may still take a command.
        outcome = await asyncio.wait_for(executor.start(launch(tmp_path, "true")), TIMEOUT_S)
        said = outcome.message if isinstance(outcome, CannotStart) else ""
    assert executor._control is None
    refusing.clear()
    await until(lambda: executor._control is not None)
    assert (await run(executor, launch(tmp_path, "true"))).code == 0


async def test_without_a_record_nothing_runs_and_the_start_says_why(executor: LocalExecutor, tmp_path: Path) -> None:
    await run(executor, launch(tmp_path, "true"))
    await until(lambda: not executor._opening and not executor._unready)
    # As on a full disk: the record cannot be replaced.
    obstacle = tmp_path / "state" / "executor" / "processes.new"
    obstacle.mkdir()
    ready = [await started(executor, launch(tmp_path, "sleep", "1000")) for _ in range(len(executor._lobby.idle()))]
    refused = await asyncio.wait_for(executor.start(launch(tmp_path, "true")), TIMEOUT_S)
    assert isinstance(refused, CannotStart)
    assert "cannot be recorded" in refused.message
    obstacle.rmdir()
    assert (await run(executor, launch(tmp_path, "true"))).code == 0
    for running, finished in ready:
        running.kill()
        await asyncio.wait_for(finished, TIMEOUT_S)


async def test_one_agent_per_state_directory(executor: LocalExecutor, tmp_path: Path) -> None:
    with pytest.raises(ExecutorBusy, match="another agent is running"):
        await LocalExecutor(tmp_path / "state").open()


AGENT = """
import asyncio, sys
from pathlib import Path
from ares.adapters.executors.local import LocalExecutor
from ares.ports.executor import Launch
import time

async def main(folder, contain, seconds):
    executor = LocalExecutor(folder / "state", contain=contain)
    await executor.open()
    script = "trap '' TERM; setsid sleep 1000 & echo $! > child; sleep 1000"
    running = await executor.start(Launch(
        argv=("sh", "-c", script), env={"PATH": "/usr/bin:/bin"}, cwd=str(folder), log_path=str(folder / "log"),
        memory_mib=256, cpu_milli=1000, file_bytes_max=1 << 30, processes_max=100, open_files_max=100,
        folders=(str(folder),),
        deadline=time.clock_gettime(time.CLOCK_BOOTTIME) + float(seconds)))
    print(running.pid, executor._warden.pid, *(s.pid for s in executor._slots.values() if s.pid), flush=True)
    await asyncio.sleep(1000)

asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""


@contextlib.asynccontextmanager
async def agent(
    folder: Path, contain: Contain, seconds: float
) -> AsyncIterator[tuple[subprocess.Popen[str], list[int]]]:
    """An agent of its own process, holding one job with a child that left its session."""
    command = [sys.executable, "-c", AGENT, str(folder), contain, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        assert process.stdout is not None
        pids = [int(word) for word in (await asyncio.to_thread(process.stdout.readline)).split()]
        yield process, pids
    finally:
        process.kill()
        process.communicate()


@pytest.mark.chaos
async def test_killing_the_agent_leaves_nothing_alive(tmp_path: Path, contain: Contain) -> None:
    async with agent(tmp_path, contain, 1000) as (process, pids):
        await until((tmp_path / "child").exists)
        assert all(lives(pid) for pid in pids)
        process.kill()
        await until(lambda: not any(lives(pid) for pid in pids))
        await until(lambda: not sleeping_in(tmp_path))
    async with opened(tmp_path, contain) as executor:
        assert (await run(executor, launch(tmp_path, "true"))).code == 0


@pytest.mark.chaos
async def test_a_frozen_agents_job_dies_at_its_deadline(tmp_path: Path, contain: Contain) -> None:
    async with agent(tmp_path, contain, 1.0) as (process, pids):
        process.send_signal(signal.SIGSTOP)
        await until(lambda: not lives(pids[0]))
        await until(lambda: not sleeping_in(tmp_path))
        assert lives(process.pid), "and nobody woke it"


@pytest.mark.chaos
async def test_even_without_agent_warden_and_slots_a_new_agent_cleans_up(tmp_path: Path) -> None:
    """Everything is frozen and killed in an order that leaves the job behind; only the record knows."""
    async with agent(tmp_path, "none", 1000) as (process, (job, warden, *slots)):
        for pid in (*slots, warden, process.pid):
            os.kill(pid, signal.SIGSTOP)
        process.kill()
        await asyncio.to_thread(process.wait)
        assert lives(job)
        async with opened(tmp_path):
            assert not any(lives(pid) for pid in (job, warden, *slots))


def sleeping_in(folder: Path) -> list[int]:
    """Processes whose working directory is this one."""
    found = list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd") == str(folder):
                found.append(int(entry.name))
    return found


def test_starts_are_read_once_and_anew_for_a_reused_pid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each slot that came, the start of every other was read again: 5,050 reads for 100 slots."""
    starts = {7: 100, 8: 200}
    read: list[int] = []

    def started_at(pid: int) -> int:
        read.append(pid)
        return starts[pid]

    monkeypatch.setattr(leftovers, "started_at", started_at)
    roll = leftovers.Roll(tmp_path / "processes.json")

    def recorded() -> dict[int, int]:
        return dict(msgspec.json.decode(roll.path.read_bytes(), type=leftovers.LeftoverRecord).processes)

    roll.write([7], 7)
    roll.write([7, 8], 8)
    assert (read, recorded()) == ([7, 8], {7: 100, 8: 200})
    # It ended unnoticed, and another has its number.
    starts[7] = 300
    roll.write([7, 8], 7)
    assert (read, recorded()) == ([7, 8, 7], {7: 300, 8: 200})
    roll.write([8], 8)
    assert recorded() == {8: 200}


def test_a_reused_pid_is_not_killed(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        record = tmp_path / "processes.json"
        leftovers.Roll(record).write([bystander.pid], bystander.pid)
        text = record.read_text()
        start = leftovers.started_at(bystander.pid)
        record.write_text(text.replace(str(start), str((start or 0) - 1)))
        assert leftovers.end(record) == ()
        record.write_text(text.replace('"boot_id":"', '"boot_id":"other'))
        assert leftovers.end(record) == ()
        assert bystander.poll() is None
        record.write_text(text)
        assert leftovers.end(record) == (bystander.pid,)
    finally:
        bystander.kill()
        bystander.wait()


async def test_no_cgroups_are_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as executor:
        if executor._cgroups is None:
            pytest.skip(needs.CGROUPS)
        await kill_warden(executor)
        await run(executor, launch(tmp_path, "true"))
        bases = list(executor._cgroups._bases.values())
        assert all((base / "slot-0").is_dir() for base in bases)
    assert not any(base.exists() for base in bases)
