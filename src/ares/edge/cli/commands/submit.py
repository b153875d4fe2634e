"""`ares submit`."""

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.job_flags import asked, job_options
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.edge.client.sync import Client
    from ares.model.job import JobSpec

VERDICT_WITHIN_S = 0.3
VERDICT_EVERY_S = 0.05


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@job_options
@click.option("--request-id", metavar="ID", help="Submitting again under the same id gives the same job.")
@click.option("--wait", "wait_", is_flag=True, help="Wait for the end; exit as the job did.")
@click.option("--follow", is_flag=True, help="Print the job's output until its end; exit as the job did.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def submit(ctx: click.Context, command: tuple[str, ...], wait_: bool, follow: bool, output: str, **flags: Any) -> None:
    """Submits a job.

    \b
      ares submit --gpus 2 --name train -- python train.py
      ares submit -f job.yaml --priority HIGH
      ares submit --array 0-9 --wait -- sh -c 'echo task $ARES_ARRAY_INDEX'

    With --wait or --follow the exit code is the job's own; see docs/cli.md for the codes of
    jobs that were cancelled, killed or never started. Ctrl-C leaves the job running.
    """
    spec = asked(command, flags)
    if follow and spec.array is not None:
        raise click.UsageError("an array has no single output to follow; use --wait, then ares logs ARRAY_INDEX", ctx)
    client = connect(ctx)
    if spec.workdir is None:
        _hint_private_directory(spec.command)
    from ares.edge.client.calls import calls
    from ares.edge.client.http import new_request_id

    raw: Any = client.send(calls.submit(spec, flags["request_id"] or new_request_id()).raw())
    if not print_objects(output, raw, lambda answer: [answer["id"]]):
        # The job's own output must be alone on stdout.
        click.echo(_sentence(raw, spec.name), err=follow or wait_)
    warned = _warn_of_never(client, spec, raw.get("warnings", ()))
    _tell_of_deadline(raw.get("deadline"))
    if follow or wait_:
        ctx.exit(_stay(client, raw["id"], follow, warned=warned))
    if sys.stderr.isatty():
        if not warned:
            _warn_of_waiting(client, raw["id"])
        click.echo(f"see it with: ares logs -f {raw['id']}", err=True)


def _sentence(answer: dict[str, Any], name: str) -> str:
    tasks = f" with {answer['tasks']} tasks" if answer.get("tasks", 1) > 1 else ""
    if answer.get("replayed"):
        return f"already submitted as {answer['id']} ({name}){tasks}: this request id was used before"
    return f"submitted {answer['id']} ({name}){tasks}"


def _hint_private_directory(command: Sequence[str]) -> None:
    local = next((arg for arg in command if not os.path.isabs(arg) and os.path.isfile(arg)), None)
    if local is not None:
        click.echo(
            f"hint: {local} is a file here, but jobs start in a private directory; add --chdir . to start in this one",
            err=True,
        )


_TAKEN = {
    "yours": "accepted, but it can never start as it is",
    "operator": "accepted, but the cluster cannot run it yet",
}


def _warn_of_never(client: "Client", spec: "JobSpec", warnings: Sequence[dict[str, str]]) -> bool:
    """What the server said about the job when it took it, and what would start it."""
    from ares.edge.cli.render.changes import as_typed
    from ares.edge.cli.render.text import printable

    never = [one for one in warnings if one.get("remedy")]
    for one in warnings:
        taken = f"{_TAKEN.get(one['remedy'], 'accepted, but it waits')}: " if one.get("remedy") else ""
        click.echo(f"warning: {taken}{printable(one['message'])}", err=True)
    if any(one["remedy"] == "yours" for one in never):
        change = client.plan(spec).change
        if change is not None:
            click.echo(f"smallest fix: {printable(change.message)} ({printable(as_typed(change.fields))})", err=True)
    return bool(never)


def _tell_of_deadline(seen: "dict[str, Any] | None") -> None:
    """Whether it will be met; if not, what would."""
    from ares.edge.cli.render.changes import as_typed
    from ares.edge.cli.render.text import printable

    if seen is None:
        return
    doubt = "" if seen["verdict"] == "yes" else "warning: "
    click.echo(f"{doubt}its deadline: {printable(seen['message'])}", err=True)
    for way in seen.get("ways", ()):
        click.echo(f"would be met {printable(way['message'])} ({printable(as_typed(way['fields']))})", err=True)


def _warn_of_waiting(client: "Client", job_id: str) -> None:
    """Says so if it will not run by itself. The scheduler's answer takes a moment, often no more than this."""
    deadline = time.monotonic() + VERDICT_WITHIN_S
    while True:
        detail = client.get(job_id)
        if detail.waiting is not None or detail.state.phase != "PENDING" or time.monotonic() > deadline:
            break
        time.sleep(VERDICT_EVERY_S)
    if detail.waiting is not None and detail.waiting.remedy != "wait":
        from ares.edge.cli.render.job_cells import waits_for
        from ares.edge.cli.render.text import printable

        click.echo(f"warning: {printable(waits_for(detail.waiting))}", err=True)


def _stay(client: "Client", job_id: str, follow: bool, *, warned: bool) -> int:
    from ares.edge.cli.commands.logs import copy_log
    from ares.edge.cli.commands.wait import detachable, wait_for

    def watch() -> int:
        if not warned:
            _warn_of_waiting(client, job_id)
        if follow:
            copy_log(client, job_id, follow=True)
        return wait_for(client, job_id, live=not follow)

    return detachable(job_id, watch)
