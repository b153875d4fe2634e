"""The comparison as text, and every job as a line."""

import csv
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from ares.sim.report import metrics
from ares.sim.report.figures import Figures
from ares.sim.traces.outcome import Outcome
from ares.sim.traces.summary import bounded_slowdowns

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
