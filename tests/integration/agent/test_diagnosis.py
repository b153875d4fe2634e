"""Why an agent cannot reach its server, found out against real sockets."""

import asyncio

import pytest

from ares.adapters.links.diagnosis import diagnosis, of_certificate
from ares.adapters.links.grpc import GrpcLink
from ares.model.link import JoinRequest
from ares.ports.link import LinkBroken
from tests.ports import free_ports


async def test_nothing_listens() -> None:
    (port,) = free_ports(1)
    with pytest.raises(LinkBroken, match="connection refused"):
        await GrpcLink([f"127.0.0.1:{port}"]).connect("")
    with pytest.raises(LinkBroken, match="connection refused"):
        await GrpcLink([f"127.0.0.1:{port}"]).join(JoinRequest(token="t", node="n"))


async def test_the_name_is_not_known() -> None:
    assert "not known" in await diagnosis("no-such-host.invalid:1", None)


async def test_something_else_listens() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        assert "does not speak as a control plane" in await diagnosis(f"{host}:{port}", None)


def test_a_certificate_of_another_time_points_at_the_clock() -> None:
    assert "clock" in of_certificate("certificate is not yet valid")
    assert "clock" not in of_certificate("self-signed certificate in certificate chain")
