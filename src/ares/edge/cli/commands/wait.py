"""`ares wait`, and how a job's end becomes an exit code."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect, find_job, jobs_argument
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.api.jobs import JobDetail
    from ares.edge.client.sync import Client

# Codes of ends that are not the job's own doing. Documented in docs/cli.md.
NODE_LOST = 120
CANCELLED = 121
UNKNOWN = 122
GAVE_UP = 123
TIME_LIMIT = 124
NOT_STARTED = 125
DETACHED = 130
_BY_PHASE: Mapping[str, int] = {"SUCCEEDED": 0, "CANCELLED": CANCELLED, "UNKNOWN": UNKNOWN}
_BY_FAILURE: Mapping[str, int] = {"node-lost": NODE_LOST, "time-limit": TIME_LIMIT, "staging": NOT_STARTED}


@click.command()
@jobs_argument()
@click.option("--timeout", metavar="TIME", help="Give up after this long: 90s, 2h. Exit code 123.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def wait(ctx: click.Context, jobs: tuple[str, ...], timeout: str | None, output: str) -> None:
    """Waits until jobs have ended.

    The exit code is that of the first job, in the order given, that did not succeed; 0 if all did.
    Ctrl-C stops the waiting, not the jobs. With -o json the jobs are printed as `ares show` has them.
    """
    from ares.edge.client.calls import calls
    from ares.edge.client.units import seconds

    client = connect(ctx)
    ids = [find_job(client, job) for job in jobs]
    deadline = None if timeout is None else time.monotonic() + seconds(timeout)

    def all_of_them() -> int:
        codes = [wait_for(client, job_id, deadline, name=len(ids) > 1) for job_id in ids]
        if output != "table":
            found = {"jobs": [client.send(calls.job(job_id).raw()) for job_id in ids]}
            print_objects(output, found, lambda answer: [one["state"]["id"] for one in answer["jobs"]])
        return next((code for code in codes if code), 0)

    ctx.exit(detachable(" ".join(ids), all_of_them))


def detachable(job_ids: str, watch: Callable[[], int]) -> int:
    """Runs it; Ctrl-C leaves the jobs alone and says so."""
    try:
        return watch()
    except KeyboardInterrupt:
        click.echo(
            f"\ndetached; the job goes on. ares wait {job_ids} waits again, ares cancel {job_ids} ends it", err=True
        )
        return DETACHED


def wait_for(
    client: "Client", job_id: str, deadline: float | None = None, *, name: bool = False, live: bool = True
) -> int:
    """Waits for one job and returns its exit code. On a terminal, with a line that shows how it does."""
    from ares.edge.client.errors import WaitTimeout

    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    try:
        detail = _watched(client, job_id, left) if live and sys.stderr.isatty() else client.wait(job_id, left)
    except WaitTimeout as error:
        click.echo(f"error: {error}", err=True)
        return GAVE_UP
    code = exit_code(detail)
    if code or name:
        click.echo(ending(detail), err=True)
    return code


def _watched(client: "Client", job_id: str, left: float | None) -> "JobDetail":
    from ares.edge.cli.render.job_line import StatusLine

    detail = None
    with StatusLine() as line:
        for detail in client.watch(job_id, left):
            line.show(detail)
    assert detail is not None, "a watch ends with the job's end"
    return detail


def exit_code(detail: "JobDetail") -> int:
    """The exit code that stands for how a job ended."""
    phase, ending = detail.state.phase, detail.state.exit
    if phase in _BY_PHASE:
        return _BY_PHASE[phase]
    if ending is None:
        return 1
    if ending.failure is not None and ending.failure in _BY_FAILURE:
        return _BY_FAILURE[ending.failure]
    if ending.signal is not None:
        return 128 + _signal_number(ending.signal)
    return ending.code or 1


def ending(detail: "JobDetail") -> str:
    """How it ended, in a line."""
    from ares.edge.cli.render.job_cells import counts, why
    from ares.edge.cli.render.text import printable

    state = detail.state
    if detail.array_counts is not None:
        return f"{state.id} ({printable(state.name)}): {counts(detail.array_counts)}"
    reason = why(state, time.time())
    return f"{state.id} ({printable(state.name)}) {state.phase}{f': {printable(reason)}' if reason else ''}"


def _signal_number(name: str) -> int:
    import signal

    full = name if name.startswith("SIG") else f"SIG{name}"
    # A signal this machine does not know: still "ended by a signal".
    return int(signal.Signals[full]) if full in signal.Signals.__members__ else 0
