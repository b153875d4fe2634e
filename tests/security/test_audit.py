"""The record of who did what: what is in it, and that it cannot be bent."""

from tests.integration.api.world import JOB, World
from tests.security.audited import entries, last_entry


async def test_a_submission_leaves_one_entry(world: World) -> None:
    async with world.client() as client:
        answer = await client.post("/v1/jobs", json={"spec": JOB})
    (entry,) = entries(world)
    assert (entry.operation, entry.outcome, entry.status) == ("submitJob", "ALLOW", 201)
    assert entry.made == (f"jobs/{answer.json()['id']}",)
    assert (entry.tenant, entry.role, entry.path) == ("acme", "submitter", "/jobs")


async def test_reads_leave_none_and_strangers_one(world: World) -> None:
    async with world.client("viewer") as client:
        assert (await client.get("/v1/jobs")).status_code == 200
    assert entries(world) == []
    async with world.client_with(None) as nobody:
        for _ in range(5):
            assert (await nobody.get("/v1/jobs")).status_code == 401
    entry = await last_entry(world)
    assert (entry.reason, entry.outcome, entry.token) == ("no_credential", "DENY", "")
    assert len(entries(world)) == 1
