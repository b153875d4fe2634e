"""What must not work of sessions in jobs, tried against real processes: other tenants, floods, frames without end."""

import asyncio
import contextlib
import os
import secrets
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ares.edge.client.calls import job_sessions as calls
from ares.edge.client.errors import ApiError, Conflict, Forbidden, NotFound
from ares.edge.client.sync import Client
from ares.model.job_session import SESSIONS_PER_ATTEMPT_MAX, WINDOW_BYTES, SessionSpec, SessionView
from tests.e2e.test_sessions import running
from tests.platform import Platform, eventually


def opened(client: Client, job: str, *command: str, **more: Any) -> SessionView:
    spec = SessionSpec(command=command, **more)
    return client.send(calls.open_session(job, spec, secrets.token_hex(16)))


def socket_of(platform: Platform, job: str, session: str, token: str = "") -> Any:
    url = platform.servers[0].url.replace("http", "ws") + f"/v1/jobs/{job}/sessions/{session}"
    headers = {"authorization": f"Bearer {token or platform.admin_token}"}
    return connect(url, additional_headers=headers, proxy=None, max_size=None)


async def ending(link: ClientConnection) -> int | None:
    with contextlib.suppress(ConnectionClosed):
        async with asyncio.timeout(30):
            while True:
                await link.recv()
    return link.close_code


@pytest.fixture(scope="module")
def job(shared: Platform) -> str:
    return running(shared)


def test_others_do_not_enter(shared: Platform, job: str) -> None:
    admin = shared.client()
    admin.create_tenant("foreign")
    foreign = Client(admin.endpoint.url, admin.create_token(role="tenant-admin", tenant="foreign").token)
    submitter = Client(admin.endpoint.url, admin.create_token(role="submitter").token)
    viewer = Client(admin.endpoint.url, admin.create_token(role="viewer").token)
    session = opened(admin, job, "sleep", "600")
    missing = "0" * 16
    with foreign, submitter, viewer:
        for attempt in (job, missing):
            with pytest.raises(NotFound) as refused:
                opened(foreign, attempt, "true")
            assert attempt in str(refused.value)
            with pytest.raises(NotFound):
                foreign.sessions(attempt)
            with pytest.raises(NotFound):
                foreign.end_session(attempt, session)
            with pytest.raises(NotFound):
                foreign.use(attempt)
        # A colleague's job is known, and not to be entered.
        with pytest.raises(Forbidden):
            opened(submitter, job, "true")
        with pytest.raises(Forbidden):
            opened(viewer, job, "true")
        assert foreign.use().ranks == ()
        for client in (foreign, submitter, viewer):
            assert asyncio.run(_refused(shared, job, session.id, client.endpoint.token)) in (403, 404)
    admin.end_session(job, session)


async def _refused(platform: Platform, job: str, session: str, token: str) -> int:
    """The status that a client is refused with that wants to attach."""
    try:
        async with socket_of(platform, job, session, token):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def test_session_that_is_not_there_is_not_found(shared: Platform, job: str) -> None:
    assert asyncio.run(_refused(shared, job, "f" * 32, shared.admin_token)) == 404


def test_asking_twice_opens_one(shared: Platform, job: str) -> None:
    client, name = shared.client(), secrets.token_hex(16)
    spec = SessionSpec(command=("sleep", "611"))
    first = client.send(calls.open_session(job, spec, name))
    second = client.send(calls.open_session(job, spec, name))
    assert first.id == second.id
    assert len([view for view in client.sessions(job) if view.command == spec.command]) == 1
    client.end_session(job, first)


def test_flood_of_sessions_is_bounded_and_leaves_nothing(shared: Platform) -> None:
    flooded = running(shared)
    client = shared.client()
    before = set(shared.job_processes())
    for _ in range(SESSIONS_PER_ATTEMPT_MAX):
        opened(client, flooded, "sleep", "612")
    with pytest.raises(Conflict) as refused:
        opened(client, flooded, "sleep", "612")
    assert f"{SESSIONS_PER_ATTEMPT_MAX} sessions" in str(refused.value)
    assert len(client.sessions(flooded)) == SESSIONS_PER_ATTEMPT_MAX
    client.cancel(flooded)
    eventually(lambda: not set(shared.job_processes()) - before, "the end of every session")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"command": []}, "command"),
        ({"kind": "forward"}, "port"),
        ({"kind": "forward", "port": 70_000}, "port"),
        ({"kind": "copy-in"}, "path"),
        ({"kind": "forward", "port": 80, "tty": True}, "terminal"),
        ({"command": ["x"] * 2000}, "command"),
        ({"command": ["a\0b"]}, "command"),
        ({"command": ["true"], "term": "x\n"}, "term"),
        ({"command": ["true"], "rows": 0}, "rows"),
        ({"command": ["true"], "id": "../../x"}, "id"),
    ],
)
def test_bad_requests_are_refused_with_what_is_wrong(
    shared: Platform, job: str, spec: dict[str, Any], says: str
) -> None:
    body = msgspec.json.encode({"id": secrets.token_hex(16), **spec})
    request = calls.open_session(job, SessionSpec(command=("true",)), "0" * 16).request
    call: calls.Call[SessionView] = calls.Call(
        calls.Request("POST", request.path, (), body, request.headers), SessionView
    )
    with pytest.raises(ApiError) as refused:
        shared.client().send(call)
    assert refused.value.status == 422
    assert says in str(refused.value)


async def _closed_by(platform: Platform, job: str, session: str, *messages: bytes) -> int | None:
    """The code that a connection with these messages is closed with."""
    async with socket_of(platform, job, session) as link:
        with contextlib.suppress(ConnectionClosed):
            for message in messages:
                await link.send(message)
        return await ending(link)


def test_frames_that_are_too_large_or_none_end_the_connection(shared: Platform, job: str) -> None:
    session = opened(shared.client(), job, "sleep", "613")
    encode = msgspec.msgpack.encode
    assert asyncio.run(_closed_by(shared, job, session.id, b"x" * 100_000)) == 1009
    large = encode({"type": "input", "offset": 0, "data": b"x" * 40_000})
    for bad in (b"\xc1", b"", encode({"type": "nothing"}), large):
        assert asyncio.run(_closed_by(shared, job, session.id, bad)) == 4400
    # Far more than the window, to a command that reads nothing.
    flood = [
        encode({"type": "input", "offset": number * 32_000, "data": b"x" * 32_000})
        for number in range(4 * WINDOW_BYTES // 32_000)
    ]
    assert asyncio.run(_closed_by(shared, job, session.id, *flood)) == 4409
    shared.client().end_session(job, session)


def test_client_that_never_reads_stops_the_command(shared: Platform, job: str) -> None:
    script = "n=0; while head -c 1024 /dev/zero; do n=$((n+1)); echo $n > .count.new; mv .count.new count; done"
    client = shared.client()
    session = opened(client, job, "sh", "-c", script)

    def count() -> int:
        return int(client.exec(job, ("sh", "-c", "cat count 2>/dev/null || echo 0")).stdout)

    async def stay() -> None:
        async with socket_of(shared, job, session.id) as link:
            # As a client that hangs: not even the library reads.
            link.transport.pause_reading()
            await asyncio.to_thread(eventually, lambda: count() >= WINDOW_BYTES // 1024, "output up to the window")
            for _ in range(3):
                assert await asyncio.to_thread(count) < 3 * WINDOW_BYTES // 1024

    asyncio.run(stay())
    client.end_session(job, session)


def test_session_of_an_attempt_that_moved_is_gone(platform: Platform) -> None:
    platform.server()
    agent = platform.agent("node-a")
    moved = running(platform)
    client = platform.client()
    session = opened(client, moved, "sleep", "614")
    before = client.get(moved).state.fence
    agent.kill()
    platform.agent("node-a")

    def runs_anew() -> bool:
        # One look: of two, the first may see the lost attempt still running, and the second the next one not yet.
        state = client.get(moved).state
        return state.phase == "RUNNING" and state.fence != before

    eventually(runs_anew, "a move")
    assert asyncio.run(_refused(platform, moved, session.id, platform.admin_token)) == 404
    assert client.sessions(moved) == ()
    assert client.exec(moved, ("echo", "new")).stdout == b"new\n"


def test_killed_slot_leaves_nothing_of_its_sessions(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    struck = running(platform)
    session = opened(platform.client(), struck, "sh", "-c", "trap '' HUP TERM; sleep 615 & sleep 616")
    assert session
    eventually(lambda: len(platform.job_processes()) >= 4, "the session")
    pids = platform.job_processes()
    main = next(pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00600\x00")
    slot = int(Path(f"/proc/{main}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(slot, signal.SIGKILL)
    eventually(lambda: not set(pids) & set(platform.job_processes()), "the end of every process")
