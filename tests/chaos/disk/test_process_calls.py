"""A real server and a real agent with a fault at every system call that writes: first starts, and a day's work.

Whatever ended is started again, by nobody's hand but a supervisor's: then everything acknowledged comes to its end.
"""

import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chaos.disk.inject import SYNC_CALLS, Call, Injection, Point, points_of, table
from tests.chaos.disk.many import each, sample
from tests.chaos.disk.traced import NODE, PATIENCE_S, Place, placed, prepare
from tests.platform import Process, eventually, say

Count = Callable[[str, object], None]
FEW = [pytest.param(1, id="some"), pytest.param(None, id="all", marks=pytest.mark.soak)]
# A call of these is on a file whatever its path; others may be on a socket.
_ON_FILES = (*SYNC_CALLS, "pwrite64", "ftruncate", "mkdir", "rename", "unlink", "link", "rmdir")


@dataclass(frozen=True)
class Story:
    tell: Callable[[Place, Injection | None], bool]
    # Whether it begins with a platform that was used before.
    used: bool
    # Where faults are put in `make test`, which has no time to record a run first.
    known: Sequence[Point]


@pytest.fixture(scope="session")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("disk") / "used")


def first_start(place: Place, injection: Injection | None) -> bool:
    """Whoever starts it again finds a platform, and its administrator a token."""
    server = place.server
    place.start_traced(server, injection)
    eventually(lambda: not server.alive or (server.checks() and server.token()), "a start", PATIENCE_S)
    place.terminate_traced(server)
    struck = killed(server)
    place.start_again()
    eventually(server.token, "the administrator's token", PATIENCE_S)
    job = place.submit("first")
    place.cancel("first")
    assert place.phase(job) == "CANCELLED"
    return struck


def work(place: Place) -> None:
    """Jobs that run, and one that is cancelled."""
    place.submit("short")
    place.submit("long", beats=3)
    place.submit("cancelled", beats=600)
    place.cancel("cancelled")
    place.drain()


def serve(place: Place, injection: Injection | None) -> bool:
    place.agent.start()
    place.start_traced(place.server, injection)
    eventually(lambda: place.is_ready(place.server), "a start", PATIENCE_S)
    return finish(place, place.server)


def run_jobs(place: Place, injection: Injection | None) -> bool:
    place.server.start()
    place.start_traced(place.agent, injection)
    eventually(place.server.ready, "readiness", PATIENCE_S)
    return finish(place, place.agent)


def join(place: Place, injection: Injection | None) -> bool:
    """A node that is new: it gets a credential, keeps it and counts its boots."""
    place.server.start()
    eventually(place.server.ready, "readiness", PATIENCE_S)
    # On the server's own machine, where the administrator's token is at hand.
    place.agent = place.new_agent("joins", place.server.home, "--auto-join")
    place.start_traced(place.agent, injection)
    return finish(place, place.agent)


def finish(place: Place, traced: Process) -> bool:
    """Work, a stop as an operator wants it, and the verdict."""
    pid = traced.pid
    work(place)
    survived = traced.alive and traced.pid == pid
    if survived:
        place.terminate_traced(traced)
    struck = not survived or killed(traced)
    place.end()
    place.judge()
    return struck


def killed(process: Process) -> bool:
    return process.code == -signal.SIGKILL


_LOG = "server/store.db-wal"
STORIES: dict[str, Story] = {
    "server, first start": Story(
        first_start, False, [Point("rename", 1), Point("rename", 2), Point("fdatasync", 1, _LOG)]
    ),
    "server, work": Story(
        serve, True, [Point("pwrite64", number, _LOG) for number in range(1, 30)] + [Point("fdatasync", 4, _LOG)]
    ),
    "agent, join": Story(join, True, [Point("rename", 1), Point("rename", 2), Point("fsync", 1)]),
    "agent, work": Story(
        run_jobs, True, [Point("rename", 1), Point("mkdir", 3), Point("fsync", 1, f"nodes/agents/{NODE}/boot.new")]
    ),
}
IN_TEST = ["server, work", "agent, work"]


def record(story: Story, directory: Path, used: Path) -> list[Point]:
    recordings: list[Sequence[Call]] = []
    for number in range(2):
        with placed(directory / f"recording-{number}", used if story.used else None) as place:
            story.tell(place, None)
            recordings.append(place.calls())
    return points_of(recordings)


def strike(story: Story, root: Path, used: Path, injection: Injection) -> bool:
    with placed(root, used if story.used else None) as place:
        try:
            struck = story.tell(place, injection)
        except Exception as error:
            place.end()
            logs = f"{place.server.tail()}\n{place.agent.tail()}"
            raise AssertionError(f"{injection}: {error}\n{place.refusals}\n{logs}") from error
        if injection.error:
            struck = any(call.injected for call in place.calls())
        # A person at a terminal reads this.
        for process in (place.server, place.agent):
            assert "Traceback" not in process.tail(), f"{injection}\n{process.tail()}"
    shutil.rmtree(root)
    return struck


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("name", "few"),
    [*((name, 1) for name in IN_TEST), *(pytest.param(name, None, marks=pytest.mark.soak) for name in STORIES)],
)
def test_kill_9_at_every_call(
    tmp_path: Path, used: Path, seed: int, name: str, few: int | None, record_property: Count
) -> None:
    story = STORIES[name]
    points = record(story, tmp_path, used) if few is None else list(story.known)
    chosen = sample(points, few, seed)
    struck = each(chosen, lambda number, point: strike(story, tmp_path / f"{number}", used, Injection(point)))
    say(f"{name}: {len(points)} points ({table(points)}), {sum(struck)} of {len(chosen)} killed")
    say(f"killed at: {Counter(point.call for point, did in zip(chosen, struck, strict=True) if did)}")
    record_property("cases", len(chosen))
    assert any(struck), f"nothing was killed at {chosen}"


@pytest.mark.soak
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("name", STORIES)
def test_full_and_failing_disk_at_every_call(
    tmp_path: Path, used: Path, seed: int, name: str, record_property: Count
) -> None:
    story = STORIES[name]
    points = [point for point in record(story, tmp_path, used) if point.path or point.call in _ON_FILES]
    # Of each point one that passes and one that stays, the other way round for its neighbour.
    faults = [
        Injection(point, error, lasting=(number + turn) % 2 == 0)
        for number, point in enumerate(points)
        for turn, error in enumerate(("ENOSPC", "EIO"))
    ]
    struck = each(faults, lambda number, fault: strike(story, tmp_path / f"{number}", used, fault))
    say(f"{name}: {len(faults)} faults at {len(points)} points, {sum(struck)} happened")
    assert any(struck)
    record_property("cases", len(faults))
