"""`ares wait`: the line that shows how a job does, and how its end becomes an exit code."""

import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

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
SKIPPED = 119
GAVE_UP = 123
TIME_LIMIT = 124
NOT_STARTED = 125
DETACHED = 130
_BY_PHASE: Mapping[str, int] = {"SUCCEEDED": 0, "CANCELLED": CANCELLED, "UNKNOWN": UNKNOWN, "SKIPPED": SKIPPED}
_BY_FAILURE: Mapping[str, int] = {"node-lost": NODE_LOST, "time-limit": TIME_LIMIT, "staging": NOT_STARTED}


@click.command()
@jobs_argument()
@click.option("--timeout", metavar="TIME", help="Give up after this long: 90s, 2h. Exit code 123.")
@click.option("--then", metavar="COMMAND", help="Run this here when they have ended, by /bin/sh.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def wait(ctx: click.Context, jobs: tuple[str, ...], timeout: str | None, then: str | None, output: str) -> None:
    """Waits until jobs have ended.

    The command of --then sees them in ARES_JOBS, and how they ended in ARES_EXIT_CODE and ARES_PHASES.

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
            print_objects(output, found, lambda answer: [job["state"]["id"] for job in answer["jobs"]])
        code = next((code for code in codes if code), 0)
        if then is not None and GAVE_UP not in codes:
            _run_then(then, ids, [client.get(job_id).state.phase for job_id in ids], code)
        return code

    ctx.exit(detachable(" ".join(ids), all_of_them))


def _run_then(command: str, ids: list[str], phases: list[str], code: int) -> None:
    import os
    import subprocess

    told = {"ARES_JOBS": " ".join(ids), "ARES_PHASES": " ".join(phases), "ARES_EXIT_CODE": str(code)}
    done = subprocess.run(["/bin/sh", "-c", command], env={**os.environ, **told}, check=False)
    if done.returncode:
        click.echo(f"warning: {command!r} ended with {done.returncode}", err=True)


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


# ---- the line that shows how a job does; on stderr, gone when it is over


class StatusLine:
    """A spinner with the job's state."""

    def __init__(self) -> None:
        self._detail: JobDetail | None = None
        self._live: Any = None
        self._spinner: Any = None
        self._width = 80

    def __enter__(self) -> Self:
        # Loaded only when there is a terminal to draw on.
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        console = Console(stderr=True)
        self._width = console.width
        self._spinner = Spinner("dots")
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=5, transient=True)
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.stop()

    def show(self, detail: "JobDetail") -> None:
        self._detail = detail

    def _render(self) -> Any:
        from rich.text import Text

        from ares.edge.cli.render.table import cut

        words = "asking" if self._detail is None else status(self._detail, time.time())
        # The spinner and a space come before it. One line only: two would flicker.
        self._spinner.update(text=Text(cut(words, self._width - 3)))
        return self._spinner


def status(detail: "JobDetail", now: float) -> str:
    """The job in a few words: train RUNNING on node-1 for 2m, 40% epoch 4."""
    from ares.edge.cli.render.job_cells import counts, nodes, run_time, waits_for, why
    from ares.edge.cli.render.text import duration, printable

    state, progress = detail.state, detail.progress
    if detail.array_counts is not None:
        reason = "" if detail.waiting is None else f" - {waits_for(detail.waiting)}"
        return printable(f"{state.name} {counts(detail.array_counts)}{reason}")
    words = [state.name, state.phase]
    if state.phase == "RUNNING":
        words += [f"on {nodes(state.placements)}", f"for {run_time(state, now) or '0s'}"]
    else:
        words += [f"for {duration(now - (state.queued_at or state.submitted_at))}"]
    if detail.queue_position:
        words.append(f"({detail.queue_position} ahead)")
    if reason := why(state, now, detail.waiting):
        words.append(f"- {reason}")
    if progress is not None:
        fraction = "" if progress.fraction is None else f"{progress.fraction:.0%} "
        words.append(f"- {fraction}{progress.message}")
    return printable(" ".join(words))
