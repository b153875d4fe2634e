"""`ares exec` and `ares attach`: into a running job."""

import os
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect, find_job, job_argument
from ares.edge.cli.options import keys_option, rank_option

if TYPE_CHECKING:
    from ares.model.job_session import SessionExit, SessionView


@click.command("exec", context_settings={"allow_interspersed_args": False})
@click.option("--stdin", "-i", is_flag=True, help="Pass this command's input on.")
@click.option("--tty", "-t", is_flag=True, help="Give it a terminal.")
@rank_option
@keys_option
@job_argument()
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def exec(  # noqa: A001 - the name of the command
    ctx: click.Context, job: str, command: tuple[str, ...], stdin: bool, tty: bool, rank: int, keys: bytes
) -> None:
    """Runs a command inside a running job.

    \b
      ares exec JOB -- nvidia-smi
      ares exec -it JOB -- bash
      cat data.csv | ares exec -i JOB -- sh -c 'cat > data.csv'

    The command has the job's own directory, environment, user, limits and view of the machine, and ends with the job.
    The exit code is the command's own; 255 when the session was lost. A connection that breaks is made again.
    """
    from ares.edge.cli.session import enter, exit_code, terminal_size
    from ares.model.job_session import SessionSpec

    if tty and stdin and not os.isatty(0):
        raise click.UsageError("the input is not a terminal; leave out -t", ctx)
    client = connect(ctx)
    job_id = find_job(client, job)
    rows, cols = terminal_size()
    # The parser leaves the -- that follows the job.
    asked = command[1:] if command[0] == "--" else command
    spec = SessionSpec(
        command=asked, tty=tty, rows=rows, cols=cols, term=os.environ.get("TERM", "") if tty else "", rank=rank
    )
    ctx.exit(exit_code(enter(ctx, job_id, spec, keys, stdin=stdin)))


@click.command()
@click.option("--session", "chosen", metavar="ID", help="The session, or the beginning of its id.")
@keys_option
@job_argument()
@click.pass_context
def attach(ctx: click.Context, job: str, chosen: str | None, keys: bytes) -> None:
    """Goes back to a session with a terminal in a running job.

    Such a session goes on when you leave it by the detach keys, and for a minute when the connection breaks. What it
    wrote meanwhile is shown, the last 128 KiB of it. The client that was attached before is detached.
    """
    import asyncio

    from ares.edge.cli.session import async_client, attached, exit_code

    client = connect(ctx)
    job_id = find_job(client, job)
    session = _one_of(ctx, client.sessions(job_id), job_id, chosen)

    async def stay() -> "SessionExit | None":
        async with async_client(ctx) as other:
            return await attached(other, job_id, session, keys, stdin=True)

    ctx.exit(exit_code(asyncio.run(stay())))


def _one_of(ctx: click.Context, found: "tuple[SessionView, ...]", job_id: str, chosen: str | None) -> "SessionView":
    fitting = [view for view in found if view.tty and view.id.startswith(chosen or "")]
    if not fitting:
        raise click.UsageError(f"job {job_id} has no such session; open one: ares exec -it {job_id} -- bash", ctx)
    if len(fitting) > 1 and chosen is None:
        listed = "; ".join(f"{view.id[:8]}: {' '.join(view.command)[:40]}" for view in fitting)
        raise click.UsageError(f"job {job_id} has several sessions, name one with --session: {listed}", ctx)
    return fitting[0]
