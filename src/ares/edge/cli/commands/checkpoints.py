"""`ares checkpoints` and `ares resume`."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument, of_one_job
from ares.edge.cli.render.output import answer, output_option, print_objects

if TYPE_CHECKING:
    from ares.api.jobs import CheckpointView
    from ares.edge.cli.render.table import Columns

COLUMNS: "Columns[CheckpointView]" = {
    "NUMBER": lambda checkpoint: str(checkpoint.number),
    "STEP": lambda checkpoint: f"{checkpoint.step:,}",
    "BYTES": lambda checkpoint: f"{checkpoint.bytes:,}",
    "TAKEN": lambda checkpoint: _ago(time.time() - checkpoint.taken_at),
    "STALL": lambda checkpoint: f"{checkpoint.stall_s:.2f}s",
    "UPLOAD": lambda checkpoint: f"{checkpoint.upload_s:.2f}s",
    "METRICS": lambda checkpoint: _metrics(checkpoint.metrics),
    "STATE": lambda checkpoint: _state(newest=checkpoint.newest, damaged=checkpoint.damaged),
}


@click.command()
@job_argument()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def checkpoints(ctx: click.Context, job: str, output: str) -> None:
    """Lists the checkpoints of a job that are kept, the newest first.

    The job goes on from the newest when it is started again; a new job goes on from any of them by
    `ares resume`.
    """
    from ares.edge.cli.render.table import print_records
    from ares.edge.client.outputs import checkpoint_listing

    client = connect(ctx)
    job_id = find_job(client, job)
    with of_one_job(client, job_id, "checkpoints"):
        found = answer(client, checkpoint_listing(job_id), output, _numbers)
    if found is None:
        return
    if not found.checkpoints:
        click.echo(f"{job_id} has no checkpoint: it is submitted with --checkpoint, and saves them itself", err=True)
        return
    print_records(COLUMNS, found.checkpoints, of="checkpoints")


def _numbers(listed: Any) -> list[str]:
    return [str(checkpoint["number"]) for checkpoint in listed["checkpoints"]]


def _ago(seconds: float) -> str:
    from ares.edge.cli.render.text import duration

    return f"{duration(max(0.0, seconds))} ago"


def _metrics(metrics: dict[str, float]) -> str:
    return " ".join(f"{name}={value:g}" for name, value in sorted(metrics.items())) or "-"


def _state(*, newest: bool, damaged: bool) -> str:
    said = ("newest" if newest else "", "damaged" if damaged else "")
    return " ".join(word for word in said if word) or "kept"


@click.command()
@job_argument()
@click.option("--from", "number", type=click.IntRange(0), metavar="N", help="This checkpoint.  [default: the newest]")
@click.option("--request-id", metavar="ID", help="Resuming again under the same id gives the same job.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def resume(ctx: click.Context, job: str, number: int | None, request_id: str | None, output: str) -> None:
    """Makes a new job that goes on from an ended one's checkpoint.

    It asks for the same as the first. `ares checkpoints JOB` lists what there is. A job that waits or
    runs goes on from its newest checkpoint by itself.
    """
    import msgspec

    from ares.edge.client.errors import AresError
    from ares.model.checkpoint import RestoreFrom
    from ares.model.state import TERMINAL

    client = connect(ctx)
    job_id = find_job(client, job)
    detail = client.get(job_id)
    if detail.state.phase not in TERMINAL:
        raise AresError(
            f"{job_id} is {detail.state.phase}: it goes on from its newest checkpoint by itself",
            code="not-allowed",
            fix=f"to go back to an older one, `ares cancel {job_id}` first",
        )
    # What it waited for has happened, and its place in a workflow is taken.
    spec = msgspec.structs.replace(
        detail.spec, restore_from=RestoreFrom(job=job_id, seq=number), needs=(), needs_timeout=None, finally_=False,
        array=None, held=False, begin_at=None, deadline_at=None, start_by_at=None,
    )  # fmt: skip
    made = client.submit(spec, request_id=request_id)
    which = "its newest checkpoint" if number is None else f"checkpoint {number}"
    said = {"job": made.id, "from": job_id, "checkpoint": number}
    if not print_objects(output, said, lambda _: [made.id]):
        click.echo(f"submitted {made.id}, from {which} of {job_id}")
