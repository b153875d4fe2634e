"""Live events and output over real sockets: nothing missed or doubled across a server's death; a revoked token ends
them."""

import json
import sys
from collections.abc import Iterator

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from ares.edge.client.errors import Unauthorized
from ares.edge.client.retry import Retry
from ares.edge.client.sync import Client
from ares.model.state import LedgerEvent
from tests.platform import Platform, eventually

ONCE = Retry(attempts=1)
LIFE = ["submitted", "bound", "started", "succeeded"]


@pytest.fixture
def running(platform: Platform) -> Platform:
    platform.server()
    platform.agent("node-a")
    return platform


def run_job(client: Client) -> str:
    job = client.submit(command=["true"])
    assert client.wait(job, timeout=30).state.phase == "SUCCEEDED"
    return job.id


def check_told(client: Client, told: list[tuple[str, int, str]], jobs: list[str]) -> None:
    """Each event of each job once, in order."""
    for job in jobs:
        seen = [(seq, kind) for name, seq, kind in told if name == job]
        assert seen == [(event.seq, event.kind) for event in client.job_events(job)]
        # A quick job's start may be reported together with its end.
        assert [kind for _, kind in seen] == LIFE
    assert {name for name, _, _ in told} == set(jobs)


def of(event: LedgerEvent) -> tuple[str, int, str]:
    return event.job, event.seq, event.kind


def read_until(events: Iterator[tuple[str, int, str]], job: str) -> list[tuple[str, int, str]]:
    told: list[tuple[str, int, str]] = []
    for event in events:
        told.append(event)
        if event[0] == job and event[2] == "succeeded":
            return told
    raise AssertionError("the stream ended")


def test_sse_goes_on_where_it_was_after_the_server_died(running: Platform) -> None:
    client = running.client()
    stream = running.client().events(cursor="0")
    events = (of(item.event) for item in stream)
    first = run_job(client)
    told = read_until(events, first)
    running.servers[0].kill()
    running.server()
    # Happens while the stream is not connected, or just after: it may not matter.
    second = run_job(client)
    told += read_until(events, second)
    check_told(client, told, [first, second])


# 8 MB by pieces, each more than a session carries: they go by the stream beside it.
_LOUD = """
import sys, time
for number in range(80):
    sys.stdout.write((f"{number:07d}" * 15000)[:99_999] + "\\n")
    sys.stdout.flush()
    time.sleep(0.02)
"""


def test_a_loud_log_is_whole_after_the_server_died(running: Platform) -> None:
    client = running.client()
    job = client.submit(command=[sys.executable, "-c", _LOUD]).id
    came = bytearray()
    for piece in client.logs(job, follow=True):
        came += piece
        if len(came) > 1_000_000:
            break
    running.servers[0].kill()
    running.server()
    assert client.wait(job, timeout=60).state.phase == "SUCCEEDED"
    wrote = "".join(f"{number:07d}" * 14285 + f"{number:07d}"[:4] + "\n" for number in range(80)).encode()
    assert b"".join(client.logs(job)) == wrote
    assert bytes(came) == wrote[: len(came)]


def test_websocket_resumes_after_its_cursor(running: Platform) -> None:
    client = running.client()
    first, second = run_job(client), run_job(client)
    told, cursor = list[tuple[str, int, str]](), ""
    with socket(running, "0") as ws:
        # Broken off in the middle of the second job's life.
        while len(told) < 6:
            cursor = hear(ws, told)
        running.servers[0].kill()
        cursor = hear_out(ws, told) or cursor
    running.server()
    third = run_job(client)
    with socket(running, cursor) as ws:
        while told[-1] != (third, 4, "succeeded"):
            hear(ws, told)
    check_told(client, told, [first, second, third])


def socket(platform: Platform, cursor: str, token: str = "") -> ClientConnection:
    url = f"ws://{platform.servers[0].http}/v1/events?cursor={cursor}"
    bearer = token or platform.servers[0].token()
    return connect(url, additional_headers={"authorization": f"Bearer {bearer}"}, proxy=None)


def hear(ws: ClientConnection, told: list[tuple[str, int, str]]) -> str:
    message = json.loads(ws.recv(timeout=30))
    told.append((message["event"]["job"], message["event"]["seq"], message["event"]["kind"]))
    return message["cursor"]


def hear_out(ws: ClientConnection, told: list[tuple[str, int, str]]) -> str:
    """Everything until the other side closes; the last cursor."""
    cursor = ""
    try:
        while True:
            cursor = hear(ws, told)
    except ConnectionClosed:
        return cursor


def test_revoked_token_ends_requests_and_open_streams(shared: Platform) -> None:
    admin = shared.client()
    made = admin.create_token(role="viewer", name="soon revoked")
    viewer = shared.client(token=made.token, retry=ONCE)
    assert viewer.whoami().role == "viewer"
    job = admin.submit(command=["sleep", "600"])
    eventually(lambda: admin.get(job).state.phase == "RUNNING", "the start of the job")
    events, output = viewer.events(cursor="0"), viewer.logs(job, follow=True)
    assert next(events).event.kind == "submitted"
    with socket(shared, "0", made.token) as ws:
        hear(ws, [])
        admin.revoke_token(made.record.id)

        def refused() -> bool:
            try:
                viewer.whoami()
            except Unauthorized:
                return True
            return False

        eventually(refused, "the end of the token", timeout_s=10)
        hear_out(ws, [])
        assert ws.close_code == 4401
    with pytest.raises(Unauthorized):
        list(events)
    with pytest.raises(Unauthorized):
        list(output)
    admin.cancel(job)


def test_other_tenants_see_nothing(shared: Platform) -> None:
    admin = shared.client()
    job = run_job(admin)
    admin.create_tenant("other")
    stranger = shared.client(token=admin.create_token(role="submitter", tenant="other", name="stranger").token)
    assert list(stranger.list()) == []
    answers = [_answer(stranger, path) for path in (f"/v1/jobs/{job}", "/v1/jobs/0000000000000000")]
    assert answers[0] == answers[1]
    assert answers[0][0] == 404
    own = run_job(stranger)
    assert [state.id for state in stranger.list()] == [own]
    ours = shared.client(token=admin.create_token(role="submitter", name="ours").token)
    assert _answer(ours, f"/v1/jobs/{own}") == answers[1]


def _answer(client: Client, path: str) -> tuple[int, bytes]:
    headers = {"authorization": f"Bearer {client.endpoint.token}"}
    answer = httpx2.get(client.endpoint.url + path, headers=headers, trust_env=False)
    return answer.status_code, answer.content
