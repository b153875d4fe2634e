"""Staging on a node: fetched once, checked, unpacked as it was; what goes wrong is said."""

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from ares.adapters.clocks import SystemClock
from ares.agent.staging import stager as staging
from ares.agent.staging.cache import NodeCache
from ares.agent.staging.stager import Stager, StagingFailed
from ares.agent.staging.unpack import NotWanted
from ares.agent.transfer.transfers import CONTROL_PLANE, Transfers
from ares.api.projects import PART_BYTES, ProjectEntry
from ares.core.project import write_manifest
from ares.core.transfer.breaker import REQUESTS_MIN
from ares.model.job import JobSpec
from ares.model.link import AttemptRef, FetchPiece, FetchRequest, Start
from ares.model.state import Fence, Placement
from ares.ports.link import LinkBroken, LinkRefused

BIG = os.urandom(PART_BYTES) + b"tail"
PARTS = {hashlib.sha256(data).hexdigest(): data for data in (b"print(1)\n", BIG[:PART_BYTES], BIG[PART_BYTES:])}
SMALL, HEAD, TAIL = PARTS
ENTRIES = (
    ProjectEntry("big", "file", 0o600, len(BIG), (HEAD, TAIL)),
    ProjectEntry("closed", "dir", 0o555),
    ProjectEntry("closed/run", "file", 0o755, 9, (SMALL,)),
    ProjectEntry("empty", "file", 0o644),
    ProjectEntry("link", "link", 0o777, link="closed/run"),
)


class Plane:
    """The control plane's side: parts by digest, and what is asked for."""

    def __init__(self, entries: tuple[ProjectEntry, ...] = ENTRIES) -> None:
        self.manifest = write_manifest(entries)
        self.parts = dict(PARTS)
        self.asked = list[tuple[str, ...]]()
        self.breaks = 0
        self.refuses = False

    @property
    def project(self) -> str:
        return hashlib.sha256(self.manifest).hexdigest()

    async def fetch(self, request: FetchRequest) -> AsyncIterator[FetchPiece]:
        self.asked.append(request.parts)
        if self.refuses:
            raise LinkRefused("no attempt on this node has this project")
        if not request.parts:
            yield FetchPiece(sha256=self.project, data=self.manifest)
            return
        for part in request.parts:
            if self.breaks:
                self.breaks -= 1
                raise LinkBroken("the connection is lost")
            yield FetchPiece(sha256=part, data=self.parts[part])

    def start(self, tenant: str = "t") -> Start:
        return Start(
            ref=AttemptRef(job="j1", tenant=tenant, fence=Fence(epoch=1, counter=1)), attempt=1,
            placement=Placement(node="n1", incarnation=1, cpu_milli=100, memory_mib=10),
            spec=JobSpec(command=("true",), project=self.project),
        )  # fmt: skip


def stager_of(plane: Plane, folder: Path, bytes_max: int = 1 << 40, transfers: Transfers | None = None) -> Stager:
    cache = NodeCache(folder / "cache", bytes_max)
    cache.open()
    return Stager(cache, plane.fetch, SystemClock(), transfers)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_AGAIN_S", (0.0, 0.0))


def root_of(folder: Path, name: str = "work") -> str:
    path = folder / name
    path.mkdir()
    return str(path)


async def test_the_tree_is_as_it_was(tmp_path: Path) -> None:
    root = root_of(tmp_path)
    await stager_of(Plane(), tmp_path).stage(Plane().start(), root, None, lambda: True)
    work = Path(root)
    assert (work / "big").read_bytes() == BIG
    assert (work / "link").read_text() == "print(1)\n"
    assert os.readlink(work / "link") == "closed/run"
    assert stat.S_IMODE((work / "closed").stat().st_mode) == 0o555
    assert stat.S_IMODE((work / "closed/run").stat().st_mode) == 0o755
    assert (work / "empty").read_bytes() == b""


async def test_a_second_attempt_fetches_nothing_and_sees_nothing_of_the_first(tmp_path: Path) -> None:
    plane = Plane()
    stager = stager_of(plane, tmp_path)
    first, second = root_of(tmp_path, "1"), root_of(tmp_path, "2")
    await stager.stage(plane.start(), first, None, lambda: True)
    (Path(first) / "big").write_text("spoiled")
    asked = len(plane.asked)
    await stager.stage(plane.start(), second, None, lambda: True)
    assert len(plane.asked) == asked
    assert (Path(second) / "big").read_bytes() == BIG


async def test_attempts_that_start_together_fetch_once(tmp_path: Path) -> None:
    plane = Plane()
    stager = stager_of(plane, tmp_path)
    roots = [root_of(tmp_path, str(number)) for number in range(4)]
    await asyncio.gather(*(stager.stage(plane.start(), root, None, lambda: True) for root in roots))
    assert sorted(part for asked in plane.asked for part in asked) == sorted(PARTS)


async def test_another_tenants_files_are_not_used(tmp_path: Path) -> None:
    plane = Plane()
    stager = stager_of(plane, tmp_path)
    await stager.stage(plane.start("t"), root_of(tmp_path, "1"), None, lambda: True)
    asked = len(plane.asked)
    await stager.stage(plane.start("other"), root_of(tmp_path, "2"), None, lambda: True)
    assert sorted(part for some in plane.asked[asked:] for part in some) == sorted(PARTS)


async def test_a_broken_connection_is_tried_again_and_then_said(tmp_path: Path) -> None:
    plane = Plane()
    plane.breaks = 2
    await stager_of(plane, tmp_path).stage(plane.start(), root_of(tmp_path, "1"), None, lambda: True)
    lost = Plane()
    lost.breaks = 100
    with pytest.raises(StagingFailed, match="the connection is lost"):
        await stager_of(lost, tmp_path / "2").stage(lost.start("u"), root_of(tmp_path, "3"), None, lambda: True)


async def test_a_refusal_is_not_repeated(tmp_path: Path) -> None:
    plane = Plane()
    plane.refuses = True
    with pytest.raises(StagingFailed, match="no attempt on this node"):
        await stager_of(plane, tmp_path).stage(plane.start(), root_of(tmp_path), None, lambda: True)
    assert len(plane.asked) == 1


async def test_bytes_with_another_digest_are_not_used(tmp_path: Path) -> None:
    plane = Plane()
    plane.parts[SMALL] = b"evil\n"
    with pytest.raises(StagingFailed, match="came with the digest"):
        await stager_of(plane, tmp_path).stage(plane.start(), root_of(tmp_path), None, lambda: True)
    plane = Plane()
    start = plane.start()
    plane.manifest = write_manifest(ENTRIES[:1])
    with pytest.raises(StagingFailed, match="not the one that was asked for"):
        await stager_of(plane, tmp_path / "2").stage(start, root_of(tmp_path, "w2"), None, lambda: True)


async def test_a_manifest_that_climbs_is_not_unpacked(tmp_path: Path) -> None:
    plane = Plane((ProjectEntry("../evil", "file", 0o644, 9, (SMALL,)),))
    with pytest.raises(StagingFailed, match="plain names"):
        await stager_of(plane, tmp_path).stage(plane.start(), root_of(tmp_path), None, lambda: True)
    assert not (tmp_path / "evil").exists()


async def test_a_full_disk_is_seen_before_anything_is_fetched(tmp_path: Path) -> None:
    plane = Plane((ProjectEntry("huge", "file", 0o644, 1 << 49, (SMALL,) * (1 << 4)),))
    plane.manifest = plane.manifest.replace(str(1 << 49).encode(), str(16 * PART_BYTES).encode())
    cache = NodeCache(tmp_path / "cache", 1 << 40)
    cache.open()
    cache.free_bytes = lambda: 1 << 20  # type: ignore[method-assign]
    with pytest.raises(StagingFailed, match="1 MiB are free"):
        await Stager(cache, plane.fetch, SystemClock()).stage(plane.start(), root_of(tmp_path), None, lambda: True)
    assert plane.asked == [()]


async def test_an_attempt_that_is_to_end_stops_staging(tmp_path: Path) -> None:
    plane = Plane()
    with pytest.raises(NotWanted):
        await stager_of(plane, tmp_path).stage(plane.start(), root_of(tmp_path), None, lambda: False)


async def test_the_cache_is_bounded_and_keeps_what_is_in_use(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 1000)
    cache.open()
    cache.add("t", "a" * 64, b"x" * 400)
    os.utime(tmp_path / "t/parts" / ("a" * 64), (1, 1))
    cache.add("t", "b" * 64, b"x" * 400)
    with cache.pinned("t", ["a" * 64]):
        cache.add("u", "c" * 64, b"x" * 400)
        assert cache.read("t", "a" * 64) is not None
        assert cache.read("t", "b" * 64) is None
    again = NodeCache(tmp_path, 1000)
    os.utime(tmp_path / "t/parts" / ("a" * 64), (1, 1))
    again.add("t", "d" * 64, b"x" * 400)
    assert cache.read("t", "a" * 64) is None
    assert cache.read("u", "c" * 64) is not None


@pytest.mark.parametrize("kind", ["file", "dir", "link"])
async def test_link_put_in_the_way_is_an_error(tmp_path: Path, kind: Literal["file", "dir", "link"]) -> None:
    inside = {
        "file": ProjectEntry("d/x", "file", 0o644, 9, (SMALL,)),
        "dir": ProjectEntry("d/x", "dir", 0o755),
        "link": ProjectEntry("d/x", "link", 0o777, link="y"),
    }[kind]
    plane = Plane((ProjectEntry("d", "dir", 0o755), inside))
    root, outside = root_of(tmp_path), tmp_path / "outside"
    outside.mkdir(0o700)

    def wanted() -> bool:
        # Asked before each entry: as soon as the directory is there, it is swapped.
        if (made := Path(root) / "d").is_dir() and not made.is_symlink():
            made.rmdir()
            made.symlink_to(outside)
        return True

    with pytest.raises(StagingFailed, match="cannot be unpacked here"):
        await stager_of(plane, tmp_path).stage(plane.start(), root, None, wanted)
    assert list(outside.iterdir()) == []
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700


@pytest.mark.parametrize("damaged", ["manifest", "part"])
async def test_what_is_damaged_in_the_cache_is_fetched_again(tmp_path: Path, damaged: str) -> None:
    plane = Plane()
    stager = stager_of(plane, tmp_path)
    await stager.stage(plane.start(), root_of(tmp_path, "1"), None, lambda: True)
    name = plane.project if damaged == "manifest" else SMALL
    path = tmp_path / "cache/t/parts" / name
    path.chmod(0o600)
    path.write_bytes(b"" if damaged == "part" else b"x" * path.stat().st_size)
    asked = len(plane.asked)
    await stager.stage(plane.start(), root_of(tmp_path, "2"), None, lambda: True)
    assert plane.asked[asked:] == [() if damaged == "manifest" else (SMALL,)]
    assert (tmp_path / "2/closed/run").read_text() == "print(1)\n"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == name


async def test_all_that_is_fetched_passes_the_door(tmp_path: Path) -> None:
    plane, transfers = Plane(), Transfers(SystemClock(), 1e12)
    await stager_of(plane, tmp_path, transfers=transfers).stage(plane.start(), root_of(tmp_path), None, lambda: True)
    assert transfers.moved() == {("t", "fetch"): sum(len(part) for part in PARTS.values())}


async def test_an_attempt_waits_while_the_control_plane_fails_and_uses_up_no_try(tmp_path: Path) -> None:
    plane, transfers = Plane(), Transfers(SystemClock())
    for _ in range(REQUESTS_MIN):
        transfers.ended("t", CONTROL_PLANE, ok=False)
    staging = asyncio.create_task(
        stager_of(plane, tmp_path, transfers=transfers).stage(plane.start(), root_of(tmp_path), None, lambda: True)
    )
    while not transfers.paused():
        await asyncio.sleep(0)
    assert transfers.paused() == {"j1": CONTROL_PLANE}
    assert plane.asked == []
    staging.cancel()
    await asyncio.gather(staging, return_exceptions=True)
    assert transfers.paused() == {}
