"""Ports of a running job on this machine, a session for each connection; and Jupyter behind one."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import quote

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
    from ares.model.job_session import SessionSpec

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


# ---- Jupyter in a running job


_LOOK_S = 0.5
_WORDS_CHARS_MAX = 2000


class JupyterServer(NamedTuple):
    port: int
    # What follows the port in its address.
    path: str


def server_in(line: str) -> JupyterServer | None:
    """The server that a line tells of, or None. The job wrote the line: its address must stay one of this machine."""
    try:
        told: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    fields = cast("dict[str, object]", told)
    port, base, token = fields.get("port"), fields.get("base_url", "/"), fields.get("token", "")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65_536:
        return None
    if not isinstance(base, str) or not isinstance(token, str) or not base.startswith("/"):
        return None
    if not base.isprintable() or len(base) + len(token) > _WORDS_CHARS_MAX:
        return None
    try:
        return JupyterServer(port, quote(base, safe="/%") + (f"?token={quote(token, safe='')}" if token else ""))
    except UnicodeEncodeError:
        return None


async def served(ctx: click.Context, job_id: str, port: int) -> None:
    async with async_client(ctx) as client:
        found = await _jupyter_server(client, job_id)
        server, bound = await listening(client, job_id, port, found.port)
        click.echo(f"http://127.0.0.1:{bound}{found.path}")
        sys.stdout.flush()
        async with server:
            await client.wait(job_id)
        click.echo("the job has ended", err=True)


async def _jupyter_server(client: "AsyncClient", job_id: str) -> JupyterServer:
    """What Jupyter in the job says of itself."""
    from ares.model.state import TERMINAL

    while True:
        detail = await client.get(job_id)
        if detail.state.phase in TERMINAL:
            raise click.ClickException(f"the job has ended before Jupyter was there; see: ares logs {job_id}")
        listed = await client.exec(job_id, ("jupyter", "server", "list", "--json"))
        for line in listed.stdout.decode(errors="replace").splitlines():
            if (server := server_in(line)) is not None:
                return server
        await asyncio.sleep(_LOOK_S)
