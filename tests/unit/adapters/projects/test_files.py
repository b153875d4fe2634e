"""Projects on the disk: kept once, missing parts told, removed only when nothing needs them."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from ares.adapters.disk import TenantRoom
from ares.adapters.projects import FileProjects
from ares.api.projects import ProjectEntry
from ares.core.project import write_manifest

DAY_S = 86_400.0


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest_of(files: dict[str, bytes]) -> tuple[str, bytes, dict[str, int]]:
    entries = tuple(
        ProjectEntry(path, "file", size=len(data), parts=(sha(data),) if data else ()) for path, data in files.items()
    )
    raw = write_manifest(entries)
    return sha(raw), raw, {sha(data): len(data) for data in files.values() if data}


def kept(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


def age(root: Path, seconds: float) -> None:
    for path in root.rglob("*"):
        seen = path.stat()
        os.utime(path, (seen.st_atime - seconds, seen.st_mtime - seconds))


async def shipped(files: FileProjects, tenant: str, what: dict[str, bytes]) -> str:
    digest, raw, parts = manifest_of(what)
    await files.keep(tenant, [memoryview(data) for data in what.values() if data])
    assert await files.commit(tenant, digest, raw, parts) == ()
    return digest


async def test_a_manifest_is_kept_once_all_its_parts_are(tmp_path: Path) -> None:
    files = FileProjects(tmp_path)
    digest, raw, parts = manifest_of({"a": b"one", "b": b"two", "c": b""})
    assert set(await files.commit("t", digest, raw, parts)) == set(parts)
    assert not await files.touch("t", digest)
    assert await files.keep("t", [memoryview(b"one")]) == (sha(b"one"),)
    assert await files.commit("t", digest, raw, parts) == (sha(b"two"),)
    await files.keep("t", [memoryview(b"two"), memoryview(b"one")])
    assert await files.commit("t", digest, raw, parts) == ()
    assert await files.touch("t", digest)
    assert await files.manifest("t", digest) == raw
    assert await files.part("t", sha(b"two")) == b"two"


async def test_a_part_of_another_size_is_missing(tmp_path: Path) -> None:
    files = FileProjects(tmp_path)
    await files.keep("t", [memoryview(b"one")])
    digest, raw, _ = manifest_of({"a": b"one"})
    assert await files.commit("t", digest, raw, {sha(b"one"): 4}) == (sha(b"one"),)


async def test_tenants_share_nothing(tmp_path: Path) -> None:
    files = FileProjects(tmp_path)
    digest = await shipped(files, "t", {"a": b"secret"})
    assert not await files.touch("other", digest)
    with pytest.raises(FileNotFoundError):
        await files.part("other", sha(b"secret"))
    assert await files.commit("other", *manifest_of({"a": b"secret"})) == (sha(b"secret"),)
    with pytest.raises(ValueError, match="not an identifier"):
        await files.touch("../t", digest)


async def test_what_a_manifest_names_stays_and_the_rest_goes(tmp_path: Path) -> None:
    files = FileProjects(tmp_path)
    old = await shipped(files, "t", {"a": b"shared", "b": b"old"})
    new = await shipped(files, "t", {"a": b"shared", "c": b"new"})
    await files.keep("t", [memoryview(b"never named")])
    age(tmp_path, 2 * DAY_S)
    assert set(await files.unused(DAY_S)) == {("t", old), ("t", new)}
    assert await files.forget("t", [old], DAY_S) > 0
    assert kept(tmp_path) == {new, sha(b"shared"), sha(b"new")}


async def test_parts_of_an_upload_that_was_never_finished_go(tmp_path: Path) -> None:
    files = FileProjects(tmp_path)
    await files.keep("t", [memoryview(b"old")])
    age(tmp_path, 2 * DAY_S)
    await files.keep("t", [memoryview(b"new")])
    assert await files.tenants() == ("t",)
    assert await files.forget("t", [], DAY_S) == len(b"old")
    assert kept(tmp_path) == {sha(b"new")}


async def test_what_was_used_meanwhile_stays(tmp_path: Path) -> None:
    files = FileProjects(tmp_path)
    one = await shipped(files, "t", {"a": b"one"})
    age(tmp_path, 2 * DAY_S)
    assert await files.touch("t", one)
    assert await files.unused(DAY_S) == ()
    assert await files.forget("t", [one], DAY_S) == 0
    assert kept(tmp_path) == {one, sha(b"one")}


async def test_nothing_is_left_of_what_does_not_fit(tmp_path: Path) -> None:
    class Full(TenantRoom):
        def charge(self, tenant: str, size: int, files: int = 0) -> None:
            raise OSError(errno.EDQUOT, f"tenant {tenant} holds too much")

    files = FileProjects(tmp_path, Full())
    with pytest.raises(OSError, match="holds too much"):
        await files.keep("t", [memoryview(b"data")])
    assert kept(tmp_path) == set()


async def test_a_disk_that_is_not_mounted_has_lost_no_project(tmp_path: Path) -> None:
    root = tmp_path / "outputs"
    files = FileProjects(root, known=tmp_path / "outputs.id")
    digest, raw, parts = manifest_of({"a": b"one"})
    await shipped(files, "t", {"a": b"one"})
    root.rename(tmp_path / "away")
    root.mkdir()
    for call in (
        files.keep("t", [memoryview(b"two")]),
        files.commit("t", digest, raw, parts),
        files.touch("t", digest),
        files.manifest("t", digest),
        files.part("t", sha(b"one")),
    ):
        with pytest.raises(OSError, match="is its disk mounted") as refused:
            await call
        assert not isinstance(refused.value, FileNotFoundError)
    assert list(root.iterdir()) == []
