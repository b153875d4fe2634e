"""Faults at single system calls of unmodified programs, by strace: where they can be, and one of them at a time.

A point is "the N-th such call of a thread, on this file". First a run is recorded, which tells the points; then the
same run is repeated with a fault at one of them.
"""

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from tests.servers import die_with_parent

# Calls that change what is on the disk, or promise that it is there.
DATA_CALLS = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate")
SYNC_CALLS = ("fsync", "fdatasync", "sync_file_range", "msync")
NAME_CALLS = (
    "openat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat",
    "mkdir", "mkdirat", "rmdir", "chmod", "fchmod", "fchmodat",
)  # fmt: skip
CALLS = (*DATA_CALLS, *SYNC_CALLS, *NAME_CALLS)

Errno = Literal["ENOSPC", "EIO"]

_LINE = re.compile(r"(\d+) +(\w+)\((.*)")
_HANDLE = re.compile(r"\d+<([^<>]*)>(?:\(deleted\))?")
_NAME = re.compile(r"(?:AT_FDCWD(?:<[^<>]*>)?, )?\"([^\"]*)\"")


class Point(NamedTuple):
    """`path` relative to the run's directory; empty: whatever file."""

    call: str
    number: int
    path: str = ""

    def __str__(self) -> str:
        return f"{self.call} {self.number}{' of ' + self.path if self.path else ''}"


class Call(NamedTuple):
    """`path` is empty where it is none of the run's own files, "?" where it cannot be told which."""

    thread: str
    call: str
    path: str
    changes: bool = True
    injected: bool = False


@dataclass(frozen=True)
class Injection:
    """What happens at a point. `lasting`: at every such call from there on."""

    point: Point
    error: Errno | None = None
    lasting: bool = False

    def flag(self) -> str:
        what = f"error={self.error}" if self.error else "signal=KILL"
        return f"inject={self.point.call}:{what}:when={self.point.number}{'+' if self.lasting else ''}"

    def __str__(self) -> str:
        return f"{self.error or 'kill -9'} at {self.point}{' and after' if self.lasting else ''}"


@dataclass
class Traced:
    """How a traced program ended."""

    code: int
    out: str
    err: str
    calls: list[Call] = field(default_factory=list[Call])

    @property
    def injected(self) -> int:
        return sum(call.injected for call in self.calls)

    def after_fault(self) -> list[Call]:
        """What was tried after the first fault, of the calls that were watched."""
        first = next((n for n, call in enumerate(self.calls) if call.injected), len(self.calls))
        return self.calls[first + 1 :]

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def require_strace() -> str:
    found = shutil.which("strace")
    if found is None:
        pytest.skip("NOT TESTED: faults at system calls need strace; `scripts/setup test` installs it")
    probe = subprocess.run([found, "-o", "/dev/null", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip(f"NOT TESTED: this machine does not let a program be traced: {probe.stderr.decode().strip()}")
    return found


def traced_command(log: Path, root: Path, command: Sequence[str], injection: Injection | None = None) -> list[str]:
    strace = [require_strace(), "-f", "-qq", "-y", "-s", "0", "-o", str(log)]
    if injection is None:
        # Other calls are not slowed down by this; together with a fault it makes strace 6.1 ignore the fault.
        return [*strace, "--seccomp-bpf", "-e", f"trace={','.join(CALLS)}", *command]
    where = ["-P", str(root / injection.point.path)] if injection.point.path else []
    return [*strace, *where, "-e", f"trace={injection.point.call}", "-e", injection.flag(), *command]


def trace(
    command: Sequence[str],
    root: Path,
    env: Mapping[str, str],
    injection: Injection | None = None,
    timeout_s: float = 120.0,
) -> Traced:
    """Runs `command` to its end. Its files are in `root`."""
    log = root.with_name(f"{root.name}.strace")
    done = subprocess.run(
        traced_command(log, root, command, injection), env=dict(env), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=timeout_s, check=False, preexec_fn=die_with_parent,
    )  # fmt: skip
    text = log.read_text(errors="replace")
    return Traced(done.returncode, done.stdout, done.stderr, calls_of(text, root))


def calls_of(text: str, root: Path) -> list[Call]:
    """The calls on files in `root`, in order."""
    found: list[Call] = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, call, arguments = match.groups()
        named = (_NAME if call in NAME_CALLS and not call.startswith("fchmod") else _HANDLE).match(arguments)
        path = Path(named[1]) if named else None
        inside = path is not None and path.is_absolute() and path.is_relative_to(root)
        relative = path is not None and not path.is_absolute()
        name = "?" if relative and str(root) in arguments else ""
        if inside:
            assert path is not None
            name = str(path.relative_to(root))
        changes = call != "openat" or "O_CREAT" in arguments
        found.append(Call(thread, call, name, changes, line.endswith("(INJECTED)")))
    return found


def points_of(recordings: Sequence[Sequence[Call]]) -> list[Point]:
    """Where a fault can be. A file that every run names alike has its own count, others share one per call."""
    stable = {call.path for call in recordings[0]} - {"", "?"}
    for calls in recordings[1:]:
        stable &= {call.path for call in calls}
    points: dict[Point, None] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for thread, call, path, changes, _ in recordings[0]:
        counts[thread, call, ""] += 1
        if path:
            counts[thread, call, path] += 1
        if not path or not changes:
            continue
        named = path if path in stable else ""
        points.setdefault(Point(call, counts[thread, call, named], named))
    return list(points)


def table(points: Iterable[Point]) -> str:
    """How many points there are, by call."""
    counted = Counter(point.call for point in points)
    return ", ".join(f"{call} {count}" for call, count in sorted(counted.items()))
