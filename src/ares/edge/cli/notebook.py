"""Jupyter in a running job, reachable on this machine."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import quote

import click

from ares.edge.cli.forwarding import listening
from ares.edge.cli.session import async_client

if TYPE_CHECKING:
    from ares.edge.client.aio import AsyncClient

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
