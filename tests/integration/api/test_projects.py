"""Projects over HTTP: what is missing is told and sent once; nothing of another tenant is used or told."""

import asyncio
import hashlib
import os
import threading
from pathlib import Path

import pytest

from ares.api.projects import ProjectEntry, ProjectManifest
from ares.control.execution.staging import Staging
from ares.control.state.project_cleanup import ProjectCleanup
from ares.core import keys
from ares.core.project import read_manifest, write_manifest
from ares.core.refusal import Refusal
from ares.edge.client.aio import AsyncClient
from ares.edge.client.errors import ApiError
from ares.edge.client.sync import Client
from ares.model.access import Principal
from ares.model.job import JobSpec
from ares.model.link import AttemptRef, FetchRequest
from ares.model.state import Fence
from ares.ports.store import Delete
from tests.integration.api.world import JOB, World

BYTES = {"content-type": "application/octet-stream"}
JSON = {"content-type": "application/json"}
DATA = b"print('hi')\n"
SHA = hashlib.sha256(DATA).hexdigest()
MANIFEST = write_manifest((ProjectEntry("train.py", "file", 0o644, len(DATA), (SHA,)),))
PROJECT = hashlib.sha256(MANIFEST).hexdigest()
NODE = Principal(token_id="n", tenant="acme", role="node", node="n1")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4) + part for part in parts)


async def test_a_manifest_says_what_is_missing_until_nothing_is(world: World) -> None:
    async with world.client() as client:
        first = (await client.post("/v1/projects", content=MANIFEST, headers=JSON)).json()
        assert first == {"sha256": PROJECT, "files": 1, "bytes": len(DATA), "kept": False, "missing": [SHA]}
        refused = await client.post("/v1/jobs", json={"spec": {**JOB, "project": PROJECT}})
        assert (refused.status_code, refused.json()["code"]) == (422, "project-unknown")
        kept = await client.post("/v1/projects/parts", content=framed(DATA), headers=BYTES)
        assert kept.json() == {"kept": [SHA]}
        assert (await client.post("/v1/projects", content=MANIFEST, headers=JSON)).json()["kept"] is True
        taken = await client.post("/v1/jobs", json={"spec": {**JOB, "project": PROJECT}})
        assert taken.status_code == 201
        job = (await client.get(f"/v1/jobs/{taken.json()['id']}")).json()
        assert job["spec"]["project"] == PROJECT


async def test_another_tenant_neither_has_nor_learns_of_it(world: World) -> None:
    async with world.client() as client:
        await client.post("/v1/projects/parts", content=framed(DATA), headers=BYTES)
        assert (await client.post("/v1/projects", content=MANIFEST, headers=JSON)).json()["kept"]
    async with world.client(tenant="other") as other:
        assert (await other.post("/v1/projects", content=MANIFEST, headers=JSON)).json()["missing"] == [SHA]
        theirs = await other.post("/v1/jobs", json={"spec": {**JOB, "project": PROJECT}})
        unknown = await other.post("/v1/jobs", json={"spec": {**JOB, "project": "0" * 64}})
        assert theirs.status_code == unknown.status_code == 422
        assert theirs.text.replace(PROJECT, "") == unknown.text.replace("0" * 64, "")


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "code"),
    [
        ("", MANIFEST, BYTES, 415, "unsupported-media-type"),
        ("", b"{", JSON, 422, "project-invalid"),
        ("", write_manifest((ProjectEntry("../x", "file"),)), JSON, 422, "project-invalid"),
        ("/parts", framed(DATA), JSON, 415, "unsupported-media-type"),
        ("/parts", framed(DATA)[:-1], BYTES, 422, "project-invalid"),
        ("/parts", framed(b""), BYTES, 422, "project-invalid"),
        ("/parts", (9 << 20).to_bytes(4) + bytes(9 << 20), BYTES, 422, "project-invalid"),
        ("/parts", framed(b"x") * 5000, BYTES, 422, "project-invalid"),
        ("/parts", bytes((16 << 20) + 1), BYTES, 413, "too-large"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    world: World, path: str, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    async with world.client() as client:
        answer = await client.post(f"/v1/projects{path}", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
        assert answer.json()["fix"]


async def test_a_viewer_ships_nothing(world: World) -> None:
    async with world.client("viewer") as client:
        assert (await client.post("/v1/projects", content=MANIFEST, headers=JSON)).status_code == 403
        assert (await client.post("/v1/projects/parts", content=framed(DATA), headers=BYTES)).status_code == 403


async def test_a_job_has_a_project_or_a_directory(world: World) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/jobs", json={"spec": {**JOB, "project": PROJECT, "workdir": "/data"}})
        assert (answer.status_code, answer.json()["code"]) == (422, "project-and-workdir")


@pytest.mark.parametrize(
    ("image", "code"),
    [
        ({"ref": "nothing"}, "image-invalid"),
        ({"ref": "docker://r.lab/app", "project": PROJECT}, "image-invalid"),
        ({"ref": "oci-archive:a.tar"}, "image-not-shipped"),
        ({"ref": "oci-archive:a.tar", "project": "0" * 64}, "project-unknown"),
    ],
)
async def test_an_image_that_cannot_be_had_is_refused(world: World, image: dict[str, str], code: str) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/jobs", json={"spec": {**JOB, "image": image}})
        assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
        assert answer.json()["fix"]
        empty = await client.post("/v1/jobs", json={"spec": {**JOB, "command": []}})
        assert (empty.status_code, empty.json()["code"]) == (422, "command-empty")


async def test_the_files_of_an_image_are_read_by_its_node(world: World) -> None:
    async with world.client() as client:
        await client.post("/v1/projects/parts", content=framed(DATA), headers=BYTES)
        await client.post("/v1/projects", content=MANIFEST, headers=JSON)
        spec: dict[str, object] = {**JOB, "command": [], "image": {"ref": "oci-archive:a.tar", "project": PROJECT}}
        job = (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]
    state, services = await world.start_job(job), world.services
    staging = Staging(world.view, services.projects._files, services.telemetry)  # pyright: ignore[reportPrivateUsage]
    ref = AttemptRef(job=job, tenant="acme", fence=state.fence)
    found = await staging.fetch(NODE, FetchRequest(ref=ref, rank=0, project=PROJECT))
    assert not isinstance(found, Refusal)
    assert [piece.data async for piece in found] == [MANIFEST]
    # It has no project to start with.
    assert isinstance(await staging.fetch(NODE, FetchRequest(ref=ref, rank=0)), Refusal)


async def test_both_clients_ship_the_same_and_send_it_once(world: World, tmp_path: Path) -> None:
    root = tmp_path / "mine"
    (root / "pkg").mkdir(parents=True)
    (root / "train.py").write_bytes(DATA)
    (root / "pkg/data").write_bytes(os.urandom(20 << 20))
    token = await world.token()
    async with AsyncClient(world.server.url, token) as ares:
        first = await ares.ship(root)
        assert (first.files, first.size) == (2, (20 << 20) + len(DATA))
        assert first.sent > first.size
        job = await ares.submit(command=["python3", "train.py"], workdir=root)
        assert (await ares.get(job)).spec.project == first.sha256
        assert (await ares.get(await ares.submit(command=["x"], workdir="none"))).spec.project is None
        # A spec is complete as it is.
        assert (await ares.get(await ares.submit(JobSpec(command=("x",))))).spec.project is None

    def blocking() -> None:
        with Client(world.server.url, token) as client:
            second = client.ship(root)
            assert (second.sha256, second.sent) == (first.sha256, 0)
            (root / "train.py").write_bytes(b"other")
            third = client.ship(root)
            assert third.sha256 != first.sha256
            assert third.sent == 5 + 4

    await asyncio.to_thread(blocking)


async def test_the_current_directory_is_shipped_unless_it_is_home(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/train.py").write_bytes(DATA)
    monkeypatch.setenv("ARES_SHIP", "")
    monkeypatch.chdir(tmp_path / "here")
    async with AsyncClient(world.server.url, await world.token()) as ares:
        assert (await ares.get(await ares.submit(command=["python3", "train.py"]))).spec.project == PROJECT
        assert (await ares.get(await ares.submit(command=["x"], chdir="/data"))).spec.project is None
        monkeypatch.setenv("HOME", str(tmp_path / "here"))
        with pytest.warns(UserWarning, match="your home directory"):
            job = await ares.submit(command=["x"])
        assert (await ares.get(job)).spec.project is None


async def test_a_tenant_over_its_share_is_told(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise OSError(122, "tenant acme holds 10 MiB of 10 MiB that it may")

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a").write_bytes(DATA)
    monkeypatch.setattr(world.services.projects._files, "keep", full)  # pyright: ignore[reportPrivateUsage]
    async with AsyncClient(world.server.url, await world.token()) as ares:
        with pytest.raises(ApiError, match="holds 10 MiB") as refused:
            await ares.ship(tmp_path / "mine")
        assert refused.value.code == "project-too-much"


async def test_only_the_node_of_an_attempt_reads_its_project(world: World) -> None:
    async with world.client() as client:
        await client.post("/v1/projects/parts", content=framed(DATA), headers=BYTES)
        await client.post("/v1/projects", content=MANIFEST, headers=JSON)
        job = (await client.post("/v1/jobs", json={"spec": {**JOB, "project": PROJECT}})).json()["id"]
        bare = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
    state, other = await world.start_job(job), await world.start_job(bare)
    services = world.services
    staging = Staging(world.view, services.projects._files, services.telemetry)  # pyright: ignore[reportPrivateUsage]
    ref = AttemptRef(job=job, tenant="acme", fence=state.fence)

    async def fetch(request: FetchRequest, who: Principal = NODE) -> list[bytes] | Refusal:
        found = await staging.fetch(who, request)
        return found if isinstance(found, Refusal) else [piece.data async for piece in found]

    assert await fetch(FetchRequest(ref=ref, rank=0)) == [MANIFEST]
    assert await fetch(FetchRequest(ref=ref, rank=0, parts=(SHA,))) == [DATA]
    elsewhere = Principal(token_id="n", tenant="acme", role="node", node="n2")
    stale = AttemptRef(job=job, tenant="acme", fence=Fence(epoch=0, counter=1))
    foreign = AttemptRef(job=job, tenant="other", fence=state.fence)
    without = AttemptRef(job=bare, tenant="acme", fence=other.fence)
    refused = [
        await fetch(FetchRequest(ref=ref, rank=0), elsewhere),
        await fetch(FetchRequest(ref=ref, rank=1)),
        await fetch(FetchRequest(ref=stale, rank=0)),
        await fetch(FetchRequest(ref=foreign, rank=0)),
        await fetch(FetchRequest(ref=without, rank=0)),
        # One that the tenant has, and the job does not name.
        await fetch(FetchRequest(ref=without, rank=0, project=PROJECT)),
        # A digest of the tenant that is not of this project.
        await fetch(FetchRequest(ref=ref, rank=0, parts=(PROJECT,))),
    ]
    assert all(isinstance(one, Refusal) and one.code == "forbidden" for one in refused), refused
    await world.finish_job(state)
    assert isinstance(await fetch(FetchRequest(ref=ref, rank=0)), Refusal)


async def test_a_schedule_has_a_project_that_is_kept(world: World, tmp_path: Path) -> None:
    async with world.client() as client:
        nightly = {"schedule": "0 3 * * *", "spec": {**JOB, "project": PROJECT}}
        no = await client.put("/v1/crons/nightly", json=nightly)
        assert (no.status_code, no.json()["code"]) == (422, "project-unknown"), no.text
        await client.post("/v1/projects/parts", content=framed(DATA), headers=BYTES)
        await client.post("/v1/projects", content=MANIFEST, headers=JSON)
        for path in (tmp_path / "outputs").rglob("*"):
            os.utime(path, (1, 1))
        assert (await client.put("/v1/crons/nightly", json=nightly)).status_code == 200
    # It counts as used.
    files = world.services.projects._files  # pyright: ignore[reportPrivateUsage]
    assert files is not None
    assert await files.unused(60.0) == ()


async def test_manifests_are_read_in_threads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looped = threading.current_thread()
    read: list[bool] = []

    def seen(raw: bytes, bytes_max: int) -> ProjectManifest:
        read.append(threading.current_thread() is looped)
        return read_manifest(raw, bytes_max)

    monkeypatch.setattr("ares.control.submit.projects.read_manifest", seen)
    async with world.client() as client:
        assert (await client.post("/v1/projects", content=MANIFEST, headers=JSON)).status_code == 200
    assert read == [False]


async def test_a_project_stays_while_a_jobs_records_do(world: World, tmp_path: Path) -> None:
    async with world.client() as client:
        await client.post("/v1/projects/parts", content=framed(DATA), headers=BYTES)
        await client.post("/v1/projects", content=MANIFEST, headers=JSON)
        job = (await client.post("/v1/jobs", json={"spec": {**JOB, "project": PROJECT}})).json()["id"]
        unnamed = write_manifest((ProjectEntry("x", "file", 0o644, len(DATA), (SHA,)),))
        await client.post("/v1/projects", content=unnamed, headers=JSON)
        # No job names it, though one speaks of it.
        text = f'"project":"{hashlib.sha256(unnamed).hexdigest()}"'
        await client.post("/v1/jobs", json={"spec": {**JOB, "command": ["echo", text]}})
    await world.view.catch_up()
    for path in (tmp_path / "outputs").rglob("*"):
        os.utime(path, (1, 1))
    services = world.services
    files = services.projects._files  # pyright: ignore[reportPrivateUsage]
    cleanup = ProjectCleanup(files, world.store, world.view, services.clock)
    assert await cleanup.sweep() == len(unnamed)
    kept = {path.name for path in (tmp_path / "outputs").rglob("*") if path.is_file()}
    assert kept == {PROJECT, SHA}
    # The job ends, and may be run again.
    await world.finish_job(await world.start_job(job))
    await world.view.catch_up()
    assert job not in world.view.specs
    assert await cleanup.sweep() == 0
    # Its records are forgotten, but a schedule names the project.
    async with world.client() as client:
        nightly = {"schedule": "0 3 * * *", "spec": {**JOB, "project": PROJECT}}
        assert (await client.put("/v1/crons/nightly", json=nightly)).status_code == 200
        await world.store.txn([], [Delete(keys.job("acme", job))])
        for path in (tmp_path / "outputs").rglob("*"):
            os.utime(path, (1, 1))
        assert await cleanup.sweep() == 0
        assert (await client.delete("/v1/crons/nightly")).status_code == 204
    assert await cleanup.sweep() == len(MANIFEST) + len(DATA)


async def test_a_project_stays_whatever_else_a_job_calls_so(world: World, tmp_path: Path) -> None:
    async with world.client() as client:
        await client.post("/v1/projects/parts", content=framed(DATA), headers=BYTES)
        await client.post("/v1/projects", content=MANIFEST, headers=JSON)
        named = {**JOB, "env": {"project": "0" * 64}, "project": PROJECT}
        assert (await client.post("/v1/jobs", json={"spec": named})).status_code == 201
        # An upload that was never finished.
        await client.post("/v1/projects/parts", content=framed(b"never named"), headers=BYTES)
    for path in (tmp_path / "outputs").rglob("*"):
        os.utime(path, (1, 1))
    services = world.services
    files = services.projects._files  # pyright: ignore[reportPrivateUsage]
    assert await ProjectCleanup(files, world.store, world.view, services.clock).sweep() == len(b"never named")
