"""`ares flow`: workflows as a whole."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.job_cells import counts
from ares.edge.cli.render.output import answer, output_option
from ares.edge.cli.render.text import printable

if TYPE_CHECKING:
    from ares.api.flows import FlowCreated, FlowDetail, FlowJob


# ---- a workflow as a tree of lines


# Children of one job that are drawn one by one; more of them are counted.
_DRAWN_MAX = 12
_LINES_MAX = 400
_ON: Mapping[str, str] = {"failure": "on failure", "end": "at the end", "start": "at the start"}


def drawing(flow: "FlowDetail") -> list[str]:
    """A job that waits for several stands below the last of them; the others are named beside it."""
    jobs = {job.name: job for job in flow.jobs}
    order = {name: place for place, name in enumerate(_by_depth(jobs))}
    below: dict[str, list[FlowJob]] = {}
    roots: list[FlowJob] = []
    for name in order:
        job = jobs[name]
        inside = sorted((edge.job for edge in job.needs if edge.job in jobs), key=order.__getitem__)
        if inside:
            below.setdefault(inside[-1], []).append(job)
        else:
            roots.append(job)
    lines = list(_lines(sorted(roots, key=lambda job: job.is_finally), below, ""))
    return [*lines[:_LINES_MAX], *([f"... and {len(lines) - _LINES_MAX} lines more"] if lines[_LINES_MAX:] else [])]


def _by_depth(jobs: "Mapping[str, FlowJob]") -> list[str]:
    """Names, each after those it waits for."""
    children: dict[str, list[str]] = {}
    open_: dict[str, int] = {}
    for job in jobs.values():
        inside = {edge.job for edge in job.needs if edge.job in jobs}
        open_[job.name] = len(inside)
        for parent in inside:
            children.setdefault(parent, []).append(job.name)
    order = [name for name, count in open_.items() if not count]
    for name in order:
        for child in children.get(name, ()):
            open_[child] -= 1
            if not open_[child]:
                order.append(child)
    return order


def _lines(row: "list[FlowJob]", below: "Mapping[str, list[FlowJob]]", indent: str) -> Iterator[str]:
    """Without recursion: a chain may be as long as the workflow."""
    stack: list[tuple[FlowJob | None, str, str]] = []

    def push(jobs: "list[FlowJob]", indent: str, *, top: bool) -> None:
        shown = jobs if len(jobs) <= _DRAWN_MAX else jobs[: _DRAWN_MAX - 1]
        rows: list[tuple[FlowJob | None, str, str]] = []
        for place, job in enumerate(shown):
            last = place == len(jobs) - 1
            mark, more = ("", "") if top else ("└─ " if last else "├─ ", "   " if last else "│  ")
            rows.append((job, indent + mark, indent + more))
        if len(jobs) > len(shown):
            rows.append((None, f"{indent}└─ ... and {len(jobs) - len(shown)} more", ""))
        stack.extend(reversed(rows))

    push(row, indent, top=True)
    while stack:
        job, line, deeper = stack.pop()
        if job is None:
            yield line
            continue
        yield line + _label(job)
        # Very deep chains go on at the margin of the terminal.
        push(below.get(job.name, []), deeper if len(deeper) < 60 else "  ", top=False)


def _label(job: "FlowJob") -> str:
    tasks = f" x{job.tasks}" if job.tasks > 1 else ""
    beside = [f"{edge.job} {_ON[edge.on]}" if edge.on in _ON else edge.job for edge in job.needs]
    several = len(job.needs) > 1 or any(edge.on in _ON for edge in job.needs)
    after = f"  after {', '.join(beside[:4])}{' ...' if len(beside) > 4 else ''}" if several else ""
    last = "  at the end of all" if job.is_finally else ""
    made = f"  with {sum(job.child_counts.values())} children: {counts(job.child_counts)}" if job.child_counts else ""
    return printable(f"{job.name}{tasks}  {job.phase}{after}{last}{made}")


# ---- the commands


@click.group()
def flow() -> None:
    """Shows, cancels and repeats workflows."""


@flow.command("show")
@click.argument("flow_id", metavar="FLOW")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_flow(ctx: click.Context, flow_id: str, output: str) -> None:
    """Draws a workflow: each job below the one it waits for."""
    from ares.edge.client.calls import flows

    found = answer(connect(ctx), flows.flow(flow_id), output, _ids)
    if found is not None:
        _print(found)


@flow.command("cancel")
@click.argument("flow_id", metavar="FLOW")
@click.option("--reason", default="", help="Kept in the jobs' ledgers.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def cancel_flow(ctx: click.Context, flow_id: str, reason: str, output: str) -> None:
    """Cancels all jobs of a workflow. Jobs with `finally` run all the same."""
    from ares.edge.client.calls import flows

    found = answer(connect(ctx), flows.cancel_flow(flow_id, reason), output, _ids)
    if found is not None:
        click.echo(f"{found.id} ({printable(found.name)}): {_counts(found)}")


@flow.command("retry")
@click.argument("flow_id", metavar="FLOW")
@click.option("--from", "first", multiple=True, metavar="NAME", help="This job and all after it. May be repeated.")
@click.option("--request-id", metavar="ID", help="Retrying again under the same id gives the same workflow.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def retry_flow(ctx: click.Context, flow_id: str, first: tuple[str, ...], request_id: str | None, output: str) -> None:
    """Runs a part of a workflow again, as a new one.

    Without --from: all jobs that did not succeed, and those after them. What succeeded before counts as it did.
    """
    from ares.edge.client.calls import flows
    from ares.edge.client.calls.calls import new_request_id

    call = flows.retry_flow(flow_id, first, request_id or new_request_id())
    made = answer(connect(ctx), call, output, "id")
    if made is not None:
        click.echo(f"{sentence(made)}, again after {flow_id}")


def sentence(made: "FlowCreated") -> str:
    tasks = f" with {made.tasks} tasks" if made.tasks != made.jobs else ""
    if made.replayed:
        return f"already submitted as workflow {made.id} ({printable(made.name)}): this request id was used before"
    return f"submitted workflow {made.id} ({printable(made.name)}): {made.jobs} jobs{tasks}"


def _ids(found: Any) -> list[str]:
    return [job["id"] for job in found["jobs"]]


def _counts(found: "FlowDetail") -> str:
    from ares.edge.cli.render.job_cells import counts

    return counts(found.counts)


def _print(found: "FlowDetail") -> None:

    click.echo(f"{printable(found.name)}  {found.id}  {_counts(found)}")
    if not found.whole:
        click.echo("it was not accepted whole: its submission broke off or goes on")
    for line in drawing(found):
        click.echo(line)
