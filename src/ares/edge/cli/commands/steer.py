"""`ares cancel`, `retry`, `hold`, `release`, `update` and `requeue`: what jobs that wait or run are told."""

from typing import Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument, jobs_argument
from ares.edge.cli.job_filter import chosen, filter_options, steer
from ares.edge.cli.job_flags import PriorityType
from ares.edge.cli.render.output import answer, output_option
from ares.edge.cli.render.text import printable

# Options that "none" empties.
_EMPTIED = ("time", "gpu_model", "deadline", "sla", "reservation", "throttle")
_CHANGES = ("priority", "cpus", "memory", "gpus", "gpu_share", "gpu_memory", *_EMPTIED)


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def cancel(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Ends jobs for good. A running one gets SIGTERM, then SIGKILL after its grace time.

    \b
      ares cancel 7k2m 9xw0                              these two
      ares cancel --phase PENDING --name sweep           all that fit; asks first
      ares cancel --user anna --label exp=7 --older 1h   the same filters as in `ares jobs`
      ares cancel --all --yes                            everything, without asking
    """
    from ares.edge.client.calls import calls

    return steer(ctx, "cancel", jobs, flags, output, reason, lambda job: calls.cancel(job, reason))


@click.command()
@job_argument()
@click.option("--reason", default="", help="Kept in the job's ledger.")
@click.option("--request-id", metavar="ID", help="Retrying again under the same id gives the same job.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def retry(ctx: click.Context, job: str, reason: str, request_id: str | None, output: str) -> None:
    """Runs a job again now.

    A job that waits for its next try does not wait any longer. A finished job never changes: a new
    job is made from it, and its id is printed.
    """
    from ares.edge.client.calls import calls

    client = connect(ctx)
    old = find_job(client, job)
    state = answer(client, calls.retry(old, reason, request_id or calls.new_request_id()), output, "id")
    if state is None:
        return
    kind = "submitted" if state.id != old else "retrying"
    click.echo(f"{kind} {state.id} ({printable(state.name)}){f', again after {old}' if state.id != old else ''}")


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger, and shown while it is held.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def hold(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Keeps jobs from being started until they are released.

    Only jobs that have not begun are held; of an array, such tasks. Cancel a running job instead.
    """
    from ares.edge.client.calls import calls

    return steer(ctx, "hold", jobs, flags, output, reason, lambda job: calls.hold(job, reason))


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def release(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Lets held jobs go on. Each is queued with the age it had, unless it waits for something else too."""
    from ares.edge.client.calls import calls

    return steer(ctx, "release", jobs, flags, output, reason, lambda job: calls.release(job, reason))


@click.command()
@jobs_argument(required=False)
@click.option("--priority", "priority", type=PriorityType(), help="By name or number, 0 to 4.")
@click.option("--time", metavar="TIME", help="Wall-time limit: 4h; none takes it away. Of a running job: less of it.")
@click.option("--cpus", metavar="N", help="CPUs: 2, 1.5 or 500m.")
@click.option("--memory", "--mem", metavar="SIZE", help="Memory: 512M, 4G.")
@click.option("--gpus", type=int, help="GPUs.")
@click.option("--gpu-model", metavar="NAME", help="Only this model; none for any.")
@click.option("--gpu-share", metavar="PART", help="A part of each GPU: 0.5 or 50%.")
@click.option("--gpu-memory", metavar="SIZE", help="GPUs with at least this much memory.")
@click.option("--deadline", metavar="TIME", help="Should have ended by then: 2h from now, 18:00; none takes it away.")
@click.option("--sla", metavar="CLASS", help="Class of service, see `ares sla`; none for none.")
@click.option("--reservation", metavar="NAME", help="In the room of this reservation; none for none.")
@click.option("--throttle", metavar="N", help="Of an array: so many tasks at once; none for any number.")
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def update(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Changes what jobs ask for. Policies and quotas are asked again, as for a new job.

    Everything may be changed while a job waits. Of a running job only its priority, and its time limit: it may be
    lowered; operators may also raise it. Of an array, the tasks that still wait are changed.

    \b
      ares update 7k2m --memory 16G --time 8h
      ares update --name sweep --state PENDING --priority LOW
      ares update 7k2m --deadline none
    """
    from ares.edge.client.calls.steering import update as update_call
    from ares.edge.client.calls.steering import update_of

    given = {name: flags[name] for name in _CHANGES if flags[name] is not None}
    given |= {name: None for name in _EMPTIED if str(given.get(name, "")).lower() == "none"}
    chosen(ctx, jobs, flags)
    change = update_of(given, reason)
    return steer(ctx, "update", jobs, flags, output, reason, lambda job: update_call(job, change), change)


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def requeue(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Sends running jobs back to the queue.

    A job with a checkpoint signal gets it first, with its time to save; then SIGTERM, and SIGKILL after its
    grace time. It waits with its old place by time of submission, and no retry is used up.

    \b
      ares requeue 7k2m --reason "the node is slow"
      ares requeue --node gpu-07 --yes
    """
    from ares.edge.client.calls.steering import requeue as requeue_call

    return steer(ctx, "requeue", jobs, flags, output, reason, lambda job: requeue_call(job, reason))
