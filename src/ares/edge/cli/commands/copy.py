"""`ares cp`: files into a running job, and out of it."""

import os
import re

import click

from ares.edge.cli.connect import connect, find_job
from ares.edge.cli.options import rank_option

_REMOTE = re.compile(r"([0-9a-z_]{1,32}):(.*)", re.DOTALL)


@click.command()
@rank_option
@click.argument("source")
@click.argument("target")
@click.pass_context
def cp(ctx: click.Context, source: str, target: str, rank: int) -> None:
    """Copies files and directories into a running job, or out of it.

    \b
      ares cp JOB:results ./results
      ares cp model.pt JOB:
      ares cp data JOB:/tmp/data

    A path in the job is seen from its working directory. Each file appears under its name only when all of it is
    there and its SHA-256 is right. Links that lead out of a directory, devices and pipes are left out.
    """
    import asyncio

    from ares.edge.cli.session import FileCopy, async_client, local_name
    from ares.edge.client.job_session import attached
    from ares.model.job_session import SessionSpec

    outward, inward = _REMOTE.fullmatch(source), _REMOTE.fullmatch(target)
    if bool(outward) == bool(inward):
        raise click.UsageError("one of the two is a path in a job: ares cp JOB:PATH LOCAL, or the other way round", ctx)
    remote = outward or inward
    assert remote is not None, "one of them is"
    if inward and not os.path.exists(source):
        raise click.UsageError(f"{source}: no such file or directory", ctx)
    job_id = find_job(connect(ctx), remote[1])
    spec = SessionSpec(kind="copy-out" if outward else "copy-in", path=remote[2] or ".", rank=rank)

    async def copied() -> int:
        async with async_client(ctx) as client:
            session = await client.open_session(job_id, spec)
            copying = FileCopy(target if outward else "", local_name(remote[2]))
            link = attached(client, job_id, session, copying.take)
            return await copying.run(link, source if inward else "")

    ctx.exit(asyncio.run(copied()))
