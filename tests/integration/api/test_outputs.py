"""The committed files over HTTP: listed, whole, in parts; nobody else's, and nothing that is not in the list."""

import hashlib
from pathlib import Path

import pytest

from ares.core.lifecycle.inputs import Exit
from ares.edge.client.aio import AsyncClient
from ares.edge.client.errors import DamagedOutput, NotFound, UnsafePath
from ares.edge.client.outputs import Saving
from ares.model.link import AttemptRef
from ares.model.state import ExitInfo, OutputFile
from tests.integration.api.world import JOB, World

BIG = bytes(range(256)) * 3000
FILES = {"a.txt": b"hello\n", "sub dir/b%2F?#.bin": BIG, "empty": b"", "größe/ü": b"u"}


def file(path: str, data: bytes) -> OutputFile:
    return OutputFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())


async def finished(world: World, files: dict[str, bytes] = FILES) -> str:
    """A job that has succeeded with these files."""
    async with world.client() as client:
        job: str = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
    started = await world.start_job(job)
    ref = AttemptRef(job=job, tenant=started.tenant, fence=started.fence)
    for data in (*files.values(), b"never committed"):
        sha256 = hashlib.sha256(data).hexdigest()
        await world.blobs.append(ref, sha256, 0, data)
        assert await world.blobs.seal(ref, sha256, len(data)) is None
    outputs = tuple(file(*one) for one in files.items())
    await world.apply(job, Exit(fence=started.fence, exit=ExitInfo(code=0), outputs=outputs))
    return job


async def test_the_list_and_every_file_in_it(world: World) -> None:
    job = await finished(world)
    async with world.client() as client:
        listed = (await client.get(f"/v1/jobs/{job}/outputs")).json()
        assert listed["committed"] is True
        assert {one["path"]: (one["size"], one["sha256"]) for one in listed["files"]} == {
            path: (len(data), hashlib.sha256(data).hexdigest()) for path, data in FILES.items()
        }
        answer = await client.get(f"/v1/jobs/{job}/outputs/a.txt")
        assert (answer.status_code, answer.content) == (200, b"hello\n")
        assert answer.headers["etag"] == f'"{hashlib.sha256(FILES["a.txt"]).hexdigest()}"'
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-length"] == "6"
    async with AsyncClient(world.server.url, await world.token()) as ares:
        for path, data in FILES.items():
            assert b"".join([piece async for piece in ares.output(job, path)]) == data


@pytest.mark.parametrize(
    ("asked", "status", "begin", "end"),
    [
        ("bytes=0-0", 206, 0, 1),
        ("bytes=100-299", 206, 100, 300),
        ("bytes=767999-", 206, 767_999, 768_000),
        ("bytes=-5", 206, 767_995, 768_000),
        ("bytes=-9999999", 206, 0, 768_000),
        ("bytes=0-99999999", 206, 0, 768_000),
        ("bytes=768000-", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        ("bytes=5-4", 200, 0, 768_000),
        ("bytes=0-1,5-6", 200, 0, 768_000),
        ("lines=1-2", 200, 0, 768_000),
        ("bytes=-", 200, 0, 768_000),
    ],
)
async def test_ranges(world: World, asked: str, status: int, begin: int, end: int) -> None:
    job = await finished(world, {"big": BIG})
    async with world.client() as client:
        answer = await client.get(f"/v1/jobs/{job}/outputs/big", headers={"range": asked})
    assert answer.status_code == status
    if status == 416:
        assert answer.headers["content-range"] == "bytes */768000"
        assert answer.json()["code"] == "bad-range"
        return
    assert answer.content == BIG[begin:end]
    if status == 206:
        assert answer.headers["content-range"] == f"bytes {begin}-{end - 1}/768000"


async def test_nothing_that_is_not_in_the_list(world: World) -> None:
    job = await finished(world)
    hidden = hashlib.sha256(b"never committed").hexdigest()
    async with world.client() as client, world.client(tenant="beta") as other:
        for path in (
            hidden,
            "a.txt/x",
            "A.txt",
            "sub dir",
            "..%2Fa.txt",
            "%2e%2e/outputs/x",
            "a.txt%00",
            "%FF",
        ):
            answer = await client.get(f"/v1/jobs/{job}/outputs/{path}")
            assert answer.status_code == 404, path
        for path in ("", "/a.txt"):
            answer = await other.get(f"/v1/jobs/{job}/outputs{path}")
            assert answer.status_code == 404
        unfinished = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        listed = (await client.get(f"/v1/jobs/{unfinished}/outputs")).json()
        assert (listed["committed"], listed["files"]) == (False, [])
        assert (await client.get(f"/v1/jobs/{unfinished}/outputs/a.txt")).status_code == 404


async def test_a_file_the_directory_has_lost_is_an_error_and_not_an_empty_file(world: World) -> None:
    job = await finished(world)
    world.blobs.sealed.clear()
    async with world.client() as client:
        answer = await client.get(f"/v1/jobs/{job}/outputs/a.txt")
    assert (answer.status_code, answer.json()["code"]) == (500, "output-missing")


async def test_download_verifies_and_is_whole_or_not_at_all(world: World, tmp_path: Path) -> None:
    job = await finished(world)
    async with AsyncClient(world.server.url, await world.token()) as ares:
        progress = list[tuple[str, int, int]]()
        saved = await ares.download(
            job, tmp_path / "all", on_progress=lambda path, here, size: progress.append((path, here, size))
        )
        assert saved == tuple(tmp_path / "all" / path for path in FILES)
        assert contents(tmp_path / "all") == FILES
        assert progress[-1][1] == progress[-1][2]
        assert await ares.download(job, tmp_path / "some", ["sub dir"]) == (tmp_path / "some" / "sub dir/b%2F?#.bin",)
        with pytest.raises(NotFound, match="no output 'nope'"):
            await ares.download(job, tmp_path / "none", ["a.txt", "nope"])
        assert contents(tmp_path / "none") == {}
        # The server's disk turns a bit.
        for key in world.blobs.sealed:
            world.blobs.sealed[key] = b"\x00" + world.blobs.sealed[key][1:]
        (tmp_path / "all" / "a.txt").write_bytes(b"mine")
        with pytest.raises(DamagedOutput, match=r"a\.txt"):
            await ares.download(job, tmp_path / "all", ["a.txt"])
        assert contents(tmp_path / "all") == {**FILES, "a.txt": b"mine"}


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a//x", "", ".", "sub/x"])
def test_nothing_is_saved_outside_the_directory(tmp_path: Path, path: str) -> None:
    """Also not by a server that means no good, nor through a link that lies there."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "sub").symlink_to(tmp_path)
    with pytest.raises(UnsafePath), Saving(inside, file(path, b"x")) as saving:
        saving.write(b"x")
    assert contents(tmp_path) == {}


async def test_the_result_of_the_job_has_the_list_too(world: World) -> None:
    job = await finished(world)
    async with AsyncClient(world.server.url, await world.token()) as ares:
        detail = await ares.get(job)
    assert detail.result is not None
    assert {one.path for one in detail.result.outputs} == set(FILES)
