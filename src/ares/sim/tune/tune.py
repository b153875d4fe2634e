"""Tuning: search on the first weeks, choose, and judge by the weeks after."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ares.check.replay.trace import Trace, TraceJob
from ares.core.schedule.profiles import changed, wrong
from ares.model.profile import Profile
from ares.sim.report.figures import Figures, figures
from ares.sim.study.runs import Progress, StudyRunner, Task
from ares.sim.study.study import StudyWorld
from ares.sim.traces.engine import ReplayOptions
from ares.sim.traces.outcome import Outcome
from ares.sim.traces.policies import POLICIES, ReplayPolicy, UnknownPolicy
from ares.sim.traces.summary import Summary
from ares.sim.tune.evidence import GAIN_MIN, GainInterval, gain_interval, surely_better, waits_bearably
from ares.sim.tune.search import Aim, SearchResult, Settings, TuneTrial, aims, best, costs, search
from ares.sim.tune.space import space

WEEK_S = 7 * 86_400.0
# From this many weeks on the cut lies between two of them: weeks have a rhythm.
_WEEKS_MIN = 4


class TooShort(ValueError):
    """One of the two sides would be without jobs."""

    fix = "take a longer part of the trace, or another --holdout"


class Split(NamedTuple):
    train: Trace
    held: Trace
    # When the jobs of the held-out part begin to come, in the time of the trace.
    at: float


def split(trace: Trace, holdout: float) -> Split:
    """By time of submission: no job that comes after the cut is seen in training."""
    jobs = trace.jobs
    if len(jobs) < 2:
        raise TooShort(f"{trace.name} has {len(jobs)} jobs: tuning needs some to learn from and others to be judged by")
    first, last = jobs[0].submit, jobs[-1].submit
    weeks = (last - first) / WEEK_S
    at = first + (1.0 - holdout) * (last - first)
    if weeks >= _WEEKS_MIN:
        at = first + min(max(round(weeks * (1.0 - holdout)), 1), int(weeks)) * WEEK_S
    before = tuple(job for job in jobs if job.submit < at)
    after = tuple(job for job in jobs if job.submit >= at)
    if not before or not after:
        raise TooShort(f"of {len(jobs)} jobs {len(before)} come before the cut and {len(after)} after it")
    return Split(_of(trace, before), _of(trace, after), at)


def _of(trace: Trace, jobs: tuple[TraceJob, ...]) -> Trace:
    return dataclasses.replace(trace, jobs=jobs)


# The chosen profile may be worse than the base by this part in aims other than the first.
TOLERANCE = 0.02
_FRONT_MAX = 12
_TRAIN, _HELD = 0, 1

# How many replays are over, of about how many.
Count = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Goal:
    """What to look for, and for how long."""

    aims: tuple[str, ...] = ()
    trials: int = 40
    holdout: float = 0.3


@dataclass(frozen=True, slots=True)
class Tuned:
    """`chosen` and `front` are places in `found.trials`; the first of these is the base profile."""

    trace: str
    seed: int
    aims: tuple[Aim, ...]
    split: Split
    found: SearchResult
    front: tuple[int, ...]
    chosen: int
    profile: Profile
    # On held-out jobs: of every trial in `front`, and of base and chosen with all that a report draws.
    held: dict[int, Summary]
    outcomes: tuple[Outcome, ...]
    figures: Figures

    @property
    def settings(self) -> Settings:
        return self.found.trials[self.chosen].settings

    @property
    def gain(self) -> float:
        """By which part of it the first aim is better on held-out jobs; below 0: worse."""
        base, chosen = (self.aims[0].cost(self.held[at]) for at in (0, self.chosen))
        return (base - chosen) / abs(base) if base else 0.0

    @property
    def interval(self) -> GainInterval | None:
        """How far the gain may be chance, by the same held-out jobs under both profiles."""
        return gain_interval(self.outcomes[0], self.outcomes[1], self.aims[0].field)

    @property
    def bearable(self) -> bool:
        """Whether no held-out job waits much longer than the longest did."""
        return waits_bearably(*(self.held[at].longest_wait_s for at in (0, self.chosen)))

    @property
    def helps(self) -> bool:
        """Better, surely so where that can be said, and not at the cost of the job that waits longest."""
        return self.bearable and surely_better(self.gain, self.interval)


def base_policy(named: ReplayPolicy) -> ReplayPolicy:
    """Named policies place any number of jobs in one cycle, which is for replays only."""
    if named.oracle:
        raise UnknownPolicy(f"{named.name} is an oracle: it has no profile that could be tuned")
    if POLICIES.get(named.name.partition("@")[0]) is None:
        return named
    most = Profile().max_placements_per_cycle
    return replace(named, profile=replace(named.profile, max_placements_per_cycle=most))


def tune(
    trace: Trace, base: ReplayPolicy, world: StudyWorld, goal: Goal, workers: int = 1, count: Count | None = None
) -> Tuned:
    """The same trace, base, seed and trials give the same profile, however many processes work on it."""
    cut = split(trace, goal.holdout)
    with StudyRunner((cut.train, cut.held), workers) as runner:
        bench = _Bench(runner, base, (world.options(cut.train), world.options(cut.held)), goal.trials, count)
        first = bench.trained([{}], 1.0)[0]
        goals = aims(goal.aims, first)
        there = space(base.profile, nodes=len(trace.nodes))
        found = search(there, goals, bench.trained, first, goal.trials, world.seed)
        front, chosen = _shown(found, goals), choose(found, goals)
        rest = [at for at in front if at not in (0, chosen)]
        outcomes = bench.compared(found.trials[chosen].settings)
        summaries = bench.held([found.trials[at].settings for at in rest])
    shown = figures(outcomes)
    ends = zip((0, chosen), (run.summary for run in shown.runs), strict=True)
    held = {**dict(zip(rest, summaries, strict=True)), **dict(ends)}
    profile = _with(base, found.trials[chosen].settings).profile
    return Tuned(
        trace.name, world.seed, goals, cut, found, front, chosen, profile, held, tuple(outcomes), shown
    )  # fmt: skip


class _Bench:
    """Tries settings out, and counts."""

    def __init__(
        self,
        runner: StudyRunner,
        base: ReplayPolicy,
        options: tuple[ReplayOptions, ReplayOptions],
        trials: int,
        count: Count | None,
    ) -> None:
        self._runner = runner
        self._base = base
        self._options = options
        self._count = count
        self._over = 0
        # Some go on after a first short try, and some of the front are held against what they have not seen.
        self._about = trials + trials // 5 + _FRONT_MAX // 2

    def trained(self, settings: Sequence[Settings], part: float) -> list[Summary]:
        tasks = [self._task(_TRAIN, changes, self._base.name, part) for changes in settings]
        return self._runner.summaries(tasks, self._counting())

    def held(self, settings: Sequence[Settings]) -> list[Summary]:
        tasks = [self._task(_HELD, changes, self._base.name) for changes in settings]
        return self._runner.summaries(tasks, self._counting())

    def compared(self, settings: Settings) -> list[Outcome]:
        """Base and tuned on held-out jobs, with all that a report draws."""
        tasks = [self._task(_HELD, {}, self._base.name), self._task(_HELD, settings, "tuned")]
        return [replay.outcome for replay in self._runner.replays(tasks, self._counting())]

    def _task(self, trace: int, settings: Settings, name: str, part: float = 1.0) -> Task:
        policy = replace(_with(self._base, settings), name=name)
        return Task(trace, policy, self._options[trace], part)

    def _counting(self) -> Progress:
        ended: set[int] = set()

        def progress(at: int, done: int, total: int) -> None:
            if done >= total and at not in ended:
                ended.add(at)
                self._over += 1
                if self._count is not None:
                    self._count(self._over, max(self._about, self._over))

        return progress


def choose(found: SearchResult, goals: Sequence[Aim]) -> int:
    """The best in the first aim of those hardly worse than the base in any other and in the longest wait; the base if
    none is better."""
    base = [aim.cost(found.trials[0].summary) for aim in goals]

    def bearable(trial: TuneTrial) -> bool:
        own = [aim.cost(trial.summary) for aim in goals]
        no_worse = all(mine <= its + abs(its) * TOLERANCE for mine, its in zip(own[1:], base[1:], strict=True))
        return (
            no_worse
            and waits_bearably(found.trials[0].summary.longest_wait_s, trial.summary.longest_wait_s)
            and own[0] < base[0] - abs(base[0]) * GAIN_MIN
        )

    able = [at for at in found.front if bearable(found.trials[at])]
    return min(able, key=lambda at: goals[0].cost(found.trials[at].summary), default=0)


def _shown(found: SearchResult, goals: Sequence[Aim]) -> tuple[int, ...]:
    """The front, or those of it that stand apart."""
    table = costs(goals, [found.trials[at].summary for at in found.front])
    return tuple(sorted(found.front[at] for at in best(table, _FRONT_MAX)))


def _with(base: ReplayPolicy, settings: Settings) -> ReplayPolicy:
    profile = changed(base.profile, settings)
    why = wrong(profile)
    if why:
        raise ValueError(f"the search made a profile that cannot be used: {why}")
    return replace(base, profile=profile)


def written(tuned: Tuned, version: Any = None) -> dict[str, Any]:
    """The profile as `ares profile edit -f` takes it, and where it comes from."""
    base, chosen = tuned.held[0], tuned.held[tuned.chosen]
    held = {aim.name: {"base": getattr(base, aim.field), "tuned": getattr(chosen, aim.field)} for aim in tuned.aims}
    about = {
        "trace": tuned.trace,
        "seed": tuned.seed,
        "trials": tuned.found.tried,
        "settings": tuned.settings,
        "heldOut": held,
    }
    head = {} if version is None else {"version": version}
    return {**head, "profile": msgspec.to_builtins(tuned.profile), "tuned": about}
