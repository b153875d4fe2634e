"""The registry client: where it connects, what it takes, and what it makes of answers. The registry is a server in this
process that answers as the test wants; a real one: tests/e2e/test_images.py."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ares.adapters.registry import HttpRegistry
from ares.core.image.layout import DOCUMENT_BYTES_MAX
from ares.model.secret import RegistryAccount
from ares.ports.link import RegistryBarred, RegistryRefused, RegistryUnreachable

Answer = tuple[int, dict[str, str], bytes]


class Served:
    """One server, and what it was asked."""

    def __init__(self) -> None:
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.asked.append((self.path, dict(self.headers)))
                status, headers, body = served.answer(self.path, dict(self.headers))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                return

        self.asked = list[tuple[str, dict[str, str]]]()
        self.answer: Callable[[str, dict[str, str]], Answer] = lambda path, headers: (200, {}, b"{}")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.close()


def save(registry: HttpRegistry, host: str, size: int, path: Path) -> None:
    registry.save(host, "app", "sha256:1", size, path, lambda _: True)


def test_a_registry_within_is_asked_only_if_the_operator_names_it(served: Served) -> None:
    with pytest.raises(RegistryBarred, match="not an address of the open internet"):
        HttpRegistry(("*",)).manifest(served.host, "app", "1")
    with pytest.raises(RegistryBarred, match="asks only these registries: other"):
        HttpRegistry(("other",)).manifest(served.host, "app", "1")
    with pytest.raises(RegistryBarred, match="not an address of the open internet"):
        HttpRegistry(("*",)).manifest("localhost:1", "app", "1")
    assert served.asked == []
    assert HttpRegistry((f"http://{served.host}",)).manifest(served.host, "app", "1") == b"{}"
    assert "oci.image.index" in served.asked[0][1]["Accept"]


@pytest.mark.parametrize(
    "place", ["http://169.254.169.254/latest", "http://127.0.0.1:1/x", "file:///etc/passwd", "gopher://x"]
)
def test_it_is_not_sent_elsewhere_within(served: Served, place: str, tmp_path: Path) -> None:
    served.answer = lambda path, headers: (307, {"Location": place}, b"")
    with pytest.raises((RegistryBarred, RegistryRefused)):
        save(HttpRegistry((f"http://{served.host}",)), served.host, 10, tmp_path / "blob")


def test_redirects_end(served: Served) -> None:
    served.answer = lambda path, headers: (302, {"Location": f"{path}x"}, b"")
    with pytest.raises(RegistryRefused, match="from one address to the next"):
        HttpRegistry((f"http://{served.host}",)).manifest(served.host, "app", "1")


def test_a_reader_without_an_account_gets_a_token_and_loses_it_elsewhere(served: Served, tmp_path: Path) -> None:
    other = Served()
    other.answer = lambda path, headers: (200, {}, b"blob")
    challenge = f'Bearer realm="http://{served.host}/token",service="r"'

    def answer(path: str, headers: dict[str, str]) -> Answer:
        if path.startswith("/token?"):
            return 200, {}, json.dumps({"token": "secret"}).encode()
        if headers.get("Authorization") != "Bearer secret":
            return 401, {"WWW-Authenticate": challenge}, b""
        return 307, {"Location": f"http://{other.host}/store"}, b""

    served.answer = answer
    try:
        save(HttpRegistry((f"http://{served.host}", f"http://{other.host}")), served.host, 4, tmp_path / "blob")
    finally:
        other.close()
    assert (tmp_path / "blob").read_bytes() == b"blob"
    assert any("scope=repository%3Aapp%3Apull" in path for path, _ in served.asked)
    assert "Authorization" not in other.asked[0][1]


ANN = RegistryAccount("ann", "word-7301")


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
def test_an_account_is_shown_to_its_registry_when_it_asks_and_to_no_other(
    served: Served, tmp_path: Path, scheme: str
) -> None:
    other = Served()
    other.answer = lambda path, headers: (200, {}, b"blob")
    challenge = f'{scheme} realm="http://{served.host}/token",service="r"'
    wanted = {"Basic": ANN.basic, "Bearer": "Bearer t"}[scheme]

    def answer(path: str, headers: dict[str, str]) -> Answer:
        if path.startswith("/token?"):
            known = headers.get("Authorization") == ANN.basic
            return (200, {}, json.dumps({"access_token": "t"}).encode()) if known else (401, {}, b"")
        if headers.get("Authorization") != wanted:
            return 401, {"WWW-Authenticate": challenge}, b""
        return 307, {"Location": f"http://{other.host}/store"}, b""

    served.answer = answer
    plain = HttpRegistry((f"http://{served.host}", f"http://{other.host}"))
    try:
        save(plain.signed_in(ANN), served.host, 4, tmp_path / "blob")
        assert (tmp_path / "blob").read_bytes() == b"blob"
        assert "Authorization" not in served.asked[0][1]
        assert "Authorization" not in other.asked[0][1]
        # A reader who was signed in leaves nothing behind for the next.
        with pytest.raises(RegistryRefused, match=f"--secret NAME:registry={served.host}"):
            save(plain, served.host, 4, tmp_path / "again")
        with pytest.raises(RegistryRefused, match="does not take the account") as refused:
            save(plain.signed_in(RegistryAccount("ann", "old-7301")), served.host, 4, tmp_path / "old")
        assert "7301" not in str(refused.value)
    finally:
        other.close()


def test_a_way_to_sign_in_that_is_not_known_is_told(served: Served) -> None:
    served.answer = lambda path, headers: (401, {"WWW-Authenticate": "Negotiate"}, b"")
    with pytest.raises(RegistryRefused, match="asks for 'negotiate'"):
        HttpRegistry((f"http://{served.host}",)).signed_in(ANN).manifest(served.host, "app", "1")


@pytest.mark.parametrize(
    ("status", "kind", "why"),
    [(404, RegistryRefused, "no such image"), (503, RegistryUnreachable, "503"), (418, RegistryRefused, "refuses")],
)
def test_answers_are_told(served: Served, status: int, kind: type[Exception], why: str) -> None:
    served.answer = lambda path, headers: (status, {}, b"")
    with pytest.raises(kind, match=why):
        HttpRegistry((f"http://{served.host}",)).manifest(served.host, "app", "1")


def test_no_more_is_taken_than_was_said(served: Served, tmp_path: Path) -> None:
    registry = HttpRegistry((f"http://{served.host}",))
    served.answer = lambda path, headers: (200, {}, b"x" * (DOCUMENT_BYTES_MAX + 1))
    with pytest.raises(RegistryRefused, match="more than"):
        registry.manifest(served.host, "app", "1")
    with pytest.raises(RegistryRefused, match="more than the 9 bytes"):
        save(registry, served.host, 9, tmp_path / "large")
    served.answer = lambda path, headers: (200, {}, b"xx")
    with pytest.raises(RegistryUnreachable, match="7 bytes too soon"):
        save(registry, served.host, 9, tmp_path / "short")
    with pytest.raises(RegistryUnreachable, match="told to end"):
        registry.save(served.host, "app", "sha256:1", 2, tmp_path / "unwanted", lambda _: False)


def test_one_that_is_away_is_unreachable(served: Served) -> None:
    host = served.host
    served.close()
    with pytest.raises(RegistryUnreachable, match="does not answer"):
        HttpRegistry((f"http://{host}",)).manifest(host, "app", "1")
    served.close = lambda: None
