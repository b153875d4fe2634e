"""A store written by an earlier version, opened by this one, and what the command line says of it.

`write` makes such a store by a real platform: jobs that ended in every way, and one of everything that an operator
makes. Ids and times are those of that day, so that every answer about the past is the same for ever; what depends on
the present, as ages, is masked.
"""

import gzip
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from oracles.recording import RECORDED, NotComparable, Part
from tests.platform import Platform, Run, eventually, run_cli

STORE = RECORDED / "store.db.gz"
_ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
# What depends on the present: "3m2s ago", a column of ages; and blanks, which are as many as columns are wide.
_TIME = r"\b\d+(?:\.\d+)? ?(?:ms|s|m|h|d)(?: ?\d+ ?[smh])*\b"
_AGO = re.compile(rf"{_TIME} ago")
_AGE = re.compile(_TIME)
_BLANKS = re.compile(r" +")
# In JSON: until when usage was counted, and where the copy of the store is.
_NOW = re.compile(r'"(until|store)": [^,\n]+')
# Tables with such a column.
_AGEING = frozenset({("jobs", "--state", "FAILED"), ("profile", "history")})
_SUBMITTED: tuple[tuple[str, ...], ...] = (
    ("--name", "good", "--gpus", "1", "--label", "team=vision", "--", "sh", "-c", "echo done"),
    ("--name", "bad", "--retries", "1", "--", "sh", "-c", "exit 3"),
    ("--name", "slow", "--time", "1s", "--priority", "LOW", "--", "sleep", "600"),
    ("--name", "pair", "--ranks", "2", "--runtime", "1m", "--", "true"),
    ("--name", "shared", "--gpus", "1", "--gpu-share", "50%", "--qos", "burstable", "--or", "gpus=2", "--", "true"),
    ("--name", "late", "--deadline", "1s", "--runtime", "1h", "--", "true"),
    ("--name", "tasks", "--array", "0-2", "--", "true"),
    ("--name", "gone", "--gpus", "64", "--", "true"),
)
_MADE: tuple[tuple[str, ...], ...] = (
    ("tenant", "create", "research", "--note", "a second tenant"),
    ("quota", "set", "research", "gpus=8", "budget=1000", "priority=HIGH", "--note", "as agreed"),
    ("policy", "set", "no-huge", "--when", "job.gpus > 100", "--action", "reject", "--message", "ask first"),
    ("profile", "set", "pools.spot.gpu_hour=0.5", "--note", "spot is cheap"),
    ("user", "create", "ada", "--role", "submitter", "--team", "vision"),
    ("token", "create", "--user", "ada", "--name", "laptop"),
)
_ASKED: tuple[tuple[str, ...], ...] = (
    ("jobs", "-o", "json"),
    ("jobs", "--state", "FAILED"),
    ("usage", "-o", "json"),
    ("tenant", "list", "-o", "json"),
    ("quota", "show", "research", "-o", "json"),
    ("role", "list"),
    ("policy", "list", "-o", "json"),
    ("policy", "show", "no-huge"),
    ("profile", "show"),
    ("profile", "history"),
    ("user", "list", "-o", "json"),
    ("plugins",),
    ("sla",),
    ("history",),
)
_ASKED_OF_A_JOB: tuple[tuple[str, ...], ...] = (("show",), ("show", "-o", "json"), ("events",), ("explain",))


def store(_: Path | None) -> Iterator[Part]:
    """Every record is read, and judged by what jobs are promised."""
    with TemporaryDirectory(prefix="ares-oracle-") as folder:
        copy = _copy(Path(folder))
        found = run_cli("verify", "--store", f"sqlite://{copy}", "--output", "json", "--quiet", home=Path(folder))
        yield Part("ares verify", _said(found, ("verify", "json")))


def commands(_: Path | None) -> Iterator[Part]:
    with _platform() as platform:
        _restore(platform)
        platform.server()
        for asked in _ASKED:
            yield Part(" ".join(("ares", *asked)), _said(platform.cli(*asked), asked))
        for name, job in _jobs(platform):
            for asked in _ASKED_OF_A_JOB:
                said = _said(platform.cli(asked[0], job, *asked[1:]), asked)
                yield Part(" ".join(("ares", asked[0], f"({name})", *asked[1:])), said)


def write() -> None:
    with _platform() as platform:
        server = platform.server()
        agent = platform.agent("node-a")
        for command in _MADE:
            _done(platform.cli(*command))
        for flags in _SUBMITTED:
            _done(platform.cli("submit", *flags))
        _done(platform.cli("cancel", next(job for name, job in _jobs(platform) if name.startswith("gone"))))
        eventually(lambda: _phases(platform) <= _ENDED, "the end of every job", 300.0)
        agent.terminate()
        server.terminate()
        copy = platform.directory / "copy.db"
        _done(platform.cli("store", "backup", str(copy)))
        STORE.write_bytes(gzip.compress(copy.read_bytes(), 9, mtime=0))


@contextmanager
def _platform() -> Generator[Platform, None, None]:
    """Its processes' logs are shown only if something failed."""
    said = StringIO()
    try:
        with (
            TemporaryDirectory(prefix="ares-oracle-") as folder,
            redirect_stdout(said),
            Platform(Path(folder) / "run") as platform,
        ):
            yield platform
    except BaseException:
        sys.stderr.write(said.getvalue())
        raise


def _copy(folder: Path) -> Path:
    if not STORE.exists():
        raise NotComparable(f"recorded/{STORE.name} is missing; it belongs to the repository")
    copy = folder / "copy.db"
    copy.write_bytes(gzip.decompress(STORE.read_bytes()))
    return copy


def _restore(platform: Platform) -> None:
    platform.server().terminate()
    home = platform.servers[0].home
    _done(platform.cli("store", "restore", str(_copy(platform.directory)), home=home))
    _done(platform.cli("store", "new-admin", home=home))


def _phases(platform: Platform) -> set[str]:
    return {job["phase"] for job in _listed(platform)}


def _jobs(platform: Platform) -> list[tuple[str, str]]:
    """Name and id, in the order of submission; an array's tasks are told apart by their number."""
    jobs = sorted(_listed(platform), key=lambda job: (job["submittedAt"], job["id"]))
    return [(f"{job['name']} {number}", job["id"]) for number, job in enumerate(jobs)]


def _listed(platform: Platform) -> list[dict[str, Any]]:
    return msgspec.json.decode(_done(platform.cli("jobs", "-o", "json")).out)["jobs"]


def _done(run: Run) -> Run:
    assert run.code == 0, run
    return run


def _said(run: Run, asked: tuple[str, ...]) -> str:
    if asked[-1] == "json":
        out = _NOW.sub(r'"\1": NOW', run.out)
    else:
        out = _BLANKS.sub(" ", (_AGE if asked in _AGEING else _AGO).sub("AGE", run.out))
    return f"exit code {run.code}\n{out}{run.err}"
