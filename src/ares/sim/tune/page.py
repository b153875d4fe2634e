"""What tuning found: lines for a terminal, an HTML page, and as programs get it."""

from collections.abc import Sequence
from typing import Any

from ares.sim.report import charts, metrics, svg
from ares.sim.report.figures import plain
from ares.sim.report.metrics import ComparedMetric
from ares.sim.report.page import cell, page, section, table
from ares.sim.report.report import comparison
from ares.sim.report.svg import Unit
from ares.sim.traces.summary import Summary
from ares.sim.tune.evidence import GainInterval
from ares.sim.tune.search import Aim, TuneTrial
from ares.sim.tune.tune import Tuned

_METRICS = {metric.field: metric for metric in metrics.METRICS}
_UNITS: dict[str, Unit] = {"seconds": "seconds", "share": "share"}
# Kinds of points: their colours, and which lie on top.
_TUNED, _BASE, _FRONT, _BEATEN = 0, 1, 2, 6
_WORDS = {_TUNED: "tuned", _BASE: "base", _FRONT: "on the front", _BEATEN: "beaten by another"}


def verdict(tuned: Tuned) -> str:
    """Whether it was worth it, by jobs that the search has not seen."""
    aim, held = tuned.aims[0], tuned.held
    metric = _METRICS[aim.field]
    if not tuned.chosen:
        return (
            f"No profile was found that is better in {metric.title} and hardly worse in everything else: "
            "the base profile stays."
        )
    before, after = (metrics.words_of(metric, metrics.value_of(held[at], metric)) for at in (0, tuned.chosen))
    figure = f"{metric.title} {before} -> {after} ({_signed(tuned)}{_sure(tuned)})"
    if not tuned.bearable:
        longest = " -> ".join(f"{held[at].longest_wait_s / 3600:.1f} h" for at in (0, tuned.chosen))
        return f"Tuning does not help: the longest wait grows, {longest}; {figure}. Keep the base profile."
    if tuned.helps:
        return f"On held-out jobs the tuned profile is better: {figure}."
    interval = tuned.interval
    if tuned.gain > 0.0 and interval is not None and interval.low <= 0.0:
        return f"Tuning does not help beyond chance: {figure}. Keep the base profile, or tune on a longer trace."
    return (
        f"Tuning does not help: what was better in training is not on held-out jobs: {figure}. Keep the base profile, "
        "or tune on a longer trace."
    )


def _sure(tuned: Tuned) -> str:
    """Between what the gain lies, in 19 of 20 cases."""
    found = tuned.interval
    if found is None:
        return "; how sure that is cannot be said"
    return f"; gain of {100 * found.low:.1f} to {100 * found.high:.1f} %, 19 times of 20, by {found.blocks} {found.of}"


def _interval(found: GainInterval) -> dict[str, Any]:
    return {
        "lowPercent": found.low * 100,
        "highPercent": found.high * 100,
        "blocks": found.blocks,
        "of": found.of,
    }


def _signed(tuned: Tuned) -> str:
    metric = _METRICS[tuned.aims[0].field]
    values = [metrics.value_of(tuned.held[at], metric) for at in (0, tuned.chosen)]
    return metrics.change_words(metrics.change(metric, values[1], values[0])) or "no change"


def front_header(tuned: Tuned) -> list[str]:
    """Every objective on training jobs, and beside it on held-out ones."""
    return ["PROFILE", *(words for aim in tuned.aims for words in (aim.name.upper(), "HELD OUT")), "SETTINGS"]


def front_rows(tuned: Tuned) -> list[list[str]]:
    """The base and the chosen one first."""
    rows: list[list[str]] = []
    for at in sorted({0, tuned.chosen, *tuned.front}, key=lambda number: (number != 0, number != tuned.chosen, number)):
        trial = tuned.found.trials[at]
        cells = [_words(aim, found) for aim in tuned.aims for found in (trial.summary, tuned.held[at])]
        rows.append([_name(tuned, at), *cells, _said(trial)])
    return rows


def _said(trial: TuneTrial) -> str:
    return " ".join(f"{key}={value}" for key, value in trial.settings.items())


def _words(aim: Aim, found: Summary) -> str:
    return metrics.words_of(_METRICS[aim.field], float(getattr(found, aim.field)))


def _name(tuned: Tuned, at: int) -> str:
    names = [name for name, number in (("base", 0), ("tuned", tuned.chosen)) if at == number]
    return " = ".join(names) or f"trial {at}"


def report(tuned: Tuned) -> str:
    """The whole page."""
    names = svg.legend([run.policy for run in tuned.figures.runs])
    cut = tuned.split
    lead = [
        f"{tuned.found.tried} profiles were tried on {len(cut.train.jobs):,} jobs, the promising ones on all of these.",
        f"They are judged by the {len(cut.held.jobs):,} jobs that came after. Seed {tuned.seed}.",
        verdict(tuned),
    ]
    runs = tuned.figures.runs
    parts = [
        section("On held-out jobs", comparison(runs), note="Jobs that no trial has seen, on an empty cluster."),
        section("What was changed", _changes(tuned)),
        section("The Pareto front", table(front_header(tuned), _marked(front_rows(tuned))), note=_FRONT_NOTE),
        *_scatters(tuned),
        section("Wait on held-out jobs", charts.cdf(runs, "wait", "seconds", lambda jobs: jobs.wait_s), names),
        section("Queue depth on held-out jobs", charts.queue(runs), names),
    ]
    return page(f"Tuning on {tuned.trace}", lead, parts)


_FRONT_NOTE = "Nobody else is at least as good in every objective and better in one, on training jobs."


def _changes(tuned: Tuned) -> str:
    if not tuned.settings:
        return "<p>Nothing.</p>"
    return table(
        ["setting", "value"], ([cell(key), cell(value or "taken away")] for key, value in tuned.settings.items())
    )


def _marked(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[cell(words) for words in row] for row in rows]


def _scatters(tuned: Tuned) -> list[str]:
    """The first objective against each other one that differs at all."""
    used = {_kind(tuned, at) for at in range(len(tuned.found.trials))}
    boxes = "".join(
        f'<li><span class="box {svg.colour(kind)}"></span> {svg.text(words)}</li>'
        for kind, words in _WORDS.items()
        if kind in used
    )
    names = f'<ul class="legend">{boxes}</ul>'
    pairs = [
        (tuned.aims[0], other)
        for other in tuned.aims[1:]
        if len({_words(other, trial.summary) for trial in tuned.found.trials}) > 1
    ]
    return [
        section(
            f"{_METRICS[y.field].title} against {_METRICS[x.field].title}",
            _scatter(tuned, x, y),
            names,
            note=_points(tuned),
        )
        for x, y in pairs
    ]


def _points(tuned: Tuned) -> str:
    return (
        f"Each of {len(tuned.found.trials)} profiles on all training jobs. Hold the pointer over one for its settings."
    )


def _scatter(tuned: Tuned, x: Aim, y: Aim) -> str:
    points = [
        (
            float(getattr(trial.summary, x.field)),
            float(getattr(trial.summary, y.field)),
            _kind(tuned, at),
            _title(tuned, at, x, y),
        )
        for at, trial in enumerate(tuned.found.trials)
    ]
    across, up = _METRICS[x.field], _METRICS[y.field]
    return charts.scatter(points, _axis(across), _axis(up), (_unit(across), _unit(up)))


def _title(tuned: Tuned, at: int, x: Aim, y: Aim) -> str:
    trial = tuned.found.trials[at]
    figures = ", ".join(f"{_METRICS[aim.field].title} {_words(aim, trial.summary)}" for aim in (x, y))
    return f"{_name(tuned, at)}: {figures}; {_said(trial) or 'as it was'}"


def _kind(tuned: Tuned, at: int) -> int:
    if at in (0, tuned.chosen):
        return _BASE if at == 0 else _TUNED
    return _FRONT if at in tuned.found.front else _BEATEN


def _axis(metric: ComparedMetric) -> str:
    return f"{metric.title} ({'less' if metric.better == 'low' else 'more'} is better)"


def _unit(metric: ComparedMetric) -> Unit:
    return _UNITS.get(metric.kind, "number")


# ---- for programs


SCHEMA = "ares.tuning/1"


def figures(tuned: Tuned) -> dict[str, Any]:
    """Of the front: settings and figures on training and held-out jobs. `heldOut` is of base and tuned, in full."""
    trials = tuned.found.trials
    front = [
        {"settings": trials[at].settings, "training": plain(trials[at].summary), "heldOut": plain(tuned.held[at])}
        for at in tuned.front
    ]
    return {
        "schema": SCHEMA,
        "trace": tuned.trace,
        "seed": tuned.seed,
        "objectives": [aim.name for aim in tuned.aims],
        "trainingJobs": len(tuned.split.train.jobs),
        "heldOutJobs": len(tuned.split.held.jobs),
        "splitAtS": tuned.split.at,
        "tried": tuned.found.tried,
        "completed": len(trials),
        "helps": tuned.helps,
        "gainPercent": tuned.gain * 100,
        "gainInterval": None if (sure := tuned.interval) is None else _interval(sure),
        "longestWaitBearable": tuned.bearable,
        "settings": tuned.settings,
        "training": [plain(trials[at].summary) for at in (0, tuned.chosen)],
        "heldOut": plain(tuned.figures),
        "front": front,
    }
