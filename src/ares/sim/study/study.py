"""From a trace, policies and a question of the kind "what if" to outcomes and figures."""

import csv
import math
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from ares.check.replay.trace import BadTrace, Trace, saving, scaled
from ares.core.queue.factors import BY_RUN_TIME
from ares.model.profile import Profile, Weight
from ares.sim.report.figures import Figures, figures
from ares.sim.study.runs import Progress, StudyRunner, Task, cut
from ares.sim.traces.engine import Estimates, EventOrder, ReplayOptions
from ares.sim.traces.failures import NodeFailure, drawn
from ares.sim.traces.formats import read
from ares.sim.traces.formats.nodes import nodes_of
from ares.sim.traces.outcome import Outcome
from ares.sim.traces.policies import ReplayPolicy

# ---- what if


FAIR_SHARE = "fair-share"
_REPAIR_S = 4 * 3600.0
_COLUMNS = ("at", "node", "lasts_s")


class DoesNotGo(ValueError):
    """The question makes no sense for a policy."""

    fix = "leave that policy out, or ask without --fair-share"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """1.2 GPUs: 20 % more nodes of every kind. A load of 1.2: jobs come in 1/1.2 of the time."""

    gpus: float = 1.0
    load: float = 1.0
    fair_share: bool = False
    # Jobs save their work when they have to leave, and take so long to go on from it.
    checkpoint_s: float | None = None

    def words(self, trace: Trace) -> tuple[str, ...]:
        """What is asked; nothing when all stays as it is."""
        what = "GPUs" if any(node.gpus for node in trace.nodes) else "CPUs"
        found = [
            (self.gpus != 1.0, f"{_percent(self.gpus)} {what}"),
            (self.load != 1.0, f"{_percent(self.load)} load"),
            (self.fair_share, "fair share"),
            (self.checkpoint_s is not None, "checkpoints"),
        ]
        return tuple(words for asked, words in found if asked)

    def trace(self, trace: Trace) -> Trace:
        found = trace if self.checkpoint_s is None else saving(trace, self.checkpoint_s)
        return scaled(found, gpus=self.gpus, load=self.load)

    def policy(self, policy: ReplayPolicy, trace: Trace) -> ReplayPolicy:
        """Named so that it can be told from the one it comes from."""
        profile = shared(policy) if self.fair_share else policy.profile
        return replace(policy, name=f"{policy.name}, {', '.join(self.words(trace))}", profile=profile)


def shared(policy: ReplayPolicy) -> Profile:
    """The profile with fair share before everything else that orders jobs; as it is if that already counts."""
    profile = policy.profile
    order = profile.order
    if policy.oracle:
        raise DoesNotGo(f"{policy.name} is an oracle, which knows no shares")
    if any(factor.name == FAIR_SHARE and factor.weight for factor in order.primary):
        return profile
    names = [factor.name for factor in (*order.primary, *order.secondary) if factor.name in BY_RUN_TIME]
    if names:
        raise DoesNotGo(f"{policy.name} orders jobs by {names[0]}, which does not go with fair share")
    by_share = (Weight(name=FAIR_SHARE, weight=1.0),)
    return replace(profile, order=replace(order, primary=by_share, secondary=order.primary))


def failures_of(text: str, trace: Trace, seed: int, seconds: Sequence[float] | None) -> tuple[NodeFailure, ...]:
    """From a file (at,node,lasts_s), or drawn: `seconds` are the means between failures of a node and to repair."""
    if seconds is None:
        return _told(Path(text), {node.name for node in trace.nodes})
    first, last = trace.jobs[0].submit, trace.jobs[-1].submit
    repair_s = seconds[1] if len(seconds) > 1 else _REPAIR_S
    # How long the replay lasts is not known before; after the last submission there is as much again.
    until = last + max(last - first, 30 * 86_400.0)
    names = [node.name for node in trace.nodes]
    return drawn(names, first, until, mtbf_s=seconds[0], mttr_s=repair_s, seed=seed)


def _told(path: Path, nodes: Set[str]) -> tuple[NodeFailure, ...]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            what = f"column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing"
            raise BadTrace(path.name, 1, what, f"a list of failures has the columns {', '.join(_COLUMNS)}")
        return tuple(_failure(path.name, rows.line_num, row, nodes) for row in rows)


def _failure(file: str, line: int, row: dict[str, str | None], nodes: Set[str]) -> NodeFailure:
    try:
        at, lasts_s = float(row["at"] or "nan"), float(row["lasts_s"] or "nan")
    except ValueError as error:
        raise BadTrace(file, line, str(error), "write times in seconds") from None
    if not (math.isfinite(at) and math.isfinite(lasts_s) and lasts_s > 0 and row["node"]):
        raise BadTrace(file, line, "a failure needs a time, a node, and more than 0 seconds", "correct the line")
    if row["node"] not in nodes:
        raise BadTrace(
            file, line, f"there is no node {row['node']!r}", f"there are {', '.join(sorted(nodes)[:3])}, ..."
        )
    return NodeFailure(at=at, node=row["node"], lasts_s=lasts_s)


def _percent(factor: float) -> str:
    change = (factor - 1.0) * 100
    return f"{abs(change):.3g} % {'more' if change > 0 else 'less'}"


# ---- the study


@dataclass(frozen=True, slots=True)
class Source:
    """Where the jobs and the nodes come from, and which part of them is wanted."""

    path: Path
    format: str | None = None
    nodes: str | None = None
    since_s: float = 0.0
    until_s: float | None = None
    first: int | None = None

    def trace(self) -> Trace:
        """Raises BadTrace, or NoJobs."""
        nodes = None if self.nodes is None else nodes_of(self.nodes)
        found = read(self.path, self.format, nodes)
        return cut(found, since_s=self.since_s, until_s=self.until_s, first=self.first)


@dataclass(frozen=True, slots=True)
class StudyWorld:
    """What holds for every replay of a study."""

    seed: int = 0
    estimates: Estimates | None = None
    event_order: EventOrder = "instant"
    # A file, or the text that the means were read from.
    failures: str | None = None
    failure_means_s: tuple[float, ...] | None = None
    check: bool = False
    starts: bool = False

    def options(self, trace: Trace) -> ReplayOptions:
        failures = () if self.failures is None else failures_of(self.failures, trace, self.seed, self.failure_means_s)
        return ReplayOptions(seed=self.seed, estimates=self.estimates, event_order=self.event_order, failures=failures)


@dataclass(frozen=True, slots=True)
class Study:
    traces: tuple[Trace, ...]
    tasks: tuple[Task, ...]

    @property
    def names(self) -> list[str]:
        return [task.policy.name for task in self.tasks]


@dataclass(frozen=True, slots=True)
class Done:
    outcomes: tuple[Outcome, ...]
    figures: Figures


def study(
    trace: Trace,
    policies: Sequence[ReplayPolicy],
    world: StudyWorld,
    what_if: WhatIf,
    *,
    baseline: bool = True,
) -> Study:
    """Every policy as it is, then the same with what the question changes; without `baseline` only the latter."""
    asked = bool(what_if.words(trace))
    traces = (trace, what_if.trace(trace)) if asked else (trace,)
    options = [world.options(trace) for trace in traces]
    tasks: list[Task] = []
    for policy in policies:
        if baseline or not asked:
            tasks.append(Task(0, policy, options[0], check=world.check, starts=world.starts))
        if asked:
            tasks.append(Task(1, what_if.policy(policy, trace), options[1], check=world.check, starts=world.starts))
    return Study(traces, tuple(tasks))


def run(asked: Study, workers: int, progress: Progress | None = None) -> Done:
    """On as many cores as there are replays, at most `workers`."""
    with StudyRunner(asked.traces, min(workers, len(asked.tasks)), len(asked.tasks)) as runner:
        ran = runner.replays(asked.tasks, progress)
    outcomes = tuple(replay.outcome for replay in ran)
    return Done(outcomes, figures(outcomes, [replay.judged for replay in ran]))


def renamed(policies: Sequence[ReplayPolicy]) -> list[ReplayPolicy]:
    """Two files of one name are told apart by a number."""
    seen: dict[str, int] = {}
    found: list[ReplayPolicy] = []
    for policy in policies:
        seen[policy.name] = seen.get(policy.name, 0) + 1
        found.append(policy if seen[policy.name] == 1 else replace(policy, name=f"{policy.name} ({seen[policy.name]})"))
    return found
