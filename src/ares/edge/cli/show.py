"""`ares show`: all about one job."""

import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument
from ares.edge.cli.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.edge.client.answers import JobDetail
    from ares.edge.client.sync import Client
    from ares.model.event import LedgerEvent
    from ares.model.state import Phase

FAILED: "tuple[Phase, ...]" = ("FAILED", "UNKNOWN")
FAILURES_MAX = 5


@click.command()
@job_argument()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show(ctx: click.Context, job: str, output: str) -> None:
    """Shows all about a job.

    What was asked for, where it is, what it waits for, its attempts and its result; of an array, the
    states of its tasks and the first that failed. JOB is an id or the beginning of one.
    """
    from ares.edge.client import calls

    client = connect(ctx)
    full = find_job(client, job)
    raw: Any = client.send(calls.job(full).raw())
    if print_objects(output, raw, lambda detail: [detail["state"]["id"]]):
        return
    import msgspec

    from ares.edge.client.answers import JobDetail

    detail = msgspec.convert(raw, JobDetail)
    if detail.array_counts is None:
        lines = render(detail, client.job_events(full), time.time())
    else:
        lines = render(detail, (), time.time()) + _failed_tasks(client, detail, time.time())
    for line in lines:
        click.echo(line)


def _failed_tasks(client: "Client", detail: "JobDetail", now: float) -> list[str]:
    """The first tasks of an array that went wrong, and how to see the others."""
    from itertools import islice

    from ares.edge.cli.rows import JOB_HEADER, job_row
    from ares.edge.cli.table import layout

    total = sum((detail.array_counts or {}).get(phase, 0) for phase in FAILED)
    if not total:
        return []
    array = detail.state.id
    tasks = islice(client.list(array=array, phase=FAILED, sort="submitted", page=FAILURES_MAX), FAILURES_MAX)
    lines = ["", *layout(JOB_HEADER, (job_row(task, now, wide=False) for task in tasks))]
    if total > FAILURES_MAX:
        lines.append(f"... {total} in all: ares jobs --array {array} --phase FAILED")
    return lines


def render(detail: "JobDetail", events: "tuple[LedgerEvent, ...]", now: float) -> list[str]:
    """The lines of the view for people."""
    from ares.edge.cli.rows import EVENT_HEADER, event_row
    from ares.edge.cli.table import layout
    from ares.edge.cli.text import duration, phase_colour, printable, use_colour

    facts = [(label, text) for label, text in _facts(detail, now) if text]
    phase = detail.state.phase
    shown = click.style(phase, fg=phase_colour(phase)) if use_colour() else phase
    lines = [f"{printable(detail.state.name)}  {detail.state.id}  {shown}"]
    lines += [f"  {label:<12}{printable(text)}" for label, text in facts]
    if events:
        start = events[0].at
        lines += ["", *layout(EVENT_HEADER, (event_row(e, f"+{duration(e.at - start)}") for e in events))]
    return lines


def _facts(detail: "JobDetail", now: float) -> list[tuple[str, str]]:
    import json

    from ares.edge.cli.rows import asked_for, exit_text, pairs, run_time, why
    from ares.edge.cli.text import duration

    spec, state, progress = detail.spec, detail.state, detail.progress
    times = {"time limit": spec.time_limit_s, "grace": spec.grace_s, "lease": spec.lease_s}
    limits = ", ".join(f"{name} {duration(value)}" for name, value in times.items() if value is not None)
    fraction = "" if progress is None or progress.fraction is None else f"{progress.fraction:.0%} "
    return [
        ("Command", shlex.join(spec.command)),
        ("Asks for", asked_for(spec)),
        (
            "Policy",
            f"priority {spec.priority}, restart {spec.restart}, retries {spec.retry.limit}, effects {spec.effects}",
        ),
        ("Limits", limits),
        ("Directory", spec.workdir or ""),
        # Names only: values are often secrets. `-o yaml` has them.
        ("Environment", ", ".join(spec.env)),
        ("Labels", pairs(spec.labels)),
        ("Selector", pairs(spec.selector)),
        ("Submitted", _submitted(detail, now)),
        ("Retry of", state.retry_of or ""),
        ("Array", _array(detail)),
        ("Queue", _queue(detail)),
        ("Attempt", f"{state.attempt}, fence {state.fence}" if state.attempt else ""),
        ("Node", _placements(detail)),
        ("Run time", run_time(state, now)),
        ("Progress", "" if progress is None else f"{fraction}{progress.message}".strip()),
        ("Reason", why(state, now, detail.waiting)),
        ("Remedy", "" if detail.waiting is None else _REMEDIES.get(detail.waiting.remedy, "")),
        ("Exit", "" if state.exit is None else _exit(detail, exit_text(state.exit))),
        ("Result", "" if detail.result is None or detail.result.value is None else json.dumps(detail.result.value)),
    ]


def _submitted(detail: "JobDetail", now: float) -> str:
    from ares.edge.cli.text import duration

    state = detail.state
    who = f" by {state.submitted_by}" if state.submitted_by else ""
    return f"{duration(now - state.submitted_at)} ago{who}, tenant {state.tenant}"


_REMEDIES = {
    "yours": "ask for less or for something else: submit it again, and cancel this one",
    "wait": "it starts when others have ended",
    "operator": "the cluster needs attention: see `ares nodes`",
}


def _queue(detail: "JobDetail") -> str:
    ahead = detail.queue_position
    return "" if ahead is None else f"{ahead} ahead of it" if ahead else "next"


def _array(detail: "JobDetail") -> str:
    from ares.edge.cli.rows import counts

    if detail.array_counts is not None:
        return f"{detail.spec.array}: {counts(detail.array_counts)}"
    return "" if detail.state.array is None else f"task {detail.state.index} of {detail.state.array}"


def _placements(detail: "JobDetail") -> str:
    shown = detail.state.placements[:8]
    texts = [f"{p.node}{' GPU ' + ','.join(map(str, p.gpus)) if p.gpus else ''}" for p in shown]
    more = len(detail.state.placements) - len(shown)
    return "; ".join([*texts, *([f"and {more} more"] if more else [])])


def _exit(detail: "JobDetail", text: str) -> str:
    ending = detail.state.exit
    assert ending is not None
    used = [
        "" if ending.max_rss_mib is None else f"used {ending.max_rss_mib} MiB at most",
        "" if ending.cpu_s is None else f"{ending.cpu_s:.1f} s of CPU",
    ]
    return ", ".join(part for part in (text or "none", *used) if part)
