"""A copy into or out of a running job, on this side."""

import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING

import click

from ares.archive import BadArchive, Unpacking, pack
from ares.edge.cli.session import LOST

if TYPE_CHECKING:
    from ares.edge.client.job_session import AttachedSession


class FileCopy:
    def __init__(self, target: str, name: str) -> None:
        self._unpacking = Unpacking(target, name) if target else None

    async def take(self, stream: str, data: bytes) -> None:
        if stream == "err":
            sys.stderr.buffer.write(data)
            sys.stderr.flush()
        elif self._unpacking is not None:
            self._unpacking.feed(data)

    async def run(self, link: "AttachedSession", source: str) -> int:
        sending = asyncio.create_task(_send(link, source))
        try:
            end = await link.run()
            code = LOST if end is None or end.code is None else end.code
            if code == 0 and self._unpacking is not None:
                self._unpacking.finish()
            if sending.done() and not sending.cancelled():
                sending.result()
            return code
        except BadArchive as error:
            raise click.ClickException(str(error)) from None
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, BadArchive, OSError):
                await sending
            if self._unpacking is not None:
                self._unpacking.close()


def local_name(remote: str) -> str:
    """What a copy of that path in a job is called in a directory here."""
    name = os.path.basename(remote.rstrip("/"))
    return "copy" if name in ("", ".", "..") else name


async def _send(link: "AttachedSession", source: str) -> None:
    if source:
        for data in pack(source, lambda path: click.echo(f"left out: {path}", err=True)):
            await link.write(data)
    await link.end_input()
