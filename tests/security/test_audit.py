"""The record of who did what: what is in it, who may read it, and that it cannot be bent."""

import asyncio
import csv
import io
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest

from ares.model.audit import AuditEntry
from ares.ports.audit import AuditUnavailable
from tests.integration.api.world import JOB, MISSING, World
from tests.security.audited import entries, last_entry

GLASS = {"x-ares-tenant": "acme", "x-ares-break-glass": "incident 4711, job hangs"}


# ---- what is recorded


async def test_a_submission_leaves_one_entry_before_it_is_answered(world: World) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with world.client() as client:
        answer = await client.post("/v1/jobs", json={"spec": JOB}, headers={"traceparent": trace})
    (entry,) = entries(world)
    assert (entry.operation, entry.outcome, entry.status) == ("submitJob", "ALLOW", 201)
    assert entry.made == (f"jobs/{answer.json()['id']}",)
    assert (entry.tenant, entry.role, entry.proof) == ("acme", "submitter", "token")
    assert (entry.method, entry.path, entry.remote) == ("POST", "/jobs", "127.0.0.1")
    assert entry.trace == "0af7651916cd43dd8448eb211c80319c"


async def test_a_batch_is_one_entry_with_counts_and_the_first_ids(world: World) -> None:
    jobs = [{"spec": JOB}] * 15 + [{"spec": {"command": []}}]
    async with world.client() as client:
        answer = await client.post("/v1/jobs/batch", json={"jobs": jobs})
    ids = [result["id"] for result in answer.json()["results"]]
    (entry,) = entries(world)
    assert entry.counts == {"created": 15, "replayed": 0, "rejected": 1}
    assert entry.made == tuple(f"jobs/{name}" for name in ids[:10])


async def test_reads_leave_no_entry_and_strangers_are_counted(world: World) -> None:
    async with world.client("viewer") as client:
        for path in ("/v1/jobs", "/v1/nodes", "/v1/whoami"):
            assert (await client.get(path)).status_code == 200
        assert (await client.post("/v1/plan", json={"spec": JOB})).status_code == 200
    assert entries(world) == []
    async with world.client_with(None) as nobody:
        for _ in range(5):
            assert (await nobody.get("/v1/jobs")).status_code == 401
    entry = await last_entry(world)
    assert (entry.reason, entry.outcome, entry.token, entry.count) == ("no_credential", "DENY", "", 1)
    assert len(entries(world)) == 1
    await world.services.audit.settle()
    entry = await last_entry(world)
    assert (entry.reason, entry.count) == ("no_credential", 4)


async def test_broken_glass_is_recorded_with_its_reason_and_raises_an_alert(world: World) -> None:
    async with world.client() as client:
        job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
    await world.start_job(job)
    async with world.client("operator", "platform") as operator:
        denied = await operator.get(f"/v1/jobs/{job}/logs", headers={"x-ares-tenant": "acme"})
        assert denied.status_code == 403
        assert (await last_entry(world)).reason == "glass"
        assert (await operator.get(f"/v1/jobs/{job}/logs", headers=GLASS)).status_code == 200
    entry = await last_entry(world)
    assert (entry.operation, entry.outcome, entry.glass) == ("getJobLogs", "ALLOW", "incident 4711, job hangs")
    assert (entry.tenant, entry.home, entry.object) == ("acme", "platform", f"jobs/{job}")
    await until(lambda: any(alert.kind == "break-glass" for alert in world.view.kept.alerts.values()))


async def test_many_denials_of_one_within_a_minute_raise_an_alert(world: World) -> None:
    async with world.client("viewer") as client:
        for _ in range(50):
            assert (await client.post("/v1/jobs", json={"spec": JOB})).status_code == 403
    await until(lambda: any(alert.kind == "denials" for alert in world.view.kept.alerts.values()))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


# ---- the words of the table of negative tests


class Case:
    def __init__(self, reason: str, status: int, act: Callable[[World], Awaitable[httpx2.Response]]) -> None:
        self.reason = reason
        self.status = status
        self.act = act


async def _as(world: World, role: Any, method: str, path: str, **more: Any) -> httpx2.Response:
    async with world.client(role, more.pop("tenant", "acme")) as client:
        return await client.request(method, path, **more)


async def _with(world: World, token: str | None, **more: Any) -> httpx2.Response:
    async with world.client_with(token) as client:
        return await client.get("/v1/jobs", **more)


async def _revoked(world: World) -> httpx2.Response:
    token = await world.token()
    async with world.client("admin") as admin:
        await admin.delete(f"/v1/tokens/{token.split('_')[1]}")
    return await _with(world, token)


async def _foreign(world: World) -> httpx2.Response:
    async with world.client(tenant="other") as other:
        job = (await other.post("/v1/jobs", json={"spec": JOB})).json()["id"]
    return await _as(world, "submitter", "DELETE", f"/v1/jobs/{job}")


async def _conflict(world: World) -> httpx2.Response:
    async with world.client() as client:
        await client.post("/v1/jobs", json={"spec": JOB, "requestId": "r1"})
        return await client.post("/v1/jobs", json={"spec": {**JOB, "name": "other"}, "requestId": "r1"})


CASES = {
    "N1": Case("no_credential", 401, lambda w: _with(w, None)),
    "N5 host": Case("bad_host", 421, lambda w: _with(w, None, headers={"host": "evil.example"})),
    "N5 origin": Case("bad_origin", 403, lambda w: _with(w, None, headers={"origin": "https://evil.example"})),
    "N6": Case("bad_key", 401, lambda w: _with(w, f"ares_0123456789_{'x' * 43}")),
    "N7": Case("revoked", 401, _revoked),
    "N8": Case(
        "tenant_mismatch", 403,
        lambda w: _as(w, "submitter", "POST", "/v1/jobs", json={"spec": JOB, "tenantId": "other"}),
    ),
    "N10": Case("cross_tenant", 404, _foreign),
    "N10 none": Case("not_found", 404, lambda w: _as(w, "submitter", "DELETE", f"/v1/jobs/{MISSING}")),
    "N11": Case("role", 403, lambda w: _as(w, "viewer", "POST", "/v1/jobs", json={"spec": JOB})),
    "N12": Case("cursor_mac", 400, lambda w: _as(w, "viewer", "GET", "/v1/jobs", params={"cursor": "A" * 24})),
    "N36 size": Case("limit", 413, lambda w: _as(w, "submitter", "POST", "/v1/jobs", content=b" " * (2 << 20))),
    "N36 depth": Case(
        "limit", 400,
        lambda w: _as(
            w, "submitter", "POST", "/v1/jobs", content=b"[" * 100_000, headers={"content-type": "application/json"}
        ),
    ),
    "N39": Case(
        "schema", 422,
        lambda w: _as(w, "submitter", "POST", "/v1/jobs", json={"spec": {**JOB, "resources": {"cpuMilli": -1}}}),
    ),
    "N45": Case("request_conflict", 409, _conflict),
}  # fmt: skip


async def test_denials_have_the_words_of_the_table(world: World) -> None:
    """The audit column of N1, N5 to N8, N10 to N12, N36, N39 and N45."""
    for name, case in CASES.items():
        answer = await case.act(world)
        entry = await last_entry(world)
        found = (answer.status_code, entry.status, entry.outcome, entry.reason.partition(":")[0])
        assert found == (case.status, case.status, "DENY", case.reason), name


async def test_a_web_socket_that_is_refused_is_recorded_as_one(world: World) -> None:
    """N15: the audit column."""
    import websockets

    address = world.server.url.replace("http", "ws", 1)
    with pytest.raises(websockets.InvalidStatus):
        async with websockets.connect(f"{address}/v1/events"):
            pass
    entry = await last_entry(world)
    assert (entry.outcome, entry.reason, entry.method) == ("DENY", "ws_no_credential", "WS")


# ---- who may read it


async def _filled(world: World) -> None:
    for tenant in ("acme", "other"):
        async with world.client(tenant=tenant) as client:
            for _ in range(3):
                assert (await client.post("/v1/jobs", json={"spec": JOB})).status_code == 201


async def test_a_tenant_sees_its_own_entries_only(world: World) -> None:
    """N41: reading another tenant's audit log is denied, and that is recorded."""
    await _filled(world)
    async with world.client("tenant-admin") as admin:
        mine = (await admin.get("/v1/audit")).json()
        assert {entry["tenant"] for entry in mine["entries"]} == {"acme"}
        assert len(mine["entries"]) == 3
        exported = (await admin.get("/v1/audit/export")).text.splitlines()
        assert {json.loads(line)["tenant"] for line in exported} == {"acme"}
        for path in ("/v1/audit", "/v1/audit/export", "/v1/audit/summary"):
            params = {"tenant": "other", **({"month": "2026-11"} if path.endswith("summary") else {})}
            assert (await admin.get(path, params=params)).status_code == 403
            entry = await last_entry(world)
            assert (entry.outcome, entry.reason) == ("DENY", "cross_tenant")
    for role in ("viewer", "submitter", "operator"):
        async with world.client(role) as client:
            assert (await client.get("/v1/audit")).status_code == 403
    async with world.client("auditor", "platform") as auditor:
        everything = (await auditor.get("/v1/audit")).json()["entries"]
        assert {"acme", "other"} <= {entry["tenant"] for entry in everything}


async def test_a_tenants_own_log_does_not_tell_that_anothers_job_exists(world: World) -> None:
    """N10 through the back door: for a tenant, another's job and none are the same in the log too."""
    await CASES["N10"].act(world)
    await CASES["N10 none"].act(world)
    foreign, none = [entry for entry in entries(world) if entry.operation == "deleteJob"]
    assert (foreign.reason, none.reason) == ("cross_tenant", "not_found")
    async with world.client("tenant-admin") as admin:
        seen = (await admin.get("/v1/audit", params={"operation": "deleteJob"})).json()["entries"]
        assert [entry["reason"] for entry in seen] == ["not_found", "not_found"]
        for params in ({"reason": "cross_tenant"}, {"text": "cross_tenant"}):
            assert (await admin.get("/v1/audit", params=params)).json()["entries"] == []
        assert "cross_tenant" not in (await admin.get("/v1/audit/export")).text
        month = (await admin.get("/v1/audit/summary", params={"month": _month(foreign)})).json()
        assert month["summary"]["denials"] == {"not_found": 2}


async def test_denied_reads_are_told_to_the_tenant_they_were_aimed_at(world: World) -> None:
    """What was tried on it, and that it failed; not by whom. The actor's tenant is told nothing of whose it was."""
    async with world.client(tenant="victim") as owner:
        job = (await owner.post("/v1/jobs", json={"spec": JOB})).json()["id"]
    async with world.client("tenant-admin") as actor, world.client_with(None) as anyone:
        for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/logs", "/v1/tenants/victim/quota"):
            assert (await actor.get(path)).status_code in (403, 404), path
        assert (await actor.get("/v1/jobs", headers={"x-ares-tenant": "victim"})).status_code == 403
        assert (await actor.get("/v1/audit", params={"tenant": "victim"})).status_code == 403
        assert (await actor.get("/v1/jobs", headers={"x-ares-tenant": "no-such"})).status_code == 403
        assert (await anyone.get(f"/v1/jobs/{job}")).status_code == 401
        mine = (await actor.get("/v1/audit")).json()["entries"]
        assert not any(entry.get("target") for entry in mine)
        assert "cross_tenant" not in (await actor.get("/v1/audit/export")).text
    async with world.client("tenant-admin", "victim") as admin, world.client("auditor", "platform") as auditor:
        told = (await admin.get("/v1/audit", params={"outcome": "DENY"})).json()["entries"]
        assert sorted(entry["operation"] for entry in told) == sorted(
            ["getJob", "getJob", "getJobLogs", "getTenantQuota", "listJobs", "searchAudit"]
        )
        for entry in told:
            assert entry["tenant"] == "victim"
            assert not any(entry.get(name) for name in ("token", "user", "role", "remote", "home", "target")), entry
        assert {entry["object"] for entry in told if entry["operation"] == "getJob"} == {f"jobs/{job}"}
        everything = (await auditor.get("/v1/audit", params={"tenant": "victim", "outcome": "DENY"})).json()["entries"]
        assert {entry["target"] for entry in everything} == {"victim"}
        assert {entry["tenant"] for entry in everything} == {"acme", ""}


def _month(entry: AuditEntry) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m")


async def test_pages_go_on_without_a_gap_and_cursors_are_bound_to_who_got_them(world: World) -> None:
    async with world.client() as client:
        for _ in range(7):
            await client.post("/v1/jobs", json={"spec": JOB})
    async with world.client("tenant-admin") as admin:
        seen: list[int] = []
        kept = cursor = ""
        while True:
            page = (await admin.get("/v1/audit", params={"limit": 3, **({"cursor": cursor} if cursor else {})})).json()
            seen += [entry["seq"] for entry in page["entries"]]
            if not (cursor := page["cursor"]):
                break
            kept = cursor
        assert seen == [7, 6, 5, 4, 3, 2, 1]
    async with world.client("tenant-admin", "other") as other:
        assert (await other.get("/v1/audit", params={"cursor": kept})).status_code == 400


async def test_filters_find_what_they_name(world: World) -> None:
    await _filled(world)
    await CASES["N11"].act(world)
    (denied,) = [entry for entry in entries(world) if entry.outcome == "DENY"]
    job = entries(world)[0].made[0]
    async with world.client("auditor", "platform") as auditor:

        async def found(**params: Any) -> int:
            return len((await auditor.get("/v1/audit", params=params)).json()["entries"])

        assert await found(outcome="DENY") == 1
        assert await found(who=denied.token) == 1
        assert await found(tenant="other") == 3
        assert await found(object=job) == await found(object=job.partition("/")[2]) == 1
        assert await found(reason="role", text="SUBMITJOB") == 1
        assert await found(since=denied.at + 1) == 0
        assert await found(until=denied.at) == 6


# ---- that it cannot be bent


async def test_log_forging_makes_one_entry_in_which_everything_is_escaped(world: World) -> None:
    """N42: newlines, fake JSON, escapes and direction marks in what people supply stay inside one entry."""
    evil = 'x\n{"seq":1,"outcome":"ALLOW"}\r\x1b[2J\u202e\x7f' + "A" * 5000
    async with world.client("operator", "platform") as operator:
        headers = {b"x-ares-tenant": b"acme", b"x-ares-break-glass": b"reason %0a\\n{} \xa0\xad" + b"B" * 5000}
        await operator.get(f"/v1/jobs/{MISSING}/logs", headers=headers)
        await operator.post(f"/v1/nodes/{quote(evil, safe='')}/cordon")
    async with world.client() as client:
        await client.post("/v1/jobs", json={"spec": {**JOB, "name": "ok", "env": {"A": evil}}, "requestId": "r\n1"})
    lines = [line for segment in world.chain.segments("r1") for line in world.chain.lines(segment)]
    assert len(lines) == 3
    for line, number in zip(lines, (1, 2, 3), strict=True):
        assert line.count(b"\n") == 1
        assert line.decode().rstrip("\n").isprintable()
        entry = msgspec.json.decode(line, type=AuditEntry)
        assert (entry.seq, len(line) < 2000) == (number, True)


async def test_what_people_send_is_not_in_the_log(world: World) -> None:
    """N26: neither bodies nor headers nor query strings."""
    canary = "canary-3f9a"
    async with world.client() as client:
        headers = {"x-secret": canary, "user-agent": canary, "idempotency-key": canary}
        spec = {**JOB, "env": {"TOKEN": canary}, "labels": {"a": canary}}
        assert (await client.post("/v1/jobs", json={"spec": spec}, headers=headers)).status_code == 201
        await client.post("/v1/jobs", json={"spec": {**spec, canary: 1}}, headers=headers)
        await client.delete(f"/v1/jobs/{MISSING}", params={"reason": canary})
        await client.get("/v1/jobs", params={"limit": canary})
    await _with(world, canary)
    await last_entry(world)
    lines = [line for segment in world.chain.segments("r1") for line in world.chain.lines(segment)]
    assert len(lines) == 5
    assert not [line for line in lines if canary.encode() in line and b"policy:" not in line]


async def test_a_disk_that_takes_nothing_stops_changes_and_not_reads(world: World) -> None:
    async with world.client() as client, world.client("viewer") as viewer:
        world.chain.failing = AuditUnavailable("no space left", full=True)
        # The first finds out: it may have been done, and the same request again gives the same job.
        body = {"spec": JOB, "requestId": "r1"}
        assert (await client.post("/v1/jobs", json=body)).json()["code"] == "audit-full"
        jobs = len(world.view.entries)
        for _ in range(3):
            refused = await client.post("/v1/jobs", json={"spec": JOB})
            assert (refused.status_code, "retry-after" in refused.headers) == (507, True)
        assert len(world.view.entries) == jobs
        assert (await client.get("/v1/jobs")).status_code == 200
        assert (await viewer.post("/v1/jobs", json={"spec": JOB})).status_code == 403
        world.chain.failing = None
        running = asyncio.create_task(world.services.audit.run())
        await until(lambda: world.services.audit.refusing is None)
        running.cancel()
        assert (await client.post("/v1/jobs", json=body)).status_code == 200
    done = [(entry.operation, entry.outcome) for entry in entries(world) if entry.operation == "submitJob"]
    # What was done while the disk was away is recorded too, late.
    assert done.count(("submitJob", "ALLOW")) == 2


async def test_verify_says_which_link_is_broken(world: World) -> None:
    """N41: over the API too."""
    await _filled(world)
    heads = world.services.audit_heads
    assert heads is not None
    await heads.sign()
    await until(lambda: bool(world.view.kept.audit_heads))
    async with world.client("auditor", "platform") as auditor:
        found = (await auditor.get("/v1/audit/verify")).json()
        assert (found["whole"], found["verified"][0]["signed"]) == (True, 6)
        (segment,) = world.chain.segments("r1")
        lines = world.chain.kept[segment]
        lines[3] = lines[3].replace(b'"tenant":"other"', b'"tenant":"acmes"')
        found = (await auditor.get("/v1/audit/verify")).json()
        assert (found["whole"], found["verified"][0]["broken"]) == (False, 4)
        del lines[2:]
        found = (await auditor.get("/v1/audit/verify")).json()["verified"][0]
        assert (found["broken"], found["missing"]) == (3, 4)
    await heads.check_recent()
    await until(lambda: any(alert.kind == "audit-chain" for alert in world.view.kept.alerts.values()))


async def test_csv_is_data_to_a_spreadsheet(world: World) -> None:
    async with world.client("operator", "platform") as operator:
        headers = {"x-ares-tenant": "acme", "x-ares-break-glass": '=HYPERLINK("http://evil","x"), +1'}
        async with world.client() as client:
            job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        await world.start_job(job)
        assert (await operator.get(f"/v1/jobs/{job}/logs", headers=headers)).status_code == 200
    async with world.client("auditor", "platform") as auditor:
        answer = await auditor.get("/v1/audit/export", params={"format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["operation"] for row in rows] == ["submitJob", "getJobLogs"]
    assert rows[1]["glass"] == "'" + '=HYPERLINK("http://evil","x"), +1'


async def test_a_month_is_summed_up(world: World) -> None:
    await _filled(world)
    for name in ("N11", "N45"):
        await CASES[name].act(world)
    async with world.client("admin") as admin:
        await admin.post("/v1/tokens", json={"role": "viewer", "name": "made"})
    month = _month(entries(world)[0])
    async with world.client("tenant-admin") as admin:
        found = (await admin.get("/v1/audit/summary", params={"month": month})).json()["summary"]
        at = entries(world)[0].at
        whole = (await admin.get("/v1/audit/summary", params={"since": at - 60, "until": at + 3600})).json()["summary"]
        assert (whole["operations"], whole["month"], whole["since"]) == (found["operations"], "", at - 60)
        none = (await admin.get("/v1/audit/summary", params={"until": at - 60})).json()["summary"]
        assert (none["entries"], none["until"]) == (0, at - 60)
        for params in ({}, {"month": month, "since": 1.0}):
            assert (await admin.get("/v1/audit/summary", params=params)).status_code == 422
    assert found["operations"]["submitJob"] == {"ALLOW": 4, "DENY": 2}
    assert found["denials"] == {"role": 1, "request_conflict": 1}
    assert [change["operation"] for change in found["changes"]] == ["createToken"]
    assert found["tenant"] == "acme"
