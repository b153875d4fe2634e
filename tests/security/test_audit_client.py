"""The audit log by the Python client, blocking and not."""

import asyncio
from datetime import UTC, datetime

from ares.edge.client.aio import AsyncClient
from ares.edge.client.sync import Client
from tests.integration.api.world import JOB, World


async def test_the_python_client_reads_it(world: World) -> None:
    for tenant in ("acme", "other"):
        async with world.client(tenant=tenant) as submitter:
            for _ in range(3):
                assert (await submitter.post("/v1/jobs", json={"spec": JOB})).status_code == 201
    token = await world.token("auditor", "platform")
    async with AsyncClient(world.server.url, token) as client:
        seen = [entry async for entry in client.audit(page=2, tenant="other")]
        assert [entry.operation for entry in seen] == ["submitJob"] * 3
        exported = b"".join([piece async for piece in client.audit_export("jsonl", tenant="acme")])
        assert exported.count(b"\n") == 3
        assert (await client.audit_verify()).whole
        month = await client.audit_summary(datetime.fromtimestamp(seen[0].at, UTC).strftime("%Y-%m"), "other")
        assert month.summary.operations == {"submitJob": {"ALLOW": 3}}
        assert [chain.chain for chain in (await client.audit_heads()).chains] == ["r1"]
    with Client(world.server.url, token) as blocking:
        found = await asyncio.to_thread(lambda: list(blocking.audit(operation="submitJob")))
        assert len(found) == 6
        pieces = await asyncio.to_thread(lambda: b"".join(blocking.audit_export("csv")))
        assert pieces.count(b"\r\n") == 7
