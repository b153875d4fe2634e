"""`ares shell` and `ares jupyter`: jobs to work in."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.job_flags import asked, job_options, layers
from ares.edge.cli.options import keys_option, read_seconds
from ares.edge.cli.shipping import directory, ship, with_image, with_python

if TYPE_CHECKING:
    from ares.api.jobs import JobDetail
    from ares.edge.client.sync import Client
    from ares.model.job import JobSpec

_IDLE = "2h"
# The job itself: it waits for its shell to end, and ends as that did. Where none is opened in time, it gives up.
_WAITING = """cd "$ARES_WORKDIR" && mkfifo -m 600 .shell-end && exec 3<>.shell-end || exit 125
(sleep "$1"; [ -e .shell-begun ] || echo 124 >&3) & read -r code <&3; exit "${code:-1}"
"""
# The shell: a hang-up ends what runs in it, and the job is told all the same.
_SHELL = """: >"$ARES_WORKDIR/.shell-begun"; trap : HUP TERM
if [ $# -eq 0 ]; then if command -v bash >/dev/null; then set -- bash -l; else set -- sh; fi; fi
"$@"; code=$?; echo $code >"$ARES_WORKDIR/.shell-end"; exit $code
"""
_JUPYTER = """command -v jupyter >/dev/null || { echo "there is no jupyter in the job's environment" >&2; exit 127; }
exec jupyter "$@" --no-browser --ip=127.0.0.1 --port=0
"""

_WORKDIR = click.option(
    "--workdir", metavar="DIR|none",
    help="Directory whose files it starts with; none ships nothing.  [default: the current one]",
)  # fmt: skip
_YES = click.option("--yes", "-y", is_flag=True, help="Ship new files of more than 256 MiB without asking.")
_idle_option = click.option(
    "--idle", metavar="TIME", default=_IDLE, show_default=True, callback=read_seconds,
    help="End it when nothing was typed or shown for so long.",
)  # fmt: skip


@click.command(context_settings={"allow_interspersed_args": False})
@job_options
@_WORKDIR
@_YES
@_idle_option
@keys_option
@click.pass_context
def shell(ctx: click.Context, command: tuple[str, ...], idle: float, keys: bytes, **flags: Any) -> None:
    """Submits an interactive job and enters it.

    \b
      ares shell --gpus 1 --memory 8G
      ares shell --time 4h -- python

    It takes the flags of `ares submit`. Until the job runs it says what it waits for. The job ends with the shell, and
    the exit code is the shell's own. `ares attach JOB` goes back to a shell that was left by the detach keys or by a
    connection that broke.
    """
    from ares.edge.cli.session import enter, terminal_size
    from ares.model.job_session import SessionSpec

    client = connect(ctx)
    spec = _interactive(client, ("sh", "-c", _WAITING, "sh", str(int(idle))), flags, "shell")
    job_id = _started(client, spec)
    rows, cols = terminal_size()
    session = SessionSpec(
        command=("sh", "-c", _SHELL, "sh", *command), tty=True, rows=rows, cols=cols,
        term=os.environ.get("TERM", ""), keep_s=idle, idle_s=idle,
    )  # fmt: skip
    if enter(ctx, job_id, session, keys, stdin=True) is not None:
        from ares.edge.cli.commands.wait import exit_code

        # The job ends as its shell did, and at times before the shell's own end is told.
        ctx.exit(exit_code(client.wait(job_id)))


@click.command(context_settings={"allow_interspersed_args": False})
@job_options
@_WORKDIR
@_YES
@_idle_option
@click.option("--port", type=click.IntRange(0, 65_535), default=8888, show_default=True, help="Port on this machine.")
@click.option("--keep", is_flag=True, help="Leave the job running at Ctrl-C.")
@click.pass_context
def jupyter(ctx: click.Context, command: tuple[str, ...], idle: float, port: int, keep: bool, **flags: Any) -> None:
    """Submits a job that runs Jupyter, reachable on this machine.

    \b
      ares jupyter --gpus 1 --memory 16G
      ares jupyter -- notebook --notebook-dir=work

    It takes the flags of `ares submit`, and needs `jupyter` in the job's environment. The address is printed with its
    token. Ctrl-C ends the job too, unless --keep is given.
    """
    import asyncio

    from ares.edge.cli.forwarding import served

    arguments = (*(command or ("lab",)), f"--ServerApp.shutdown_no_activity_timeout={int(idle)}")
    client = connect(ctx)
    spec = _interactive(client, ("sh", "-c", _JUPYTER, "sh", *arguments), flags, "jupyter")
    job_id = _started(client, spec)
    try:
        asyncio.run(served(ctx, job_id, port))
    except KeyboardInterrupt:
        if keep:
            click.echo(f"\nthe job goes on; ares cancel {job_id} ends it", err=True)
            return
        client.cancel(job_id, "ares jupyter was stopped")
        click.echo(f"\nended {job_id}", err=True)


def _interactive(client: "Client", command: tuple[str, ...], flags: dict[str, Any], name: str) -> "JobSpec":
    """A person works in it: it is not begun anew by itself. The files of the directory go with it."""
    import msgspec

    workdir = flags["workdir"]
    given = {**flags, "name": flags["name"] or name, "retries": flags["retries"] or 0}
    said = [*layers(command, given), {"workdir": None if workdir is None else Path(workdir)}]
    spec = asked(said)
    if spec.array is not None or spec.gang is not None:
        raise click.UsageError("an interactive job is a single one; leave out --array and --ranks")
    if (root := directory(said)) is not None:
        spec = msgspec.structs.replace(spec, project=ship(client, root, yes=flags["yes"]).sha256)
    return with_python(client, with_image(client, spec), said, active=True)


def _started(client: "Client", spec: "JobSpec") -> str:
    """Submits the job and waits until it runs, saying what it waits for. Ctrl-C cancels it."""
    job_id = client.submit(spec).id
    click.echo(f"submitted {job_id} ({spec.name})", err=True)
    try:
        detail = _awaited(client, job_id)
    except KeyboardInterrupt:
        client.cancel(job_id, "given up before it ran")
        click.echo(f"\ncancelled {job_id}", err=True)
        raise
    if detail.state.phase != "RUNNING":
        from ares.edge.cli.commands.wait import ending

        raise click.ClickException(f"it has ended: {ending(detail)}; what it wrote: ares logs {job_id}")
    return job_id


def _awaited(client: "Client", job_id: str) -> "JobDetail":
    from ares.edge.cli.render.job_cells import waits_for
    from ares.edge.cli.render.text import printable
    from ares.model.state import TERMINAL

    said, detail = "", None
    for detail in client.watch(job_id):
        if detail.state.phase == "RUNNING" or detail.state.phase in TERMINAL:
            return detail
        words = "" if detail.waiting is None else waits_for(detail.waiting)
        if words and words != said:
            click.echo(f"waiting: {printable(words)}", err=True)
            said = words
    assert detail is not None, "a watch ends with the job's end"
    return detail
