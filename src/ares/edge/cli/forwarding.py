"""Ports of a running job on this machine: a session for each connection."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ares.edge.cli.render.text import printable
from ares.edge.cli.session import async_client

if TYPE_CHECKING:
    from ares.edge.client.aio import AsyncClient

_READ_BYTES = 32 * 1024


async def forwarded(ctx: click.Context, job_id: str, ports: Sequence[tuple[int, int]], rank: int) -> None:
    async with async_client(ctx) as client, contextlib.AsyncExitStack() as open_:
        # The job is there and may be entered, before anything listens.
        await client.sessions(job_id)
        for local, remote in ports:
            server, bound = await listening(client, job_id, local, remote, rank)
            await open_.enter_async_context(server)
            click.echo(f"forwarding 127.0.0.1:{bound} to port {remote} of {job_id}")
        await asyncio.Event().wait()


async def listening(
    client: "AsyncClient", job_id: str, local: int, remote: int, rank: int = 0
) -> tuple[asyncio.Server, int]:
    """The server for connections on this machine, and its port."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from ares.edge.client.errors import AresError

        try:
            await _carry(client, job_id, (remote, rank), reader, writer)
        except AresError as error:
            click.echo(f"error: port {remote}: {printable(str(error))}", err=True)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(carry, "127.0.0.1", local)
    return server, server.sockets[0].getsockname()[1]


async def _carry(
    client: "AsyncClient",
    job_id: str,
    at: tuple[int, int],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """One connection: a session of its own."""
    from ares.edge.client.job_session import attached
    from ares.model.entry.job_session import SessionSpec

    remote, rank = at
    session = await client.open_session(job_id, SessionSpec(kind="forward", port=remote, rank=rank))

    async def give(_: str, data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    link = attached(client, job_id, session, give)

    async def send() -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(_READ_BYTES):
                await link.write(data)
        await link.end_input()

    sending = asyncio.create_task(send())
    try:
        await link.run()
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
