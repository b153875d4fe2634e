"""From a trace, policies and a question to outcomes and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from ares.check.replay.trace import Trace
from ares.sim.report.figures import Figures, figures
from ares.sim.study.runs import Progress, StudyRunner, Task, cut
from ares.sim.study.whatif import WhatIf, failures_of
from ares.sim.traces.engine import Estimates, EventOrder, ReplayOptions
from ares.sim.traces.formats import read
from ares.sim.traces.formats.nodes import nodes_of
from ares.sim.traces.outcome import Outcome
from ares.sim.traces.policies import ReplayPolicy


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
