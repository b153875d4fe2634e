"""Every adapter of the Blobs port: what is sealed is what its name says, and stays."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import asdict

from ares.adapters.blobs.files import FileBlobs
from ares.adapters.blobs.memory import MemoryBlobs
from ares.adapters.disk import TenantRoom
from ares.model.base import CheckpointRef
from ares.model.link import AttemptRef
from ares.model.state import Fence, OutputFile
from ares.ports.blobs import Blobs, Mismatch

JOB = "0123456789abcdef"
DATA = bytes(range(256)) * 40


def ref(counter: int = 1, job: str = JOB, tenant: str = "acme") -> AttemptRef:
    return AttemptRef(job=job, tenant=tenant, fence=Fence(counter=counter))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file(data: bytes) -> OutputFile:
    return OutputFile(path="x", size=len(data), sha256=sha(data))


def names(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*")}


ADAPTERS: dict[str, Callable[[Path], Blobs]] = {"files": FileBlobs, "memory": lambda _: MemoryBlobs()}


@pytest.fixture(params=ADAPTERS)
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    return ADAPTERS[request.param](tmp_path)


async def keep(blobs: Blobs, data: bytes, counter: int = 1, **of: str) -> None:
    assert await blobs.append(ref(counter, **of), sha(data), 0, data) == len(data)
    assert await blobs.seal(ref(counter, **of), sha(data), len(data)) is None


async def test_pieces_in_any_order_and_number_make_the_file_once(blobs: Blobs) -> None:
    name, at = sha(DATA), ref()
    assert await blobs.append(at, name, 5000, DATA[5000:]) == 0
    assert await blobs.append(at, name, 0, DATA[:100]) == 100
    assert await blobs.append(at, name, 0, DATA[:100]) == 100
    assert await blobs.append(at, name, 50, DATA[50:300]) == 300
    assert await blobs.append(at, name, 301, DATA[301:400]) == 300
    assert await blobs.append(at, name, 300, DATA[300:]) == len(DATA)
    assert await blobs.unsealed(at, [file(DATA)]) == (file(DATA),)
    with pytest.raises(FileNotFoundError):
        await blobs.read(at, name, 0, 10)
    assert await blobs.seal(at, name, len(DATA)) is None
    assert await blobs.unsealed(at, [file(DATA)]) == ()
    assert await blobs.read(at, name, 0, len(DATA) + 10) == DATA
    assert await blobs.read(at, name, 100, 7) == DATA[100:107]


async def test_a_sealed_file_is_never_written_again(blobs: Blobs) -> None:
    await keep(blobs, DATA)
    assert await blobs.append(ref(), sha(DATA), 0, b"other bytes") == len(DATA)
    assert await blobs.append(ref(), sha(DATA), len(DATA), b"more") == len(DATA)
    assert await blobs.seal(ref(), sha(DATA), len(DATA)) is None
    assert await blobs.seal(ref(), sha(DATA), 3) == Mismatch(len(DATA), sha(DATA))
    assert await blobs.read(ref(), sha(DATA), 0, 2 * len(DATA)) == DATA


@pytest.mark.parametrize("kept", [b"", DATA[:-1], DATA + b"x", b"y" + DATA[1:]])
async def test_what_is_not_as_announced_is_dropped(blobs: Blobs, kept: bytes) -> None:
    await blobs.append(ref(), sha(DATA), 0, kept)
    found = await blobs.seal(ref(), sha(DATA), len(DATA))
    assert found == Mismatch(len(kept), sha(kept))
    assert await blobs.unsealed(ref(), [file(DATA)]) == (file(DATA),)
    # And from the beginning again, to a good end.
    await keep(blobs, DATA)
    assert await blobs.read(ref(), sha(DATA), 0, len(DATA)) == DATA


async def test_an_empty_file_is_a_file(blobs: Blobs) -> None:
    assert await blobs.unsealed(ref(), [file(b"")]) == (file(b""),)
    await keep(blobs, b"")
    assert await blobs.unsealed(ref(), [file(b"")]) == ()
    assert await blobs.read(ref(), sha(b""), 0, 10) == b""


async def test_a_size_that_is_not_the_files_is_not_sealed(blobs: Blobs) -> None:
    await keep(blobs, DATA)
    wrong = OutputFile(path="x", size=len(DATA) - 1, sha256=sha(DATA))
    assert await blobs.unsealed(ref(), [file(DATA), wrong]) == (wrong,)


async def test_attempts_jobs_and_tenants_do_not_mix(blobs: Blobs) -> None:
    await keep(blobs, DATA)
    for other in (ref(2), ref(job="f" * 16), ref(tenant="beta")):
        assert await blobs.unsealed(other, [file(DATA)]) == (file(DATA),)
        with pytest.raises(FileNotFoundError):
            await blobs.read(other, sha(DATA), 0, 1)


async def test_only_the_committed_attempt_stays(blobs: Blobs) -> None:
    await keep(blobs, b"old", 1)
    await keep(blobs, b"new", 3)
    await blobs.append(ref(3), sha(DATA), 0, DATA[:10])
    await keep(blobs, b"other job", 1, job="f" * 16)
    assert await blobs.unsettled(3600.0) == ()
    assert set(await blobs.unsettled(0.0)) == {("acme", JOB), ("acme", "f" * 16)}
    await blobs.keep_only("acme", JOB, Fence(counter=3))
    assert await blobs.unsettled(0.0) == (("acme", "f" * 16),)
    assert await blobs.unsealed(ref(1), [file(b"old")])
    assert not await blobs.unsealed(ref(3), [file(b"new")])
    assert await blobs.append(ref(3), sha(DATA), 5, b"") == 0
    await blobs.keep_only("acme", JOB, None)
    await blobs.keep_only("acme", JOB, None)
    assert await blobs.unsealed(ref(3), [file(b"new")])
    assert not await blobs.unsealed(ref(1, job="f" * 16), [file(b"other job")])


# ---- on disk


async def test_another_replica_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    one, two = FileBlobs(tmp_path), FileBlobs(tmp_path)
    assert await one.append(ref(), sha(DATA), 0, DATA[:1000]) == 1000
    assert await two.append(ref(), sha(DATA), 0, b"") == 1000
    assert await two.append(ref(), sha(DATA), 1000, DATA[1000:]) == len(DATA)
    assert await two.seal(ref(), sha(DATA), len(DATA)) is None
    # What the first still had in its hands changes nothing.
    assert await one.append(ref(), sha(DATA), 1000, DATA[1000:2000]) == len(DATA)
    assert await one.seal(ref(), sha(DATA), len(DATA)) is None


async def test_nothing_is_left_of_a_job_that_is_removed(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    await keep(blobs, DATA)
    await blobs.append(ref(2), sha(b"x"), 0, b"")
    sealed = tmp_path / "acme" / JOB[:2] / JOB / "1.1" / sha(DATA)
    assert sealed.stat().st_mode & 0o777 == 0o400
    await blobs.keep_only("acme", JOB, None)
    assert names(tmp_path) == {"+open", "acme", JOB[:2]}


@pytest.mark.parametrize("bad", ["", "..", "a/b", "a.b", "A", "x" * 100, "a\n"])
async def test_only_identifiers_and_digests_name_a_file(tmp_path: Path, bad: str) -> None:
    blobs = FileBlobs(tmp_path)
    for wrong in (ref(tenant=bad), ref(job=bad)):
        with pytest.raises(ValueError, match="identifier"):
            await blobs.append(wrong, sha(DATA), 0, DATA)
    with pytest.raises(ValueError, match="SHA-256"):
        await blobs.append(ref(), bad, 0, DATA)
    with pytest.raises(ValueError, match="SHA-256"):
        await blobs.read(ref(), bad, 0, 1)


async def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.write_bytes(b"secret")
    blobs = FileBlobs(root)
    await blobs.append(ref(), sha(b"else"), 0, b"else")
    folder = root / "acme" / JOB[:2] / JOB / "1.1"
    os.symlink(outside, folder / sha(b"secret"))
    os.symlink(outside, folder / f"{sha(DATA)}.part")
    with pytest.raises(OSError, match="symbolic"):
        await blobs.read(ref(), sha(b"secret"), 0, 10)
    with pytest.raises(OSError, match="symbolic"):
        await blobs.append(ref(), sha(DATA), 0, DATA)
    assert outside.read_bytes() == b"secret"


async def test_descriptors_are_closed(tmp_path: Path) -> None:
    blobs, before = FileBlobs(tmp_path), len(os.listdir("/proc/self/fd"))
    for number in range(20):
        await keep(blobs, DATA, number)
        await blobs.append(ref(number), sha(b"z"), 0, b"y")
        await blobs.seal(ref(number), sha(b"z"), 1)
    await blobs.keep_only("acme", JOB, None)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


async def test_a_disk_that_is_not_mounted_has_lost_nothing(tmp_path: Path) -> None:
    root, known, away = tmp_path / "outputs", tmp_path / "home" / "outputs.id", tmp_path / "away"
    blobs = FileBlobs(root, known=known)
    await keep(blobs, DATA)
    root.rename(away)
    root.mkdir()
    # Also for a server that starts meanwhile: the empty directory is not taken for its own.
    for opened in (blobs, FileBlobs(root, known=known)):
        for call in (
            opened.read(ref(), sha(DATA), 0, 1),
            opened.append(ref(2), sha(b"x"), 0, b"x"),
            opened.adopt(CheckpointRef(**asdict(ref()), seq=1), CheckpointRef(**asdict(ref(2)), seq=1)),
            opened.unsettled(0.0),
        ):
            with pytest.raises(OSError, match="is its disk mounted") as refused:
                await call
            assert not isinstance(refused.value, FileNotFoundError)
    assert names(root) == set()
    root.rmdir()
    away.rename(root)
    assert await blobs.read(ref(), sha(DATA), 0, len(DATA)) == DATA
    with pytest.raises(FileNotFoundError):
        await blobs.read(ref(9), sha(DATA), 0, 1)


async def test_files_that_are_taken_over_twice_are_charged_once(tmp_path: Path) -> None:
    charged = list[int]()

    class Counting(TenantRoom):
        def charge(self, tenant: str, size: int, files: int = 0) -> None:
            charged.append(size)

        def give_back(self, tenant: str, size: int, files: int) -> None:
            charged.append(-size)

    blobs = FileBlobs(tmp_path, Counting())
    source, target = CheckpointRef(**asdict(ref()), seq=1), CheckpointRef(**asdict(ref(0)), seq=1)
    await blobs.append(source, sha(DATA), 0, DATA)
    await blobs.seal(source, sha(DATA), len(DATA))
    await blobs.adopt(source, target)
    await blobs.adopt(source, target)
    assert sum(charged) == 2 * len(DATA)
