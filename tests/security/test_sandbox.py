"""What a hostile job reaches from its sandbox: real processes that try, on the executor that agents use."""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.adapters.executors.local import LocalExecutor
from ares.adapters.executors.terms import SandboxTerms, programs
from ares.ports.executor import CannotStart, Finished, Running
from tests import needs
from tests.unit.adapters.executors.launching import TIMEOUT_S, launch

PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")
UID = 100_000


class Box:
    """A node with an agent's directory, two attempts in it, and something worth stealing."""

    def __init__(self, executor: LocalExecutor, state: Path) -> None:
        self.executor, self.state = executor, state
        self.own, self.other = state / "attempts" / "own", state / "attempts" / "other"

    async def start(self, *argv: str, **changes: Any) -> tuple[Running, "asyncio.Future[Finished]"]:
        changes = {"isolation": "sandbox", "folders": (str(self.own),), **changes}
        answer = await asyncio.wait_for(self.executor.start(launch(self.own, *argv, **changes)), TIMEOUT_S)
        assert not isinstance(answer, CannotStart), answer.message
        finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        answer.on_finished(lambda end: None if finished.done() else finished.set_result(end))
        return answer, finished

    async def run(self, *argv: str, **changes: Any) -> Finished:
        _, finished = await self.start(*argv, **changes)
        return await asyncio.wait_for(finished, TIMEOUT_S)

    async def says(self, script: str, *words: str, **changes: Any) -> str:
        """What a Python script prints, which ends well."""
        (self.own / "log").unlink(missing_ok=True)
        finished = await self.run(*PYTHON, script, *words, **changes)
        said = (self.own / "log").read_text()
        assert finished.code == 0, said
        return said


@contextlib.asynccontextmanager
async def opened(folder: Path, *, more: tuple[str, ...] = (), hide: bool = True, **terms: Any) -> AsyncGenerator[Box]:
    """Under the umask that agents have."""
    mask = os.umask(0o077)
    state = folder / "home"
    for name in ("own", "other"):
        (state / "attempts" / name).mkdir(parents=True)
    (state / "credential").write_text("the agent's")
    (state / "attempts" / "other" / "result.json").write_text("another job's")
    executor = LocalExecutor(state, terms=SandboxTerms(hidden=(str(state), *more) if hide else (), **terms))
    try:
        await executor.open()
        if executor.sandbox().level != "sandbox":
            pytest.skip(needs.SANDBOX)
        yield Box(executor, state)
    finally:
        os.umask(mask)
        await executor.close()


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    async with opened(tmp_path) as box:
        yield box


READ = """
import os, sys
for path in sys.argv[1:]:
    try:
        fd = os.open(path, os.O_RDONLY)
        print("read" if os.read(fd, 1) else "empty")
    except OSError as error:
        print(error.strerror)
"""


WRITE = """
import os, sys
for folder in sys.argv[1:]:
    try:
        with open(f"{folder}/ares-canary", "w") as file:
            file.write("x")
        print("written")
    except OSError as error:
        print(error.strerror)
"""


async def test_neither_the_agent_nor_other_jobs_can_be_read(box: Box, tmp_path: Path) -> None:
    """N28: not their processes, not their directories, not the credential, and there are no core dumps."""
    beside = tmp_path / "beside"
    beside.write_text("in the machine's /tmp")
    paths = [
        f"/proc/{os.getpid()}/environ", "/proc/1/environ", "/proc/1/mem", str(box.state / "credential"),
        str(box.other / "result.json"), str(beside), "/etc/shadow",
        # From where it starts, and from where the machine is seen by those it has for parents.
        "../other/result.json", *(f"/proc/1/{name}/etc/shadow" for name in ("cwd", "root")),
    ]  # fmt: skip
    missing, denied = "No such file or directory", "Permission denied"
    assert (await box.says(READ, *paths)).splitlines() == [
        missing, denied, denied, missing, missing, missing, "empty", missing, denied, denied,
    ]  # fmt: skip
    # Two at a time: each sees its own processes only, and the slot that holds it.
    running, finished = await box.start("sleep", "1000")
    script = "import os; print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit())[0:3])"
    seen = (await box.says(script)).strip()
    assert seen.startswith("[1, ")
    assert seen.count(",") == 1
    running.kill()
    await finished
    # Nothing is open that leads elsewhere: what it was given, and the directory it is just reading.
    assert (await box.says("import os; print(len(os.listdir('/proc/self/fd')))")).strip() == "4"
    dump = "import os, resource; print(resource.getrlimit(resource.RLIMIT_CORE)); os.abort()"
    (box.own / "log").unlink()
    assert (await box.run(*PYTHON, dump)).signal == signal.SIGABRT
    assert sorted(os.listdir(box.own)) == ["log"]


async def test_it_writes_to_its_own_directory_and_nowhere_else(box: Box, tmp_path: Path) -> None:
    """N46: what it writes to /tmp is its own and gone with it; the machine's files are for reading."""
    places = [str(box.own), "/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr/bin", "/run", "/sys/fs/cgroup"]
    said = (await box.says(WRITE, *places)).splitlines()
    assert said[:4] == ["written"] * 4
    assert set(said[4:]) == {"Read-only file system"}
    assert (box.own / "ares-canary").read_text() == "x"
    assert not [place for place in places[1:] if os.access(f"{place}/ares-canary", os.F_OK)]
    disks = await box.says(
        "import os; print([n for n in os.listdir('/dev') if n.startswith(('sd', 'vd', 'nvme', 'loop'))])"
    )
    assert disks == "[]\n"
    assert await box.says("open('/dev/null', 'w').write('x'); import pty; pty.openpty(); print('fine')") == "fine\n"


RIGHTS = """
import ctypes, os
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith(("Cap", "NoNewPrivs"))])
libc = ctypes.CDLL(None, use_errno=True)
for attempt in (lambda: os.chroot("/tmp"), lambda: os.mknod("node", 0o60600, os.makedev(1, 1)),
                lambda: os.chown("log", 1, 1), lambda: os.setuid(1), lambda: os.sethostname("x") if 0 else os.nice(-5),
                lambda: open("/proc/sys/kernel/core_pattern", "w"), lambda: open("/proc/sysrq-trigger", "w")):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("level", ["process", "sandbox"])
async def test_it_has_no_rights_and_gets_none_back(box: Box, level: str) -> None:
    """N28: root without a single capability, in either level, also for what only root's user id would allow."""
    first, *said = (await box.says(RIGHTS, isolation=level)).splitlines()
    assert first.split() == ["0000000000000000"] * 5 + ["1"]
    assert "done" not in said
    if os.geteuid() == 0:
        limits = (
            "import glob, sys; [open(path, 'w') for path in glob.glob(sys.argv[1], recursive=True)[:1]]; print('?')"
        )
        with pytest.raises(AssertionError, match="Read-only file system"):
            await box.says(limits, "/sys/fs/cgroup/**/slot-*/*pids.max", isolation=level)


async def test_a_node_that_gives_nothing_by_itself_gives_what_a_job_asks_for(tmp_path: Path) -> None:
    async with opened(tmp_path, level="any") as box:
        plain, asked = [await box.says(RIGHTS, isolation=level) for level in ("any", "process")]
        assert asked.splitlines()[0].split() == ["0000000000000000"] * 5 + ["1"]
        assert "done" not in asked.splitlines()
        if os.geteuid() == 0:
            assert plain.splitlines()[0].split()[1] != "0000000000000000"


async def test_calls_that_exploits_begin_with_are_refused(box: Box, tmp_path: Path) -> None:
    """Those that a user without rights may make elsewhere, so that it is the filter which refuses."""
    if os.uname().machine != "x86_64":
        pytest.skip("NOT TESTED: the numbers of system calls below are those of x86-64; the others are in test_seccomp")
    script = """
import ctypes, errno, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
for number, *arguments in ((272, 0x10000000), (250, 0, -3, 0), (323, 1), (425, 1, 0), (435, 0, 0), (56, 0x10000011, 0)):
    print(errno.errorcode.get(ctypes.get_errno() if libc.syscall(number, *arguments) < 0 else 0, "done"))
thread = threading.Thread(target=print, args=("thread",))
thread.start(); thread.join()
print(subprocess.run(["/bin/echo", "child"], capture_output=True, text=True).stdout.strip())
"""
    refused = ["EPERM"] * 4 + ["ENOSYS", "EPERM"]
    assert (await box.says(script)).split() == [*refused, "thread", "child"]
    # Also to a job that asks for nothing, unless the operator says otherwise.
    assert (await box.says(script, isolation="any")).split() == [*refused, "thread", "child"]
    async with opened(tmp_path / "less", level="process") as less:
        assert (await less.says(script, isolation="process")).split()[1] != "EPERM"


@pytest.fixture
def listeners() -> Iterator[tuple[int, str]]:
    """What an agent, a controller or another job may listen on: a port, and a name in the abstract."""
    with socket.socket() as port, socket.socket(socket.AF_UNIX) as name:
        port.bind(("127.0.0.1", 0))
        name.bind(f"\0ares-test-{os.getpid()}-{threading.get_ident()}")
        for one in (port, name):
            one.listen()
        yield port.getsockname()[1], name.getsockname().decode()[1:]


async def test_without_a_network_nothing_is_reached(box: Box, listeners: tuple[int, str]) -> None:
    """N47: neither what listens on the machine nor the metadata service; its own loopback works."""
    script = """
import socket, sys
def tried(family, where):
    with socket.socket(family) as end:
        end.settimeout(1)
        try:
            end.connect(where)
            return "reached"
        except OSError as error:
            return type(error).__name__
print(tried(socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), tried(socket.AF_UNIX, "\\0" + sys.argv[2]))
if len(sys.argv) > 3:
    print(tried(socket.AF_INET, ("169.254.169.254", 80)))
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0)); own.listen()
        print(tried(socket.AF_INET, own.getsockname()))
"""
    port, name = listeners
    assert (await box.says(script, str(port), name)).split() == ["reached", "reached"]
    for level in ("any", "sandbox"):
        said = (await box.says(script, str(port), name, "more", network="none", isolation=level)).split()
        assert said == ["ConnectionRefusedError", "ConnectionRefusedError", "OSError", "reached"]


async def test_every_tenant_is_a_user_of_its_own(tmp_path: Path) -> None:
    """N28: also against files that are open to their owner only, whose owner is the agent's user or another tenant."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can become another user. Run it as root.")
    # What tests are given is closed to others, as an agent's home is.
    async with opened(tmp_path, uid=UID) as box:
        assert "uid-per-tenant" in box.executor.sandbox().parts
        (box.own / "work").mkdir()
        secret = tmp_path / "root-only"
        secret.write_text("x")
        secret.chmod(0o600)
        script = """
import os, sys
print(os.getuid(), os.getgid(), 0 in os.getgroups())
open("work/made", "w").write("mine")
print(os.access(sys.argv[1], os.R_OK), os.access("/etc/ares-none", os.R_OK), os.access("/etc/passwd", os.R_OK))
"""
        assert (await box.says(script, str(secret), uid=UID + 7)).splitlines() == [
            f"{UID + 7} {UID + 7} False", "False False True",
        ]  # fmt: skip
        made = (box.own / "work" / "made").stat()
        assert (made.st_uid, made.st_size) == (UID + 7, 4)


FORK_AWAY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
born = 0
try:
    while born < 100:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        born += 1
except BlockingIOError:
    print("no more", flush=True)
time.sleep(1000)
"""


async def test_what_forks_away_and_ignores_signals_is_ended_whole(box: Box) -> None:
    """N46: a fork bomb, double forks, own sessions, SIGTERM ignored: bounded, killed, nothing survives."""
    running, finished = await box.start(*PYTHON, FORK_AWAY, processes_max=30)
    async with asyncio.timeout(TIMEOUT_S):
        while "no more" not in (box.own / "log").read_text():
            await asyncio.sleep(0.01)
    namespace = os.readlink(f"/proc/{running.pid}/ns/pid")
    assert 10 < members(namespace) <= 32
    running.signal(signal.SIGTERM)
    running.kill()
    ended = await asyncio.wait_for(finished, TIMEOUT_S)
    assert (ended.signal, ended.crowded) == (signal.SIGKILL, True)
    # The slot is left, and takes the next attempt.
    assert members(namespace) == 1
    after = await box.run("true")
    assert (after.code, after.crowded) == (0, False)


def members(namespace: str) -> int:
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            alive = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
            found += alive and os.readlink(f"/proc/{name}/ns/pid") == namespace
    return found


async def test_memory_of_its_own_tmp_counts(box: Box) -> None:
    """N46: files in memory are memory; the node's disk and memory are not to be had that way."""
    fill = "import os; f = open('/tmp/big', 'wb'); [f.write(bytes(1 << 20)) for _ in range(200)]"
    finished = await box.run(*PYTHON, fill, memory_mib=32)
    assert finished.oom
    assert finished.signal == signal.SIGKILL
    assert (await box.run("true")).code == 0


async def test_limits_cannot_be_raised_again(box: Box) -> None:
    script = """
import resource
for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(which)
    print(soft == hard)
"""
    assert (await box.says(script)).split() == ["True"] * 3
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 1024


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Not below a /tmp, which sandboxes have one of their own of."""
    cache = request.config.cache.mkdir("sandbox")
    # A checkout may itself lie below one.
    base = Path("/opt") if Path("/tmp") in cache.resolve().parents else cache
    folder = Path(tempfile.mkdtemp(dir=base))
    yield folder
    shutil.rmtree(folder)


async def test_what_the_operator_hides_and_lends(tmp_path: Path, elsewhere: Path) -> None:
    """N28: a directory by the link that leads to it, a file, and beside them one that may be written to."""
    for name in ("keys", "scratch", "other"):
        (elsewhere / name).mkdir()
        (elsewhere / name / "file").write_text(name)
    (elsewhere / "link").symlink_to(elsewhere / "keys")
    (elsewhere / "key.pem").write_text("a key")
    hidden = (str(elsewhere / "link"), str(elsewhere / "key.pem"))
    async with opened(tmp_path, more=hidden, writable=(str(elsewhere / "scratch"),)) as box:
        places = ["keys/file", "link/file", "key.pem", "scratch/file", "other/file"]
        missing = "No such file or directory"
        read = (await box.says(READ, *(str(elsewhere / place) for place in places))).splitlines()
        assert read == [missing, missing, "empty", "read", "read"]
        lent = [str(elsewhere / name) for name in ("scratch", "other", "keys")]
        assert (await box.says(WRITE, *lent)).splitlines() == ["written", *["Read-only file system"] * 2]
        assert (elsewhere / "scratch" / "ares-canary").read_text() == "x"


@pytest.mark.parametrize("level", ["any", "process", "sandbox"])
@pytest.mark.parametrize("users", [False, True])
async def test_the_interpreter_of_ares_is_there_below_a_hidden_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Any, users: bool
) -> None:
    """N28: it can be read and run, not changed; nothing beside it is there, and nothing of Ares' own below it."""
    if users and os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can become another user. Run it as root.")
    prefix = tmp_path / "checkout" / "venv"
    (prefix / "home").mkdir(parents=True)
    (prefix / "python").symlink_to(PYTHON[0])
    for secret in (tmp_path / "checkout" / "secret", prefix / "home" / "token"):
        secret.write_text("not for jobs")
    monkeypatch.setattr(sys, "prefix", str(prefix))
    # What is hidden is what a sandbox hides by itself, /tmp, or a directory that the operator names.
    own = (str(prefix / "home"), str(tmp_path / "checkout"), str(tmp_path / "home"))
    async with opened(tmp_path, hide=False, level=level, own=own, uid=UID if users else None) as box:
        changes = {"isolation": "any", "uid": UID if users else None}
        (box.own / "log").unlink(missing_ok=True)
        paths = [str(prefix.parent / "secret"), str(prefix / "home" / "token"), str(prefix / "python")]
        finished = await box.run(str(prefix / "python"), *PYTHON[1:], READ, *paths, **changes)
        missing = "No such file or directory"
        assert (finished.code, (box.own / "log").read_text().splitlines()) == (0, [missing, missing, "read"])
        assert (await box.says(WRITE, str(prefix), **changes)) == "Read-only file system\n"


@pytest.mark.parametrize("users", [False, True])
async def test_what_is_left_in_tmp_is_removed_and_what_is_lent_there_is_not(tmp_path: Path, users: bool) -> None:
    """A directory that jobs may write to is the operator's, also below /tmp, which is emptied after each attempt."""
    if users and os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can become another user. Run it as root.")
    with tempfile.TemporaryDirectory(dir="/tmp") as lent:
        os.chmod(lent, 0o777)
        (Path(lent) / "below").mkdir()
        (Path(lent) / "below" / "kept").write_text("the operator's")
        async with opened(tmp_path, writable=(lent,), uid=UID if users else None) as box:
            changes = {"uid": UID if users else None}
            leave = "import os; os.makedirs('/tmp/left/deep'); open('/tmp/left/deep/file', 'w').write('x')"
            await box.says(leave, **changes)
            look = f"import os; print(os.path.exists('/tmp/left'), os.listdir({lent!r}))"
            assert (await box.says(look, **changes)) == "False ['below']\n"
        assert (Path(lent) / "below" / "kept").read_text() == "the operator's"


async def test_a_sandbox_that_cannot_be_had_is_no_reason_to_do_without(tmp_path: Path) -> None:
    """A machine without namespaces refuses, and says what was asked for and what there is."""
    executor = LocalExecutor(tmp_path / "state", contain="none")
    await executor.open()
    try:
        for changes, says in (({"isolation": "sandbox"}, "'sandbox'"), ({"network": "none"}, "network namespaces")):
            answer = await executor.start(launch(tmp_path, "true", **changes))
            assert isinstance(answer, CannotStart)
            assert says in answer.message
    finally:
        await executor.close()


def test_python_of_the_machine_is_there() -> None:
    """The scripts above run with it, for the tests' own may lie in a home that sandboxes do not show."""
    assert Path(PYTHON[0]).exists(), f"{PYTHON[0]} is missing; {sys.executable} runs the tests"


HOSTILE = {
    "forks": (*PYTHON, FORK_AWAY.replace("born < 100", "born < 2000")),
    "memory": (*PYTHON, "x = []\nwhile True: x.append(bytearray(1 << 20))"),
    "disk": ("sh", "-c", "while :; do head -c 100000000 /dev/zero >> big || exit 1; done"),
    "tmp": ("sh", "-c", "while :; do head -c 1000000 /dev/zero >> /tmp/big || exit 1; done"),
    "lines": ("sh", "-c", "exec yes"),
    "deaf": (*PYTHON, "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(1000)"),
}


@pytest.mark.soak
async def test_all_of_them_at_once_leave_a_node_that_works(box: Box) -> None:
    """N46: five rounds of every kind of excess beside each other; after each nothing is left and a job runs."""
    limits = {"processes_max": 300, "memory_mib": 64, "file_bytes_max": 50 << 20}
    for number in range(5):
        started: list[tuple[Running, asyncio.Future[Finished]]] = []
        for name, argv in HOSTILE.items():
            folder = box.state / "attempts" / f"{name}-{number}"
            folder.mkdir()
            place = {"cwd": str(folder), "folders": (str(folder),), "log_path": str(folder / "log")}
            started.append(await box.start(*argv, **limits, **place))
        namespaces = list[str]()
        for one, _ in started:
            # Some are over already.
            with contextlib.suppress(OSError):
                namespaces.append(os.readlink(f"/proc/{one.pid}/ns/pid"))
        # What the kernel ends by itself ends; the rest is told to, and then made to.
        await asyncio.sleep(3)
        for running, _ in started:
            running.signal(signal.SIGTERM)
            running.kill()
        ended = [await asyncio.wait_for(finished, TIMEOUT_S) for _, finished in started]
        assert all(one.code != 0 for one in ended)
        assert [members(namespace) <= 1 for namespace in namespaces] == [True] * len(namespaces)
        assert (await box.run("true")).code == 0


# ---- whatever the level


@pytest.mark.parametrize("level", ["any", "process", "sandbox"])
@pytest.mark.parametrize("users", [False, True])
async def test_no_job_sees_what_is_ares_own(tmp_path: Path, elsewhere: Path, level: Any, users: bool) -> None:
    """N28: neither the home with its tokens and keys, nor a key that lies elsewhere, nor what is another attempt's."""
    if users and os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can become another user. Run it as root.")
    (elsewhere / "tls.key").write_text("a key")
    (elsewhere / "tls.key").chmod(0o644)
    os.chmod(elsewhere, 0o755)
    own = (str(tmp_path / "home"), str(elsewhere / "tls.key"))
    terms = {"level": level, "own": own, "uid": UID if users else None}
    async with opened(tmp_path, hide=False, **terms) as box:
        paths = [str(box.state / "credential"), str(box.other / "result.json"), str(elsewhere / "tls.key")]
        changes = {"isolation": "any", "uid": UID if users else None}
        missing = "No such file or directory"
        empty = "empty"
        assert (await box.says(READ, *paths, **changes)).splitlines() == [missing, missing, empty]
        # A key that is put in the place of another is hidden as well, in a slot that was there before it.
        (elsewhere / "new.key").write_text("another key")
        (elsewhere / "new.key").replace(elsewhere / "tls.key")
        async with asyncio.timeout(TIMEOUT_S):
            while (await box.says(READ, paths[2], **changes)).split() != [empty]:
                await asyncio.sleep(0.1)
        # Its own is there, and gone from the slot with its end.
        assert (await box.says("open('made', 'w').write('x'); print('made')", **changes)) == "made\n"


CHANGE_THE_SLOT = """
import os, resource, sys, time
time.sleep(float(sys.argv[1]))
for name in ("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_FSIZE"):
    try:
        resource.prlimit(1, getattr(resource, name), (3, 3))
    except OSError:
        pass
for attempt in (lambda: os.sched_setaffinity(1, {0}), lambda: os.setpriority(os.PRIO_PROCESS, 1, 19)):
    try:
        attempt()
    except OSError:
        pass
print("tried", flush=True)
print("and said so", file=sys.stderr)
"""
HAS_NOW = "import os, resource; print(resource.getrlimit(7), os.sched_getaffinity(0), os.getpriority(0, 0))"


@pytest.mark.parametrize("users", [False, True])
async def test_a_job_that_changes_its_slot_changes_nothing_for_the_next(tmp_path: Path, users: bool) -> None:
    """N28: limits, CPUs and priority of the process that the next job of its tenant is started by."""
    if users and os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can become another user. Run it as root.")
    changes: dict[str, Any] = {"uid": UID if users else None, "owner": "one"}
    async with opened(tmp_path, uid=changes["uid"]) as box:
        before = await box.says(HAS_NOW, **changes)
        # Also when the slot has left its group in the meantime, and goes back to it.
        for wait_s in (0, 0, 1.2, 0):
            await box.says(CHANGE_THE_SLOT, str(wait_s), **changes)
            assert await box.says(HAS_NOW, **changes) == before


async def test_a_slot_serves_one_tenant(box: Box) -> None:
    """And it goes on to, since a new one costs as much as a dozen starts."""
    own, others = set[str](), set[str]()
    for _ in range(3):
        for owner, seen in (("one", own), ("two", others)):
            seen.add(await box.says("import os; print(os.readlink('/proc/self/ns/pid'))", owner=owner))
    assert not own & others
    assert len(own) == len(others) == 1


LEAVE = """
import ctypes, os
for folder in ("/tmp", "/var/tmp", "/dev/shm"):
    os.makedirs(f"{folder}/a/b")
    open(f"{folder}/a/b/c", "w").write("x")
    os.chmod(f"{folder}/a/b", 0)
libc = ctypes.CDLL(None)
print(libc.shmget(0x4711, 4096, 0o1600) >= 0, libc.semget(0x4711, 1, 0o1600) >= 0, libc.msgget(0x4711, 0o1600) >= 0)
"""
FIND = """
import os
found = [name for folder in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue") for name in os.listdir(folder)]
print(found, [len(open(f"/proc/sysvipc/{kind}").readlines()) for kind in ("shm", "sem", "msg")])
"""


@pytest.mark.parametrize("users", [False, True])
async def test_the_next_job_of_the_tenant_finds_nothing_of_the_one_before(elsewhere: Path, users: bool) -> None:
    """N46: nothing in /tmp and the like, no shared memory, no semaphores, no queues; the slot may be the same."""
    if users and os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can become another user. Run it as root.")
    uid = UID if users else None
    async with opened(elsewhere, uid=uid) as box:
        before = await box.says(FIND, uid=uid)
        # Of a checkout below /tmp, the way to its own interpreter is there.
        ways = {parts[2] for parts in (Path(path).parts for path in programs()) if parts[:2] == ("/", "tmp")}
        assert before.startswith(f"{sorted(ways)} ")
        assert (await box.says(LEAVE, uid=uid)).split() == ["True"] * 3
        assert await box.says(FIND, uid=uid) == before
