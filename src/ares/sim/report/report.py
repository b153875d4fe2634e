"""The report about several policies on one trace."""

import csv
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from ares.sim.report import charts, gantt, metrics, svg
from ares.sim.report.figures import Figures, Run
from ares.sim.report.page import cell, page, section, table
from ares.sim.traces.outcome import Outcome
from ares.sim.traces.summary import bounded_slowdowns

# Drawings of nodes are large: only the first policies get theirs.
GANTTS_MAX = 6


def report(found: Figures, outcomes: Sequence[Outcome]) -> str:
    """The whole HTML page. Figures and outcomes are of the same replays, in the same order."""
    runs = found.runs
    names = svg.legend([run.policy for run in runs])
    parts = [
        section("Policies side by side", comparison(runs), note=_table_note(runs)),
        *_over_time(found, names),
        *_distributions(runs, names),
        *_gantts(outcomes),
        *_checked(runs),
        *_warnings(runs),
    ]
    return page(f"Simulation of {found.trace}", lead(found), parts)


def lead(found: Figures) -> list[str]:
    """What was replayed on what, in sentences."""
    first = found.runs[0]
    others = [f"{run.policy}: {_there(run)}" for run in found.runs if _there(run) != _there(first)]
    estimates = dict.fromkeys(run.estimates for run in found.runs)
    spent = ", ".join(f"{run.policy} {run.wall_s:.1f} s" for run in found.runs)
    return [
        f"{found.jobs:,} jobs on {_there(first)}.",
        f"Otherwise: {'; '.join(others)}." if others else "",
        f"Run times known to the scheduler: {', '.join(estimates)}.",
        f"Order of events: {found.event_order}. Seed {found.seed}.",
        f"Time to compute: {spent}.",
    ]


def _there(run: Run) -> str:
    gpus = f" and {run.gpus:,g} GPUs" if run.gpus else ""
    return f"{run.nodes:,} node{'' if run.nodes == 1 else 's'} with {run.cpus:,g} CPUs{gpus}"


def comparison(runs: Sequence[Run]) -> str:
    """A row per figure, a column per policy."""
    rows: list[list[str]] = []
    for metric in metrics.shown([run.summary for run in runs]):
        values = [metrics.value_of(run.summary, metric) for run in runs]
        best = metrics.best(metric, values)
        row = [cell(metric.title, title=metric.meaning)]
        for index, value in enumerate(values):
            small = metrics.change_words(metrics.change(metric, value, values[0])) if index else ""
            row.append(cell(metrics.words_of(metric, value), small=small, best=index in best, title=repr(value)))
        rows.append(row)
    return table(["", *(run.policy for run in runs)], rows)


def _table_note(runs: Sequence[Run]) -> str:
    if len(runs) < 2:
        return "Hold the pointer over a figure for its exact value, over its name for its meaning."
    return (
        f"The best value of each row has a star; small figures are the difference to {runs[0].policy}. "
        "Hold the pointer over a figure for its exact value, over its name for its meaning."
    )


def _over_time(found: Figures, names: str) -> list[str]:
    every = metrics.time_words(found.runs[0].over_time.every_s)
    note, depth = f"Each point is the mean over {every}.", f"Each point is the most that waited at once within {every}."
    used = {
        "gpu": any(run.gpus for run in found.runs),
        "cpu": any(run.summary.cpu_utilisation for run in found.runs),
    }
    parts = [
        section(f"{name.upper()} utilisation over time", charts.utilisation(found.runs, name), names, note=note)
        for name, there in used.items()
        if there
    ]
    return [*parts, section("Queue depth over time", charts.queue(found.runs), names, note=depth)]


def _distributions(runs: Sequence[Run], names: str) -> list[str]:
    note = (
        "Up and to the left is better. Lines go through every half percent of the jobs, and through 99.9 %; "
        f"what is below {charts.SHORTEST_S:g} is drawn at the left edge."
    )
    return [
        section("Wait", charts.cdf(runs, "wait", "seconds", lambda jobs: jobs.wait_s), names, note=note),
        section("Job completion time", charts.cdf(runs, "JCT", "seconds", lambda jobs: jobs.jct_s), names),
        section(
            "Bounded slowdown",
            charts.cdf(runs, "bounded slowdown", "number", lambda jobs: jobs.bounded_slowdown),
            names,
        ),
    ]


def _gantts(outcomes: Sequence[Outcome]) -> list[str]:
    drawn = outcomes[:GANTTS_MAX]
    marks = gantt.MARKS_MAX // (2 * len(drawn))
    window = gantt.whole(drawn)
    pictures = [gantt.draw(outcome, window, marks) for outcome in drawn]
    more = "" if len(drawn) == len(outcomes) else f" The first {len(drawn)} of {len(outcomes)} policies are shown."
    note = f"A row per node, coloured by tenant. Hold the pointer over a job to see what it is.{more}"
    parts = [section("What ran where", gantt.legend(drawn[0]), *_titled(drawn, pictures), note=note)]
    if any(picture.thinned for picture in pictures):
        close = gantt.fullest(drawn[0])
        nearer = [gantt.draw(outcome, close, marks) for outcome in drawn]
        note = f"The time around the deepest queue under {drawn[0].facts.policy}, under every policy."
        parts.append(
            section("A closer look at the fullest time", gantt.legend(drawn[0]), *_titled(drawn, nearer), note=note)
        )
    return parts


def _titled(outcomes: Sequence[Outcome], pictures: Sequence[gantt.Drawn]) -> list[str]:
    parts: list[str] = []
    for outcome, drawing in zip(outcomes, pictures, strict=True):
        said = f'<p class="dim">{svg.text(drawing.note)}.</p>' if drawing.note else ""
        parts.append(f"<h3>{svg.text(outcome.facts.policy)}</h3>{said}{drawing.picture}")
    return parts


def _checked(runs: Sequence[Run]) -> list[str]:
    said = [words for run in runs if run.checked is not None for words in run.checked.words()]
    note = "Every decision was judged by a checker with arithmetic of its own."
    return [section("Checked", _list(said), note=note)] if said else []


def _warnings(runs: Sequence[Run]) -> list[str]:
    said = list(dict.fromkeys(words for run in runs for words in run.warnings))
    if not said:
        return []
    return [section("Notes on the trace", _list(said))]


def _list(said: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{svg.text(sentence)}</li>' for sentence in said)}</ul>"


# ---- as text, and every job as a line


BEST = "*"
JOB_COLUMNS = (
    "policy", "id", "name", "tenant", "submit_s", "start_s", "last_start_s", "end_s", "wait_s", "run_s", "jct_s",
    "bounded_slowdown", "cpus", "gpus", "ranks", "node", "deadline_s", "late", "energy_j", "cost", "attempts",
    "preemptions", "phase",
)  # fmt: skip


def rows(found: Figures) -> list[list[str]]:
    """A row per figure: its name, then a cell per policy. The best has a star; changes are against the first."""
    lines: list[list[str]] = []
    for metric in metrics.shown([run.summary for run in found.runs]):
        values = [metrics.value_of(run.summary, metric) for run in found.runs]
        best = metrics.best(metric, values)
        line = [metric.title]
        for at, value in enumerate(values):
            change = metrics.change_words(metrics.change(metric, value, values[0])) if at else ""
            star = BEST if at in best else ""
            line.append(f"{metrics.words_of(metric, value)}{star}" + (f" ({change})" if change else ""))
        lines.append(line)
    return lines


def write_jobs(outcomes: Sequence[Outcome], file: TextIO) -> None:
    """CSV with a line per job and policy; what never happened is empty. Times are those of the trace."""
    out = csv.writer(file, lineterminator="\n")
    out.writerow(JOB_COLUMNS)
    for outcome in outcomes:
        jobs, names = outcome.jobs, outcome.facts.nodes
        columns: list[np.ndarray[Any, Any]] = [
            jobs.id, jobs.name, jobs.tenant, jobs.submit, jobs.first_start, jobs.last_start, jobs.end,
            jobs.first_start - jobs.submit, jobs.run, jobs.end - jobs.submit, bounded_slowdowns(outcome), jobs.cpus,
            jobs.gpus, jobs.ranks, np.array([names[at] if at >= 0 else "" for at in jobs.first_node.tolist()]),
            jobs.deadline, jobs.late, jobs.energy_j, jobs.cost, jobs.attempts, jobs.preemptions, jobs.phase,
        ]  # fmt: skip
        for line in zip(*(column.tolist() for column in columns), strict=True):
            out.writerow([outcome.facts.policy, *(_cell(value) for value in line)])


def _cell(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "" if value != value else f"{value:.10g}"
    return str(value)
