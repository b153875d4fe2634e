"""A registry that answers 503, by real sockets: its tenant waits, and goes on when the registry does."""

import asyncio
import contextlib
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ares.adapters.registry import HttpRegistry
from ares.agent.transfer.transfers import Transfers
from ares.core.transfer.breaker import REQUESTS_MIN
from ares.ports.link import RegistryRefused, RegistryUnreachable
from tests.clocks import ManualClock


@contextlib.contextmanager
def registry() -> Generator[tuple[str, list[int]]]:
    """A real HTTP server that answers as the last of a list says."""
    answers = [503]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answers[-1])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: object = "-", size: object = "-") -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_a_storm_of_503_pauses_one_tenant_and_ends_by_itself() -> None:
    clock = ManualClock()
    transfers = Transfers(clock)
    with registry() as (host, answers):
        images = HttpRegistry((f"http://{host}",))

        async def pull(tenant: str) -> None:
            async with transfers.turn(tenant, host, job=f"job-of-{tenant}", failures=(RegistryUnreachable,)):
                await asyncio.to_thread(images.manifest, host, "app", "latest")

        for _ in range(REQUESTS_MIN):
            with pytest.raises(RegistryUnreachable, match="503"):
                await pull("struck")
        waits = asyncio.create_task(pull("struck"))
        await clock.advance(4.0)
        assert transfers.paused() == {"job-of-struck": host}
        # An answer that says no is an answer; another tenant is not held up.
        answers.append(404)
        with pytest.raises(RegistryRefused):
            await pull("other")
        answers.append(200)
        await clock.advance(2.0)
        await waits
        assert [breaker.phase for breaker in transfers.breakers()] == ["ramping"]
        await clock.advance(10.0)
        assert transfers.breakers() == ()
