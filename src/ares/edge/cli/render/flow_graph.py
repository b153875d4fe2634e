"""A workflow as a tree of lines: each job below the one it waits for, deeper and deeper. Pure."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ares.edge.cli.render.job_cells import counts
from ares.edge.cli.render.text import printable

if TYPE_CHECKING:
    from ares.api.flows import FlowDetail, FlowJob

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
