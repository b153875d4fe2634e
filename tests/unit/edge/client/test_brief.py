"""The client of commands: by a socket where that is enough, by the whole client otherwise."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.edge.client import brief
from ares.edge.client.brief import BriefClient, direct
from ares.edge.client.calls import calls
from ares.edge.client.errors import NotFound, Unreachable
from ares.edge.client.retry import Retry
from ares.edge.client.settings import Endpoint, Login
from tests.unit.edge.client.stub import JOB, Say, Stub

RETRY = Retry(attempts=2, base_s=0.001, cap_s=0.001)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    made = Stub()
    monkeypatch.setenv("ARES_TOKEN", "token")
    yield made
    made.close()


def client_of(stub: Stub, tenant: str | None = None, break_glass: str | None = None) -> BriefClient:
    return BriefClient(stub.url, retry=RETRY, tenant=tenant, break_glass=break_glass)


def page(stub: Stub, client: BriefClient) -> object:
    return client.send(calls.jobs({"limit": 5, "name": "a b&c"}).raw())


def test_request_says_all_that_the_whole_client_says(stub: Stub) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": [], "cursor": ""})
    client = client_of(stub, "acme", "Störung 7")
    assert page(stub, client) == {"jobs": [], "cursor": ""}
    client.whole.send(calls.jobs({"limit": 5, "name": "a b&c"}).raw())
    by_socket, whole = stub.asked
    assert by_socket.query == whole.query == {"limit": "5", "name": "a b&c"}
    for name in ("authorization", "x-ares-tenant", "x-ares-break-glass", "user-agent"):
        assert by_socket.headers[name] == whole.headers[name]
    client.close()


def test_body_is_sent_whole(stub: Stub) -> None:
    stub.on("POST", f"/v1/jobs/{JOB}/retry", {"id": JOB})
    client_of(stub).send(calls.retry(JOB, "again " * 20_000, "r1").raw())
    assert stub.asked[0].body == {"reason": "again " * 20_000}
    assert stub.asked[0].headers["idempotency-key"] == "r1"


def test_answer_in_pieces_is_joined(stub: Stub) -> None:
    stub.on("GET", "/v1/jobs", Say(pieces=[b'{"jobs": [],', b' "cursor": ""}']))
    assert page(stub, client_of(stub)) == {"jobs": [], "cursor": ""}


@pytest.mark.parametrize("cut", [Say({"jobs": []}, hang_up=True), Say(pieces=[b'{"jobs"'], break_off=True)])
def test_cut_answer_is_asked_for_again_and_then_an_error(stub: Stub, cut: Say) -> None:
    stub.on("GET", "/v1/jobs", cut, {"jobs": [], "cursor": ""})
    assert page(stub, client_of(stub)) == {"jobs": [], "cursor": ""}
    stub.on("GET", "/v1/jobs", cut)
    with pytest.raises(Unreachable):
        page(stub, client_of(stub))


@pytest.fixture
def rude() -> Iterator["RudePeer"]:
    with RudePeer() as made:
        yield made


class RudePeer:
    """Says to each connection what it was told to say, whatever was asked."""

    def __init__(self) -> None:
        self.says = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "RudePeer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listening.accept()
            except OSError:
                return
            with line, contextlib.suppress(OSError):
                line.recv(1 << 16)
                line.sendall(self.says)


@pytest.mark.parametrize(
    "says",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n" + b"x" * 2000,
    ],
)
def test_what_is_no_answer_is_an_error_of_the_connection(
    rude: RudePeer, monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    monkeypatch.setenv("ARES_TOKEN", "token")
    monkeypatch.setattr(brief, "ANSWER_BYTES_MAX", 1000)
    rude.says = says
    with pytest.raises(Unreachable):
        BriefClient(rude.url, retry=RETRY, tenant=None, break_glass=None).send(calls.jobs({}).raw())


def test_refusal_is_the_same_exception(stub: Stub) -> None:
    with pytest.raises(NotFound):
        client_of(stub).send(calls.job(JOB))


def endpoint(url: str, login: Login | None = None) -> Endpoint:
    return Endpoint((url,), "argument", "token", "argument", login=login)


def test_socket_is_for_plain_http_without_a_proxy_or_a_login() -> None:
    proxied = {"HTTP_PROXY": "http://proxy:1"}
    assert direct(endpoint("http://10.0.0.1:1"), {})
    assert direct(endpoint("http://127.0.0.1:1"), proxied)
    assert not direct(endpoint("http://10.0.0.1:1"), proxied)
    assert not direct(endpoint("https://127.0.0.1:1"), {})
    login = Login(path=Path("login.json"), token_url="http://i", client_id="c", send="id_token", refresh_token="r")
    assert not direct(endpoint("http://127.0.0.1:1", login), {})
