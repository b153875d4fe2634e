"""Catalogues of prices in files and behind addresses."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ares.adapters.machines.prices import CatalogueFile, flaw
from ares.app.config import Config, ConfigError
from ares.app.providers import prices_of
from ares.app.sections import AutoscaleConfig


@contextmanager
def served(status: int, body: bytes, **headers: str) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/prices.json"
    finally:
        server.shutdown()
        server.server_close()


async def test_a_file_and_an_address(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_bytes(b"{}")
    assert await CatalogueFile(str(file)).read() == b"{}"
    with served(200, b"{}") as address:
        assert await CatalogueFile(address).read() == b"{}"


async def test_what_is_too_long_missing_or_elsewhere_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    with pytest.raises(OSError, match="No such file"):
        await CatalogueFile(str(file)).read()
    file.write_bytes(b" " * (4 * 1024 * 1024 + 1))
    with pytest.raises(OSError, match="more than 4 MiB"):
        await CatalogueFile(str(file)).read()
    with served(302, b"", location="http://127.0.0.1:1/other") as address, pytest.raises(OSError, match="302"):
        await CatalogueFile(address).read()


def test_an_address_that_others_can_write_is_refused_at_the_start(tmp_path: Path) -> None:
    assert flaw("https://prices.example.org/a.json") == flaw("/etc/prices.json") == flaw("http://127.0.0.1/a") == ""
    with pytest.raises(ConfigError, match=r"autoscale\.catalogue: http://prices\.example\.org/a\.json is not https"):
        prices_of(Config(home=str(tmp_path), autoscale=AutoscaleConfig(catalogue="http://prices.example.org/a.json")))
