"""`ares submit`."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, connect_briefly
from ares.edge.cli.job_flags import asked, flow_file, job_options, layers
from ares.edge.cli.render.output import output_option, print_objects
from ares.edge.cli.shipping import directory, refuse_bare_script, ship, with_image, with_python

if TYPE_CHECKING:
    from ares.edge.client.brief import BriefClient, Sender
    from ares.model.job import JobSpec

VERDICT_WITHIN_S = 0.3
VERDICT_EVERY_S = 0.05


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@job_options
@click.option(
    "--workdir",
    metavar="DIR|none",
    help="Directory whose files it starts with; none ships nothing.  [default: the current one]",
)
@click.option("--yes", "-y", is_flag=True, help="Ship new files of more than 256 MiB without asking.")
@click.option("--request-id", metavar="ID", help="Submitting again under the same id gives the same job.")
@click.option("--wait", "wait_", is_flag=True, help="Wait for the end; exit as the job did.")
@click.option("--follow", is_flag=True, help="Print the job's output until its end; exit as the job did.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def submit(
    ctx: click.Context,
    command: tuple[str, ...],
    workdir: str | None,
    yes: bool,
    wait_: bool,
    follow: bool,
    output: str,
    **flags: Any,
) -> None:
    """Submits a job.

    \b
      ares submit --gpus 2 --name train -- python train.py
      ares submit -f job.yaml --priority HIGH
      ares submit --array 0-9 --wait -- sh -c 'echo task $ARES_ARRAY_INDEX'
      ares submit -f flow.yaml                    a workflow: a file with jobs

    The files of the current directory go with it, without what .gitignore and .aresignore name.
    With --wait or --follow the exit code is the job's own; see docs/cli.md for the codes of
    jobs that were cancelled, killed or never started. Ctrl-C leaves the job running.
    """
    if flags["file"] and (jobs := flow_file(flags["file"])) is not None:
        ctx.exit(_submit_flow(ctx, jobs, flags, output, wait=wait_ or follow))
    # A path rather than text: a flag names a directory here, also from / on.
    said = [*layers(command, flags), {"workdir": None if workdir is None else Path(workdir)}]
    spec = asked(said)
    if os.environ.get("ARES_SUBMIT_SOCKET") and not ctx.find_root().obj:
        ctx.exit(_submit_child(ctx, spec, flags, output, alone=workdir is None and not (wait_ or follow)))
    if follow and spec.array is not None:
        raise click.UsageError("an array has no single output to follow; use --wait, or `ares logs -f ARRAY`", ctx)
    client = connect_briefly(ctx)
    if (root := directory(said)) is not None:
        import msgspec

        refuse_bare_script(spec, root)
        spec = msgspec.structs.replace(spec, project=ship(client, root, yes=yes).sha256)
    spec = with_image(client, spec)
    spec = with_python(client, spec, said, active=True)
    from ares.edge.client.calls import calls

    raw: Any = client.send(calls.submit(spec, flags["request_id"] or calls.new_request_id()).raw())
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


def _submit_child(ctx: click.Context, spec: "JobSpec", flags: dict[str, Any], output: str, *, alone: bool) -> int:
    """Inside a job that may submit jobs: by way of its agent. The child starts with the files of this job."""
    import msgspec

    from ares import job
    from ares.edge.client.errors import InvalidSpec

    if not alone or flags["request_id"]:
        raise click.UsageError(
            "inside a job `ares submit` takes no --workdir, --wait, --follow and --request-id: the job starts with the "
            "files of this one, and the number of the call stands for a request id", ctx,
        )  # fmt: skip
    try:
        made = job.submit_spec(msgspec.to_builtins(spec))
    except job.SubmitRefused as no:
        raise InvalidSpec(no.message, fix=no.fix) from no
    raw = {"id": made["job"], "replayed": made["replayed"]}
    if not print_objects(output, raw, lambda answer: [answer["id"]]):
        click.echo(f"submitted {raw['id']} ({spec.name}), a child of {job.id}")
    return 0


def _submit_flow(ctx: click.Context, file: dict[str, object], flags: dict[str, Any], output: str, *, wait: bool) -> int:
    """A file with `jobs` is a workflow. Flags describe one job, so they say nothing here."""
    from ares.edge.cli.commands.flow import sentence
    from ares.edge.cli.render.output import answer
    from ares.edge.client.calls import flows
    from ares.edge.client.calls.calls import new_request_id

    given = [flag for flag, value in flags.items() if value not in (None, {}, (), False)]
    if wait or any(flag not in ("file", "request_id", "name") for flag in given):
        raise click.UsageError(
            "a workflow takes no flags of a job but --name and --request-id: write them in its file", ctx
        )
    jobs, name = file.get("jobs"), flags["name"] or file.get("name", "flow")
    if not isinstance(jobs, dict) or set(file) - {"jobs", "name"}:
        raise click.UsageError("a workflow file has the keys jobs and name; all else belongs to its jobs", ctx)
    specs = flows.flow_jobs(jobs)  # pyright: ignore[reportUnknownArgumentType]
    call = flows.submit_flow(specs, str(name), flags["request_id"] or new_request_id())
    made = answer(connect(ctx), call, output, "id")
    if made is not None:
        click.echo(sentence(made))
        if sys.stderr.isatty():
            click.echo(f"see it with: ares flow show {made.id}", err=True)
    return 0


def _sentence(answer: dict[str, Any], name: str) -> str:
    tasks = f" with {answer['tasks']} tasks" if answer.get("tasks", 1) > 1 else ""
    if answer.get("replayed"):
        return f"already submitted as {answer['id']} ({name}){tasks}: this request id was used before"
    return f"submitted {answer['id']} ({name}){tasks}"


_TAKEN = {
    "yours": "accepted, but it can never start as it is",
    "operator": "accepted, but the cluster cannot run it yet",
}


def _warn_of_never(client: "Sender", spec: "JobSpec", warnings: Sequence[dict[str, str]]) -> bool:
    """What the server said about the job when it took it, and what would start it."""
    from ares.edge.cli.render.changes import as_typed
    from ares.edge.cli.render.text import printable
    from ares.edge.client.calls import predictions

    never = [warning for warning in warnings if warning.get("remedy")]
    for warning in warnings:
        taken = f"{_TAKEN.get(warning['remedy'], 'accepted, but it waits')}: " if warning.get("remedy") else ""
        click.echo(f"warning: {taken}{printable(warning['message'])}", err=True)
    if any(warning["remedy"] == "yours" for warning in never):
        change = client.send(predictions.plan(spec)).change
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


def _warn_of_waiting(client: "Sender", job_id: str) -> None:
    """Says so if it will not run by itself. The scheduler's answer takes a moment, often no more than this."""
    from ares.edge.client.calls import calls

    deadline = time.monotonic() + VERDICT_WITHIN_S
    while True:
        detail = client.send(calls.job(job_id))
        if detail.waiting is not None or detail.state.phase != "PENDING" or time.monotonic() > deadline:
            break
        time.sleep(VERDICT_EVERY_S)
    if detail.waiting is not None and detail.waiting.remedy != "wait":
        from ares.edge.cli.render.job_cells import waits_for
        from ares.edge.cli.render.text import printable

        click.echo(f"warning: {printable(waits_for(detail.waiting))}", err=True)


def _stay(client: "BriefClient", job_id: str, follow: bool, *, warned: bool) -> int:
    from ares.edge.cli.commands.logs import copy_log
    from ares.edge.cli.commands.wait import detachable, wait_for
    from ares.edge.client.logs import LogWish

    def watch() -> int:
        if not warned:
            _warn_of_waiting(client, job_id)
        if follow:
            copy_log(client.whole, job_id, LogWish(follow=True))
        return wait_for(client.whole, job_id, live=not follow)

    return detachable(job_id, watch)
