"""Datasets over HTTP: published whole or not at all, within the quota, and given to jobs by their version."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ares.api.projects import PART_BYTES, ProjectEntry
from ares.control.state.project_cleanup import ProjectCleanup
from ares.core.project import write_manifest
from ares.edge.client.aio import AsyncClient
from ares.edge.client.errors import ApiError, InvalidSpec
from ares.edge.client.sync import Client
from tests.integration.api.world import JOB, World

BYTES = {"content-type": "application/octet-stream"}
JSON = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(data: bytes, name: str = "a.txt") -> bytes:
    return write_manifest((ProjectEntry(name, "file", 0o644, len(data), (sha(data),) if data else ()),))


async def publish(client: httpx2.AsyncClient, name: str, data: bytes) -> dict[str, Any]:
    framed = len(data).to_bytes(4) + data
    await client.post("/v1/projects/parts", content=framed, headers=BYTES)
    answer = await client.put(f"/v1/datasets/{name}", content=manifest(data), headers=JSON)
    return answer.json()


def inputs(ref: str) -> dict[str, Any]:
    return {"spec": {**JOB, "inputs": [{"name": "data", "from": ref}]}}


async def test_a_version_is_there_when_nothing_is_missing(world: World) -> None:
    async with world.client() as client:
        raw = manifest(b"one")
        first = (await client.put("/v1/datasets/films", content=raw, headers=JSON)).json()
        assert (first["kept"], first["missing"], first["sha256"]) == (False, [sha(b"one")], sha(raw))
        assert (await client.get("/v1/datasets/films")).status_code == 404
        assert (await publish(client, "films", b"one"))["kept"] is True
        again = await publish(client, "films", b"two")
        found = (await client.get("/v1/datasets/films")).json()
        assert [version["sha256"] for version in found["versions"]] == [again["sha256"], sha(raw)]
        assert (found["bytes"], found["ref"]) == (6, "ares://datasets/films")
        # What is published again is the newest again, and no other version.
        await publish(client, "films", b"one")
        listed = (await client.get("/v1/datasets")).json()["datasets"]
        assert [version["sha256"] for version in listed[0]["versions"]] == [sha(raw), again["sha256"]]
        kept = await client.get("/v1/datasets/films/manifest", params={"version": again["sha256"]})
        assert kept.content == manifest(b"two")


async def test_a_job_is_given_the_newest_version_for_good(world: World) -> None:
    async with world.client() as client:
        first = await publish(client, "films", b"one")
        job = (await client.post("/v1/jobs", json=inputs("ares://datasets/films"))).json()["id"]
        second = await publish(client, "films", b"x" * (2 << 20))
        given = (await client.get(f"/v1/jobs/{job}")).json()["spec"]["inputs"]
        assert given == [{"name": "data", "sizeMib": 1, "from": first["ref"], "mode": "cache"}]
        later = (await client.post("/v1/jobs", json=inputs("ares://datasets/films"))).json()["id"]
        given = (await client.get(f"/v1/jobs/{later}")).json()["spec"]["inputs"]
        assert (given[0]["from"], given[0]["sizeMib"]) == (second["ref"], 2)
        flow = {"jobs": {"a": inputs("ares://datasets/films")["spec"], "b": JOB}}
        flow["jobs"]["a"] = {key: value for key, value in flow["jobs"]["a"].items() if key != "name"}
        flow["jobs"]["b"] = {"command": ["true"]}
        made = await client.post("/v1/flows", json=flow)
        assert made.status_code == 201, made.text
        body = {"schedule": "0 0 * * *", "spec": inputs("ares://datasets/films")["spec"]}
        kept = (await client.put("/v1/crons/nightly", json=body)).json()
        assert kept["spec"]["inputs"][0]["from"] == "ares://datasets/films"


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("ares://datasets/nothing", "dataset-unknown"),
        (f"ares://datasets/films@sha256:{'0' * 64}", "dataset-unknown"),
        ("https://169.254.169.254/x", "input-invalid"),
    ],
)
async def test_what_cannot_be_had_is_refused(world: World, ref: str, code: str) -> None:
    async with world.client() as client:
        await publish(client, "films", b"one")
        flow = {"jobs": {"a": {"command": ["x"], "inputs": [{"name": "data", "from": ref}]}}}
        cron = {"schedule": "0 0 * * *", "spec": inputs(ref)["spec"]}
        for answer in (
            await client.post("/v1/jobs", json=inputs(ref)),
            await client.post("/v1/flows", json=flow),
            await client.put("/v1/crons/nightly", json=cron),
        ):
            assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
            assert answer.json()["fix"]


async def test_another_tenant_neither_has_nor_learns_of_it(world: World) -> None:
    async with world.client() as client:
        mine = await publish(client, "films", b"one")
    async with world.client(tenant="other") as other:
        assert (await other.get("/v1/datasets")).json() == {"datasets": []}
        texts = []
        for name in ("films", "nothing"):
            answers = (
                await other.get(f"/v1/datasets/{name}"),
                await other.get(f"/v1/datasets/{name}/manifest"),
                await other.post(f"/v1/datasets/{name}/parts", json={"version": mine["sha256"], "parts": []}),
                await other.request("DELETE", f"/v1/datasets/{name}"),
                await other.post("/v1/jobs", json=inputs(f"ares://datasets/{name}@sha256:{mine['sha256']}")),
            )
            assert [answer.status_code for answer in answers] == [404, 404, 404, 404, 422]
            texts.append([answer.text.replace(name, "NAME") for answer in answers])
        assert texts[0] == texts[1]


async def test_parts_come_as_they_fit_and_no_others(world: World) -> None:
    data = os.urandom(2 * PART_BYTES + 5)
    pieces = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
    raw = write_manifest((ProjectEntry("big", "file", 0o644, len(data), tuple(sha(piece) for piece in pieces)),))
    async with world.client() as client:
        for piece in pieces:
            await client.post("/v1/projects/parts", content=len(piece).to_bytes(4) + piece, headers=BYTES)
        version = (await client.put("/v1/datasets/big", content=raw, headers=JSON)).json()["sha256"]
        asked = {"version": version, "parts": [sha(piece) for piece in pieces]}
        answer = await client.post("/v1/datasets/big/parts", json=asked)
        assert answer.content == PART_BYTES.to_bytes(4) + pieces[0], "two of them are more than an answer holds"
        await publish(client, "other", b"another")
        stranger = await client.post("/v1/datasets/big/parts", json={**asked, "parts": [sha(b"another")]})
        assert (stranger.status_code, stranger.json()["code"]) == (404, "not-found")


async def test_a_quota_holds_in_the_transaction_that_publishes(world: World) -> None:
    gib, size = 1 << 30, 700_000
    async with world.client("admin") as admin, world.client() as client:
        quota = {"own": {"amounts": {"storage": {"hard": 1_500_000 / gib}}}, "threshold": 1.0}
        assert (await admin.put("/v1/tenants/acme/quota", json={"quota": quota})).status_code == 200
        assert (await publish(client, "a", os.urandom(size)))["kept"]
        refused = await client.put("/v1/datasets/b", content=manifest(os.urandom(900_000)), headers=JSON)
        assert refused.json()["code"] == "quota-exceeded", refused.text
        assert "GiB of outputs and datasets" in refused.json()["detail"]
        assert "missing" not in refused.json(), "it is said before anything is sent"
        # Of two at once that do not both fit, one is refused, and nothing of it is there.
        both = await asyncio.gather(*(publish(client, name, os.urandom(size)) for name in ("c", "d")))
        assert sorted(answer.get("code", "kept") for answer in both) == ["kept", "quota-exceeded"]
        assert len((await client.get("/v1/datasets")).json()["datasets"]) == 2
        used = (await admin.get("/v1/tenants/acme/quota")).json()["uses"]
        (storage,) = [use for use in used if use["measure"] == "storage" and use["level"] == "tenant"]
        assert storage["used"] == pytest.approx(2 * size / gib)
        await client.request("DELETE", "/v1/datasets/a")
        assert (await publish(client, "e", os.urandom(size)))["kept"]


async def test_a_quota_that_is_lowered_in_the_middle_of_an_upload_leaves_nothing_half(world: World) -> None:
    gib, one, two = 1 << 30, os.urandom(300_000), os.urandom(400_000)
    entries = [ProjectEntry(name, "file", 0o644, len(data), (sha(data),)) for name, data in (("a", one), ("b", two))]
    raw = write_manifest(tuple(entries))
    async with world.client("admin") as admin, world.client() as client:

        async def allow(size: int) -> None:
            quota = {"own": {"amounts": {"storage": {"hard": size / gib}}}, "threshold": 1.0}
            assert (await admin.put("/v1/tenants/acme/quota", json={"quota": quota})).status_code == 200

        await allow(1_000_000)
        begun = (await client.put("/v1/datasets/films", content=raw, headers=JSON)).json()
        assert sorted(begun["missing"]) == sorted((sha(one), sha(two)))
        await client.post("/v1/projects/parts", content=len(one).to_bytes(4) + one, headers=BYTES)
        await allow(500_000)
        for send in (two, two):
            await client.post("/v1/projects/parts", content=len(send).to_bytes(4) + send, headers=BYTES)
            refused = await client.put("/v1/datasets/films", content=raw, headers=JSON)
            assert refused.json()["code"] == "quota-too-small", refused.text
        assert (await client.get("/v1/datasets/films")).status_code == 404
        (storage,) = [
            use
            for use in (await admin.get("/v1/tenants/acme/quota")).json()["uses"]
            if use["measure"] == "storage" and use["level"] == "tenant"
        ]
        assert storage["used"] == 0, "what was not published counts"
        # With room again nothing has to be sent twice, and it counts once.
        await allow(1_000_000)
        for _ in range(2):
            assert (await client.put("/v1/datasets/films", content=raw, headers=JSON)).json()["kept"] is True
        (storage,) = [
            use
            for use in (await admin.get("/v1/tenants/acme/quota")).json()["uses"]
            if use["measure"] == "storage" and use["level"] == "tenant"
        ]
        assert storage["used"] == pytest.approx((len(one) + len(two)) / gib)


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", "dataset-invalid"), (write_manifest((ProjectEntry("../x", "file"),)), "dataset-invalid")]
)
async def test_what_makes_no_sense_is_refused(world: World, body: bytes, code: str) -> None:
    async with world.client() as client:
        answer = await client.put("/v1/datasets/films", content=body, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (422, code)
        assert answer.json()["fix"]
        assert (await client.put("/v1/datasets/Films", content=manifest(b"x"), headers=JSON)).status_code == 404


async def test_another_persons_dataset_is_read_and_not_changed(world: World) -> None:
    async with world.client() as mine:
        await publish(mine, "films", b"one")
    async with world.client() as theirs:
        assert (await theirs.get("/v1/datasets/films")).status_code == 200
        assert (await publish(theirs, "films", b"two"))["code"] == "forbidden"
        assert (await theirs.request("DELETE", "/v1/datasets/films")).status_code == 403


async def test_files_of_a_dataset_outlive_the_sweep(world: World) -> None:
    services = world.services
    async with world.client() as client:
        kept = await publish(client, "films", b"one")
        gone = manifest(b"two")
        await publish(client, "going", b"two")
        await client.request("DELETE", "/v1/datasets/going")
    files = services.datasets._files
    assert files is not None
    cleanup = ProjectCleanup(files, world.store, world.view, services.clock, kept_s=-10.0)
    await cleanup.sweep()
    assert await files.touch("acme", kept["sha256"])
    assert not await files.touch("acme", sha(gone))


@pytest.mark.parametrize("blocking", [False, True])
async def test_clients_send_and_fetch_what_is_lacking(world: World, tmp_path: Path, blocking: bool) -> None:
    source, saved = tmp_path / "source", tmp_path / "saved"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "big").write_bytes(os.urandom(PART_BYTES + 3))
    (source / "a").write_bytes(b"a")
    (source / "link").symlink_to("deep/big")
    token = await world.token()
    if blocking:
        with Client(world.server.url, token) as client:
            sent = await asyncio.to_thread(client.put_dataset, source, "films")
            first = await asyncio.to_thread(client.get_dataset, "films", saved)
            (saved / "a").write_bytes(b"b")
            second = await asyncio.to_thread(client.get_dataset, f"films@{sent.sha256[:6]}", saved)
            with pytest.raises(InvalidSpec, match="no version of films begins with 0000"):
                await asyncio.to_thread(client.get_dataset, "films@0000", saved)
            removed = await asyncio.to_thread(client.remove_dataset, "films")
    else:
        async with AsyncClient(world.server.url, token) as aclient:
            sent = await aclient.put_dataset(source, "films")
            first = await aclient.get_dataset("films", saved)
            (saved / "a").write_bytes(b"b")
            # As a fetch that was killed leaves it: the first part is there, the second is not.
            (saved / "deep" / "big").unlink()
            half = (source / "deep" / "big").read_bytes()[:PART_BYTES] + b"\0\0\0"
            (saved / "deep" / "big.ares-part").write_bytes(half)
            second = await aclient.get_dataset("films", saved)
            removed = await aclient.remove_dataset("films")
            with pytest.raises(ApiError, match="there is no dataset films"):
                await aclient.dataset("films")
    assert (sent.files, sent.bytes, first.received) == (2, PART_BYTES + 4, PART_BYTES + 4)
    assert second.received == (1 if blocking else 4)
    assert (saved / "link").read_bytes() == (source / "deep" / "big").read_bytes()
    assert sorted(path.name for path in saved.rglob("*")) == ["a", "big", "deep", "link"]
    assert (removed.versions, removed.bytes) == (1, PART_BYTES + 4)
