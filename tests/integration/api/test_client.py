"""The Python client against the server it was written for."""

from ares.edge.client.aio import AsyncClient
from ares.edge.client.calls.answers import RefusedJob, Submitted
from ares.model.job import JobSpec
from tests.integration.api.world import World


async def test_the_client_and_the_server_agree(world: World) -> None:
    async with AsyncClient(world.server.url, await world.token("admin")) as client:
        made = await client.submit(command=["true"], name="one", request_id="r1")
        assert (await client.submit(command=["true"], name="one", request_id="r1")).replayed
        many = await client.submit_many([JobSpec(command=("a",)), JobSpec(command=("",))])
        assert isinstance(many[0], Submitted)
        assert isinstance(many[1], RefusedJob)
        assert [job.id async for job in client.list(name="one")] == [made.id]
        state = await world.start_job(made.id)
        world.logs.append("acme", made.id, 1, 0, 0, b"hello\n")
        await world.finish_job(state, value=[1, 2])
        done = await client.wait(made, timeout=20)
        assert done.result is not None
        assert done.result.value == [1, 2]
        assert b"".join([piece async for piece in client.logs(made, follow=True)]) == b"hello\n"
        kinds = [event.kind for event in await client.job_events(made)]
        assert kinds == ["submitted", "bound", "started", "succeeded"]
        first = await anext(aiter(client.events(cursor="0", job=made)))
        assert first.event.kind == "submitted"
        assert (await client.cancel(many[0])).phase == "CANCELLED"
        assert (await client.retry(many[0])).retry_of == many[0].id
        token = await client.create_token(role="viewer", name="x")
        assert token.record.id in {record.id for record in await client.tokens()}
        await client.revoke_token(token.record.id)
        assert (await client.create_join_token(node="n1")).record.single_use
        assert (await client.whoami()).role == "admin"
        assert await client.nodes() == ()
        assert await client.leases() == ()
