"""Datasets on a node: fetched once, checked, resumed after a kill, kept within bounds and under those who read them."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ares.adapters.clocks import SystemClock
from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.workspace import Folder
from ares.agent.files.spool import Tail
from ares.agent.link.mailbox import Mailbox
from ares.agent.staging import dataset_shelf
from ares.agent.staging import stager as staging
from ares.agent.staging.cache import NodeCache
from ares.agent.staging.dataset_shelf import DatasetDraft, DatasetShelf
from ares.agent.staging.inputs import StagedInputs
from ares.agent.staging.stager import Stager, StagingFailed
from ares.agent.staging.unpack import NotWanted
from ares.api.projects import PART_BYTES, ProjectEntry
from ares.core.project import write_manifest
from ares.model.job import DataInput, InputMode, JobSpec
from ares.model.link import AttemptRef, Cached, FetchPiece, FetchRequest, Start
from ares.model.state import Fence, Placement
from ares.ports.executor import Launch
from ares.ports.link import LinkBroken, LinkRefused

BIG = os.urandom(PART_BYTES) + b"tail"
TEXT = b"cat\ndog\n"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


PARTS = {digest(data): data for data in (BIG[:PART_BYTES], b"tail", TEXT)}
HEAD, TAIL, LABELS = PARTS
FILMS = (
    ProjectEntry("big", "file", 0o644, len(BIG), (HEAD, TAIL)),
    ProjectEntry("deep", "dir", 0o755),
    ProjectEntry("deep/again", "file", 0o644, len(TEXT), (LABELS,)),
    ProjectEntry("deep/labels", "file", 0o755, len(TEXT), (LABELS,)),
    ProjectEntry("empty", "file", 0o644),
    ProjectEntry("latest", "link", 0o777, link="deep/labels"),
)


class Plane:
    """The control plane's side: manifests and parts by digest, and what is asked for."""

    def __init__(self, *datasets: tuple[ProjectEntry, ...]) -> None:
        self.manifests = {digest(raw): raw for raw in (write_manifest(entries) for entries in datasets or (FILMS,))}
        self.parts = dict(PARTS)
        self.sent: list[str] = []
        self.breaks_after = self.breaks_each = 1 << 30
        self.refuses = ""

    @property
    def only(self) -> str:
        return next(iter(self.manifests))

    async def fetch(self, request: FetchRequest) -> AsyncIterator[FetchPiece]:
        if self.refuses:
            raise LinkRefused(self.refuses)
        if not request.parts:
            assert request.project is not None
            yield FetchPiece(sha256=request.project, data=self.manifests[request.project])
        for count, part in enumerate(request.parts):
            if len(self.sent) >= self.breaks_after or count >= self.breaks_each:
                raise LinkBroken("the connection is lost")
            await asyncio.sleep(0)
            self.sent.append(part)
            yield FetchPiece(sha256=part, data=self.parts[part])


class Node:
    def __init__(self, plane: Plane, folder: Path, bytes_max: int = 1 << 40) -> None:
        cache = NodeCache(folder / "cache", 1 << 40)
        cache.open()
        self.folder = folder
        self.shelf = DatasetShelf(folder / "cache", bytes_max)
        self.shelf.open()
        self.mailbox = Mailbox()
        self.inputs = StagedInputs(self.shelf, Stager(cache, plane.fetch, SystemClock()), self.mailbox)
        self.count = len(list(folder.glob("attempt-*")))

    def attempt(self, sha256: str, mode: InputMode = "cache", tenant: str = "t") -> Attempt:
        self.count += 1
        spec = JobSpec(
            command=("x",), inputs=(DataInput(name="data", from_=f"ares://datasets/films@sha256:{sha256}", mode=mode),)
        )
        start = Start(
            ref=AttemptRef(job=f"j{self.count}", tenant=tenant, fence=Fence(epoch=1, counter=1)), attempt=1,
            placement=Placement(node="n1", incarnation=1, cpu_milli=100, memory_mib=10), spec=spec,
        )  # fmt: skip
        place = self.folder / f"attempt-{self.count}"
        place.mkdir()
        folder = Folder(str(place))
        return Attempt(start, folder, Tail(folder.log, 1 << 20), 1e9, start.world)

    async def stage(self, attempt: Attempt) -> Path:
        launch = Launch(
            argv=("x",), env={}, cwd="/", log_path="/dev/null", memory_mib=1, cpu_milli=1, file_bytes_max=1,
            processes_max=1, open_files_max=1,
        )  # fmt: skip
        ready = await self.inputs.dress(attempt, launch)
        assert ready.env["ARES_INPUTS_DIR"] == attempt.folder.inputs
        return Path(ready.env["ARES_INPUT_DATA"])


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_AGAIN_S", (0.0,))


def read(data: Path) -> dict[str, bytes]:
    return {name: (data / name).read_bytes() for name in ("big", "deep/again", "deep/labels", "empty", "latest")}


WHOLE = {"big": BIG, "deep/again": TEXT, "deep/labels": TEXT, "empty": b"", "latest": TEXT}


async def test_it_is_fetched_once_for_all_attempts_and_only_read(tmp_path: Path) -> None:
    plane = Plane()
    node = Node(plane, tmp_path)
    found = await asyncio.gather(*(node.stage(node.attempt(plane.only)) for _ in range(5)))
    assert [read(data) for data in found] == [WHOLE] * 5
    assert sorted(plane.sent) == sorted(PARTS)
    assert {os.stat(data / "big").st_ino for data in found} == {os.stat(found[0] / "big").st_ino}
    modes = {path: os.lstat(found[0] / path).st_mode & 0o777 for path in ("big", "deep", "deep/labels")}
    assert modes == {"big": 0o444, "deep": 0o555, "deep/labels": 0o555}
    # Another agent on the same disk needs nothing more.
    assert read(await (again := Node(Plane(), tmp_path)).stage(again.attempt(plane.only, tenant="t"))) == WHOLE
    assert len(plane.sent) == len(PARTS)


async def test_larger_versions_are_told_and_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.agent.staging.inputs._WORTH_BYTES", PART_BYTES)
    monkeypatch.setattr("ares.agent.staging.inputs._TELL_EVERY_S", 0.0)
    plane = Plane(FILMS, FILMS[1:])
    node = Node(plane, tmp_path)
    mailbox = node.mailbox
    mailbox.tells_cached = True
    telling = asyncio.create_task(node.inputs.tell(SystemClock()))

    async def told() -> tuple[str, ...]:
        async with asyncio.timeout(10):
            while True:
                await mailbox.wait()
                frame = mailbox.frame()
                for message in () if frame is None else frame.messages:
                    if isinstance(message, Cached):
                        return message.versions

    large, small = plane.manifests
    assert await told() == ()
    await node.stage(node.attempt(small))
    await node.stage(node.attempt(large, tenant="u"))
    assert await told() == (f"u@sha256:{large}",)
    # A new session hears it again, an older control plane never.
    mailbox.rewind()
    assert await told() == (f"u@sha256:{large}",)
    mailbox.tells_cached = False
    mailbox.rewind()
    assert mailbox.frame() is None
    telling.cancel()


async def test_a_copy_is_the_attempts_own(tmp_path: Path) -> None:
    plane = Plane()
    node = Node(plane, tmp_path)
    mine, theirs = await node.stage(node.attempt(plane.only, "copy")), await node.stage(node.attempt(plane.only))
    (mine / "deep" / "labels").write_bytes(b"changed")
    (mine / "new").touch()
    assert read(theirs) == WHOLE
    assert os.access(mine / "deep" / "labels", os.X_OK)


async def test_tenants_share_nothing(tmp_path: Path) -> None:
    plane = Plane()
    node = Node(plane, tmp_path)
    await node.stage(node.attempt(plane.only))
    await node.stage(node.attempt(plane.only, tenant="other"))
    assert len(plane.sent) == 2 * len(PARTS)


async def test_after_a_break_only_what_is_lacking_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.agent.staging.inputs._AT_ONCE", 1)
    monkeypatch.setattr(staging, "_FETCH_BYTES", 1)
    plane = Plane()
    plane.breaks_after = 2
    node = Node(plane, tmp_path)
    with pytest.raises(StagingFailed, match="input data: its files cannot be fetched: the connection is lost"):
        await node.stage(node.attempt(plane.only))
    plane.breaks_after = 1 << 30
    # As after a kill: nothing is remembered but what is on the disk.
    again = Node(plane, tmp_path)
    assert read(await again.stage(again.attempt(plane.only))) == WHOLE
    assert sorted(plane.sent) == sorted(PARTS)


async def test_a_reset_at_every_part_sends_none_twice(tmp_path: Path) -> None:
    """All parts are asked for in one request, and the connection breaks after each of them."""
    plane = Plane()
    plane.breaks_each = 1
    node = Node(plane, tmp_path)
    assert read(await node.stage(node.attempt(plane.only))) == WHOLE
    assert sorted(plane.sent) == sorted(PARTS)


async def test_a_kill_at_every_part_sends_one_again_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent ends when a part has come, and before it is written: of that part nothing is left."""
    monkeypatch.setattr("ares.agent.staging.inputs._AT_ONCE", 1)
    plane, kills, write = Plane(), 0, DatasetDraft.write

    class Killed(BaseException):
        pass

    def dies(draft: DatasetDraft, part: str, data: bytes) -> None:
        if not (tmp_path / part).exists():
            (tmp_path / part).touch()
            raise Killed
        write(draft, part, data)

    monkeypatch.setattr(DatasetDraft, "write", dies)
    while True:
        node = Node(plane, tmp_path)
        try:
            data = await node.stage(node.attempt(plane.only))
            break
        except Killed:
            kills += 1
    assert read(data) == WHOLE
    assert kills == len(PARTS)
    assert len(plane.sent) - len(PARTS) <= kills


async def test_wrong_bytes_and_refusals_are_said_and_not_kept(tmp_path: Path) -> None:
    plane = Plane()
    node = Node(plane, tmp_path)
    plane.parts[TAIL] = b"liar"
    with pytest.raises(StagingFailed, match=f"input data: part {TAIL[:12]} cannot be had: it came with the digest"):
        await node.stage(node.attempt(plane.only))
    plane.parts[TAIL] = b"tail"
    assert read(await node.stage(node.attempt(plane.only))) == WHOLE
    other = Node(plane, tmp_path / "other")
    plane.refuses = "dataset films was removed"
    with pytest.raises(StagingFailed, match="input data cannot be fetched: dataset films was removed"):
        await other.stage(other.attempt(plane.only))


async def test_what_was_changed_or_written_before_a_reboot_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane()
    first = Node(plane, tmp_path)
    data = await first.stage(first.attempt(plane.only))
    os.chmod(data / "deep" / "labels", 0o600)
    (data / "deep" / "labels").write_bytes(b"evil")
    again = Node(plane, tmp_path)
    assert read(await again.stage(again.attempt(plane.only))) == WHOLE
    assert plane.sent[len(PARTS) :] == [LABELS]
    monkeypatch.setattr(dataset_shelf, "_BOOT", str(tmp_path / "nothing"))
    reboot = Node(plane, tmp_path)
    assert read(await reboot.stage(reboot.attempt(plane.only))) == WHOLE
    assert len(plane.sent) == len(PARTS) + 1, "all of it is as it was: nothing is fetched"


async def test_the_longest_unused_goes_and_what_is_read_stays(tmp_path: Path) -> None:
    small = tuple((ProjectEntry(f"n{number}", "file", 0o644, len(TEXT), (LABELS,)),) for number in range(3))
    plane = Plane(*small)
    first, second, third = plane.manifests
    node = Node(plane, tmp_path, bytes_max=2 * len(TEXT))
    reading = node.attempt(first)
    await node.stage(reading)
    idle = node.attempt(second)
    await node.stage(idle)
    node.inputs.release(idle)
    await node.stage(node.attempt(third))
    assert {sha for _, sha, _ in node.shelf.held()} == {first, third}
    with pytest.raises(StagingFailed, match="input data does not fit on this node: it needs 0 MiB, and running jobs"):
        await node.stage(node.attempt(second))
    node.inputs.release(reading)
    await node.stage(node.attempt(second))
    assert {sha for _, sha, _ in node.shelf.held()} == {second, third}
    tiny = Node(plane, tmp_path / "tiny", bytes_max=1)
    with pytest.raises(StagingFailed, match=r"node\.dataset_cache_mib"):
        await tiny.stage(tiny.attempt(first))


async def test_an_attempt_that_is_to_end_fetches_no_more(tmp_path: Path) -> None:
    plane = Plane()
    node = Node(plane, tmp_path)
    attempt = node.attempt(plane.only)
    attempt.fenced = "cancelled"
    with pytest.raises(NotWanted):
        await node.stage(attempt)
    assert plane.sent == []


async def test_versions_that_come_at_once_do_not_share_one_room(tmp_path: Path) -> None:
    """Each of them fits alone."""
    one, two = (
        (ProjectEntry(name, "file", 0o644, len(TEXT), (LABELS,)),) for name in ("one", "two")
    )  # fmt: skip
    plane = Plane(one, two)
    node = Node(plane, tmp_path, bytes_max=len(TEXT) + 1)
    go, fetching, fetch = asyncio.Event(), asyncio.Event(), plane.fetch

    async def slow(request: FetchRequest) -> AsyncIterator[FetchPiece]:
        if request.parts and not fetching.is_set():
            fetching.set()
            await go.wait()
        async for piece in fetch(request):
            yield piece

    node.inputs = StagedInputs(node.shelf, Stager(NodeCache(tmp_path / "c", 1 << 40), slow, SystemClock()), Mailbox())
    first, second = plane.manifests
    staged = asyncio.create_task(node.stage(node.attempt(first)))
    await fetching.wait()
    with pytest.raises(StagingFailed, match="does not fit on this node"):
        await node.stage(node.attempt(second))
    go.set()
    assert (await staged / "one").read_bytes() == TEXT
