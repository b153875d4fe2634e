"""The gRPC service over real services and a real port, by a generated Python client."""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from google.protobuf import json_format

from ares.edge.rest.routes.routes import OPERATIONS, SOCKETS
from ares.edge.rpc import messages
from ares.edge.rpc.messages import message_class
from ares.edge.rpc.methods import SERVICES
from ares.edge.rpc.server import RpcSettings
from ares.model.cluster_link import ClusterHello
from tests.integration.api.world import MISSING
from tests.integration.rpc.conftest import RpcWorld, open_rpc
from tests.rpc import RpcClient
from tests.security.audited import entries
from tests.security.pki import on_loopback

Code = grpc.StatusCode


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def reason(error: grpc.aio.AioRpcError) -> str:
    """The problem's code, from the details that go with every refusal."""
    details = dict(error.trailing_metadata() or ())
    status: Any = message_class("google.rpc.Status").FromString(details["grpc-status-details-bin"])
    info: Any = message_class("google.rpc.ErrorInfo")()
    assert status.details[0].Unpack(info)
    return info.reason


async def test_a_job_is_submitted_shown_listed_and_cancelled(world: RpcWorld) -> None:
    async with world.client() as client:
        api = client.made.api
        made = await client.submit("python", "train.py", request_id="r-1")
        again = await client.submit("python", "train.py", request_id="r-1")
        assert (again.id, again.replayed, made.replayed) == (made.id, True, False)

        seen = await client.jobs.GetJob(api.GetJobRequest(id=made.id), metadata=client.metadata())
        assert seen.state.phase == "PENDING"
        assert list(seen.spec.command) == ["python", "train.py"]
        # What the submitter left out has the default that HTTP shows.
        assert seen.spec.resources.cpu_milli == 1000

        ended = await client.jobs.CancelJob(
            api.CancelJobRequest(id=made.id, reason="not needed"), metadata=client.metadata()
        )
        assert ended.phase == "CANCELLED"
        retried = await client.jobs.RetryJob(api.RetryJobRequest(id=made.id), metadata=client.metadata())
        assert retried.retry_of == made.id

        events = await client.events.ListJobEvents(api.ListJobEventsRequest(id=made.id), metadata=client.metadata())
        assert [event.kind for event in events.events] == ["submitted", "cancelled"]
    noted = [entry for entry in entries(world.api) if entry.operation == "submitJob"]
    assert [(entry.method, entry.path, entry.outcome) for entry in noted] == [("GRPC", "/jobs", "ALLOW")] * 2
    assert noted[0].made == (f"jobs/{made.id}",)


async def test_pages_go_on_where_the_last_one_ended(world: RpcWorld) -> None:
    async with world.client() as client:
        api = client.made.api
        made = [(await client.submit("true")).id for _ in range(5)]
        found: list[str] = []
        cursor = ""
        while True:
            asked = api.ListJobsRequest(limit=2, sort="submitted", cursor=cursor, phase=["PENDING", "RUNNING"])
            page = await client.jobs.ListJobs(asked, metadata=client.metadata())
            found += [job.id for job in page.jobs]
            assert len(page.jobs) <= 2
            if not (cursor := page.cursor):
                break
        assert found == made
        bad = await refused(client.jobs.ListJobs(api.ListJobsRequest(cursor="nonsense"), metadata=client.metadata()))
        assert (bad.code(), reason(bad)) == (Code.INVALID_ARGUMENT, "bad-cursor")


async def test_it_gives_what_the_http_api_gives(world: RpcWorld) -> None:
    token = await world.api.token()
    async with world.client_with(token) as client, world.api.client_with(token) as http:
        made = await client.submit("true")
        by_rpc = await client.jobs.GetJob(client.made.api.GetJobRequest(id=made.id), metadata=client.metadata())
        by_http = (await http.get(f"/v1/jobs/{made.id}")).json()
        shown = json_format.MessageToDict(by_rpc)
        for name in ("id", "phase", "tenant", "name", "submittedAt", "submittedBy"):
            assert shown["state"][name] == by_http["state"][name]
        assert shown["spec"]["command"] == by_http["spec"]["command"]
        assert shown["waiting"]["code"] == by_http["waiting"]["code"]


async def test_refusals_have_the_status_of_their_kind_and_say_what_to_do(world: RpcWorld) -> None:
    async with world.client() as client, world.client("viewer") as viewer, world.client(tenant="beta") as other:
        api = client.made.api
        made = await client.submit("true", request_id="r")
        conflict = await refused(client.submit("false", request_id="r"))
        assert (conflict.code(), reason(conflict)) == (Code.ALREADY_EXISTS, "request-conflict")
        assert "Use a new request id" in (conflict.details() or "")

        empty = await refused(client.jobs.SubmitJob(api.SubmitJobRequest(), metadata=client.metadata()))
        assert (empty.code(), reason(empty)) == (Code.INVALID_ARGUMENT, "invalid")
        small = api.JobSpec(command=["x"], resources=api.Resources(cpu_milli=-4))
        wrong = await refused(client.jobs.SubmitJob(api.SubmitJobRequest(spec=small), metadata=client.metadata()))
        assert "$.spec.resources.cpuMilli" in (wrong.details() or "")

        role = await refused(viewer.submit("true"))
        assert (role.code(), reason(role)) == (Code.PERMISSION_DENIED, "forbidden")
        for id_ in (MISSING, made.id, "../nodes", "x/cancel", "", "%2e%2e", "a" * 4000):
            gone = await refused(other.jobs.GetJob(api.GetJobRequest(id=id_), metadata=other.metadata()))
            assert (gone.code(), reason(gone)) == (Code.NOT_FOUND, "not-found"), id_
        await client.jobs.CancelJob(api.CancelJobRequest(id=made.id), metadata=client.metadata())
        late = await refused(client.jobs.HoldJob(api.HoldJobRequest(id=made.id), metadata=client.metadata()))
        assert (late.code(), reason(late)) == (Code.FAILED_PRECONDITION, "job-finished")


async def test_the_request_id_may_come_as_metadata_as_in_http(world: RpcWorld) -> None:
    async with world.client() as client:
        keyed = client.metadata(idempotency_key="k-1")
        first = await client.jobs.SubmitJob(client.job("true"), metadata=keyed)
        again = await client.jobs.SubmitJob(client.job("true"), metadata=keyed)
        assert (first.id, True) == (again.id, again.replayed)
        both = await refused(client.jobs.SubmitJob(client.job("true", request_id="k-2"), metadata=keyed))
        assert reason(both) == "request-id-mismatch"


async def test_events_are_followed_and_resumed_after_the_last_cursor(world: RpcWorld) -> None:
    async with world.client() as client:
        api = client.made.api
        stream = client.events.StreamEvents(api.StreamEventsRequest(), metadata=client.metadata())
        await stream.initial_metadata()
        made = await client.submit("true")
        first = await stream.read()
        assert (first.event.job, first.event.kind) == (made.id, "submitted")
        stream.cancel()
        await client.jobs.CancelJob(api.CancelJobRequest(id=made.id), metadata=client.metadata())
        resumed = client.events.StreamEvents(api.StreamEventsRequest(cursor=first.cursor), metadata=client.metadata())
        second = await resumed.read()
        assert (second.event.job, second.event.kind) == (made.id, "cancelled")
        resumed.cancel()
        bad = client.events.StreamEvents(api.StreamEventsRequest(cursor="x"), metadata=client.metadata())
        error = await refused(bad.read())
        assert (error.code(), reason(error)) == (Code.INVALID_ARGUMENT, "bad-cursor")


async def test_output_is_followed_and_resumed_at_a_byte(world: RpcWorld) -> None:
    async with world.client() as client:
        api = client.made.api
        made = await client.submit("true")
        state = await world.api.start_job(made.id)
        world.api.logs.append("acme", made.id, 1, 0, 0, b"first\nsecond\n")

        def ask(**fields: Any) -> Any:
            return client.logs.StreamJobLogs(api.StreamJobLogsRequest(id=made.id, **fields), metadata=client.metadata())

        whole = [piece async for piece in ask()]
        assert b"".join(piece.data for piece in whole) == b"first\nsecond\n"
        assert whole[-1].next == 13
        following = ask(follow=True, offset=6)
        assert (await following.read()).data == b"second\n"
        world.api.logs.append("acme", made.id, 1, 0, 13, b"third\n")
        assert (await following.read()).data == b"third\n"
        await world.api.finish_job(state)
        found = await client.logs.SearchJobLogs(
            api.SearchJobLogsRequest(id=made.id, text="sec"), metadata=client.metadata()
        )
        assert [line.text for line in found.lines] == ["second"]
        following.cancel()


async def test_nodes_and_clusters_are_listed(world: RpcWorld) -> None:
    async with world.client() as client:
        api = client.made.api
        nodes = await client.nodes.ListNodes(api.ListNodesRequest(), metadata=client.metadata())
        assert list(nodes.nodes) == []
        clusters = await client.nodes.ListClusters(api.ListClustersRequest(), metadata=client.metadata())
        (only,) = clusters.clusters
        one = await client.nodes.GetCluster(api.GetClusterRequest(cluster=only.id), metadata=client.metadata())
        assert one.id == only.id
        gone = await refused(client.nodes.GetNode(api.GetNodeRequest(name="n9"), metadata=client.metadata()))
        assert gone.code() == Code.NOT_FOUND
        assert "ares nodes" in (gone.details() or "")


async def test_clusters_of_a_federation_are_listed_and_drained_by_those_who_may(world: RpcWorld) -> None:
    hello = ClusterHello(name="east", incarnation=1, store_epoch=1, wall=time.time(), region="eu")
    async with world.client() as client:
        api, call = client.made.api, client.metadata()
        assert list((await client.federation.ListMembers(api.ListMembersRequest(), metadata=call)).clusters) == []
        await world.api.services.federation.clusters.admit(hello)
        (east,) = (await client.federation.ListMembers(api.ListMembersRequest(), metadata=call)).clusters
        assert (east.name, east.region, east.state) == ("east", "eu", "ACTIVE")
        drain = api.DrainMemberRequest(cluster="east", reason="new switches")
        assert (await refused(client.federation.DrainMember(drain, metadata=call))).code() == Code.PERMISSION_DENIED
        gone = await refused(client.federation.GetMember(api.GetMemberRequest(cluster="west"), metadata=call))
        assert gone.code() == Code.NOT_FOUND
    async with world.client("admin") as admin:
        drained = await admin.federation.DrainMember(drain, metadata=admin.metadata())
        assert (drained.state, drained.note) == ("DRAINING", "new switches")


async def test_a_revoked_credential_ends_its_stream(world: RpcWorld) -> None:
    token = await world.api.token(ttl_s=1.0)
    async with world.client_with(token) as client:
        stream = client.events.StreamEvents(client.made.api.StreamEventsRequest(), metadata=client.metadata())
        await stream.initial_metadata()
        error = await refused(stream.read())
        assert error.code() == Code.UNAUTHENTICATED


async def test_a_deadline_ends_the_call_and_a_change_is_made_once(world: RpcWorld) -> None:
    async with world.client() as client:
        api = client.made.api
        stream = client.events.StreamEvents(api.StreamEventsRequest(), metadata=client.metadata(), timeout=0.3)
        error = await refused(stream.read())
        assert error.code() == Code.DEADLINE_EXCEEDED
        # The stream is not counted any more.
        await world.without_streams()
        # Too short for any answer: what was asked is done once, whatever the caller learnt of it.
        with contextlib.suppress(grpc.aio.AioRpcError):
            await client.jobs.SubmitJob(client.job("true", request_id="d"), metadata=client.metadata(), timeout=0.001)
        made = await client.submit("true", request_id="d")
        page = await client.jobs.ListJobs(api.ListJobsRequest(), metadata=client.metadata())
        assert [job.id for job in page.jobs] == [made.id]


async def test_health_needs_no_credential(world: RpcWorld) -> None:
    async with world.client_with(None) as client:
        made = client.made.health
        unknown = await refused(client.health.Check(made.HealthCheckRequest(service="ares.v1.Nothing")))
        assert unknown.code() == Code.NOT_FOUND
        # No leader in this world: it says so, as /readyz does.
        async with world.api.client_with(None) as http:
            ready = (await http.get("/readyz")).status_code == 200
        answer = await client.health.Check(made.HealthCheckRequest(service="ares.v1.JobService"))
        assert answer.status == (1 if ready else 2)
        watch = client.health.Watch(made.HealthCheckRequest())
        assert (await watch.read()).status == answer.status
        watch.cancel()


async def test_reflection_gives_every_file_that_the_service_needs(world: RpcWorld) -> None:
    async with world.client_with(None) as client:
        for package in ("grpc.reflection.v1", "grpc.reflection.v1alpha"):
            asked: Any = message_class(f"{package}.ServerReflectionRequest")
            answer: Any = message_class(f"{package}.ServerReflectionResponse")
            call = client.channel.stream_stream(
                f"/{package}.ServerReflection/ServerReflectionInfo",
                request_serializer=asked.SerializeToString,
                response_deserializer=answer.FromString,
            )()
            await call.write(asked(list_services=""))
            names = [service.name for service in (await call.read()).list_services_response.service]
            assert {f"ares.v1.{name}" for name in SERVICES} <= set(names)
            await call.write(asked(file_containing_symbol="ares.v1.JobService"))
            files = (await call.read()).file_descriptor_response.file_descriptor_proto
            assert len(files) == 2
            await call.write(asked(file_by_filename="etc/passwd"))
            assert (await call.read()).error_response.error_code == 5
            await call.done_writing()
            assert await call.code() == Code.OK


def test_every_method_is_an_operation_with_all_of_its_fields() -> None:
    known = {operation.id: operation for operation in (*OPERATIONS, *SOCKETS)}
    for operations in SERVICES.values():
        for name in operations:
            operation = known[name]
            message = message_class(f"ares.v1.{name[0].upper()}{name[1:]}Request").DESCRIPTOR
            fields = {field.json_name for field in message.fields}
            assert {f.encode_name for f in msgspec.structs.fields(operation.query)} <= fields


async def test_a_field_that_the_server_does_not_know_is_refused(world: RpcWorld) -> None:
    """A newer client is told, rather than given a job without what it asked for."""
    async with world.client() as client:
        known = client.job("true").SerializeToString()
        call = client.channel.unary_unary("/ares.v1.JobService/SubmitJob")
        error = await refused(call(known + b"\xfa\x3f\x01x", metadata=client.metadata()))
        assert (error.code(), reason(error)) == (Code.INVALID_ARGUMENT, "invalid")
        assert "1023" in (error.details() or "")


async def test_what_a_body_says_is_not_looked_at_before_its_caller_is_let_in(
    world: RpcWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    look = messages._refuse_unknown  # pyright: ignore[reportPrivateUsage]

    def watched(message: Any, path: str, *more: Any) -> Any:
        looked.append(path)
        return look(message, path, *more)

    monkeypatch.setattr(messages, "_refuse_unknown", watched)
    async with world.client() as client:
        job = client.job("true")
        assert (await refused(client.jobs.SubmitJob(job))).code() == Code.UNAUTHENTICATED
        assert looked == []
        await client.jobs.SubmitJob(job, metadata=client.metadata())
        assert "$.spec" in looked


async def test_it_has_the_certificate_of_the_http_api(tmp_path: Path) -> None:
    files = on_loopback(tmp_path / "pki")
    settings = RpcSettings("", 0, tls_cert=files.cert, tls_key=files.key)
    async with open_rpc(tmp_path, settings=settings) as world:
        trusted = grpc.ssl_channel_credentials(files.ca.read_bytes())
        async with grpc.aio.secure_channel(world.address, trusted) as channel:
            client = RpcClient(world.address, await world.api.token(), channel)
            assert (await client.submit("true")).id
        # In the clear there is no answer, also not with a good credential.
        async with world.client() as plain:
            error = await refused(plain.submit("true"))
            assert error.code() == Code.UNAVAILABLE


async def test_a_stopping_server_says_so_to_its_streams(tmp_path: Path) -> None:
    async with open_rpc(tmp_path) as world, world.client() as client:
        stream = client.events.StreamEvents(client.made.api.StreamEventsRequest(), metadata=client.metadata())
        await stream.initial_metadata()
        stopping = asyncio.create_task(world.api.server.stop())
        error = await refused(stream.read())
        assert (error.code(), reason(error)) == (Code.UNAVAILABLE, "not-ready")
        await stopping
