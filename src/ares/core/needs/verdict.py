"""Whether all that a job needs has happened, with the reason in words."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ares.core.needs.standing import ParentStanding, Verdict, verdict
from ares.model.job import JobSpec, Need, NeedCondition

# How the parent named so stands; None when it is no longer kept.
Standings = Callable[[str], ParentStanding | None]

_VERBS: Mapping[NeedCondition, str] = {
    "success": "succeed", "failure": "fail", "end": "end", "start": "start", "checkpoint": "save a checkpoint",
}  # fmt: skip
_NAMED_MAX = 3


class NeedsVerdict(NamedTuple):
    """`parents` are those that decided it: open ones while it is open, others that made it impossible."""

    verdict: Verdict
    message: str
    parents: tuple[str, ...] = ()
    met: int = 0
    wanted: int = 0


def parents_of(need: Need, index: int | None) -> tuple[str, ...]:
    """The jobs that a need names, for the task with this index of an array; or the data, which counts as one."""
    if need.data is not None:
        return (need.data,)
    return tuple(f"{name}_{index}" for name in need.parents) if need.each else need.parents


def all_parents(spec: JobSpec, index: int | None) -> Iterable[str]:
    return (name for need in spec.needs for name in parents_of(need, index))


def judge(spec: JobSpec, index: int | None, standings: Standings) -> NeedsVerdict:
    """The first need that cannot be met decides; else the first that is open."""
    open_: NeedsVerdict | None = None
    met = 0
    for need in spec.needs:
        found = _judge_need(need, parents_of(need, index), standings)
        if found.verdict == "impossible":
            return found
        met += found.verdict == "met"
        open_ = open_ or (found if found.verdict == "open" else None)
    return open_ or NeedsVerdict("met", _happened(spec), met=met, wanted=len(spec.needs))


def _judge_need(need: Need, parents: tuple[str, ...], standings: Standings) -> NeedsVerdict:
    if len(parents) == 1 and verdict(need.on, standings(parents[0]), need.at_step) == "met":
        # Most needs are of one job, and are looked at when it has ended.
        return NeedsVerdict("met", "", parents, 1, need.enough)
    if need.data is not None:
        return NeedsVerdict("open", f"it waits for {need.data} to be published", parents, 0, 1)
    verdicts = {name: verdict(need.on, standings(name), need.at_step) for name in parents}
    by = {kind: tuple(name for name in parents if verdicts[name] == kind) for kind in ("met", "open", "impossible")}
    met, enough = len(by["met"]), need.enough
    if met >= enough:
        return NeedsVerdict("met", "", by["met"], met, enough)
    wanted = named(parents) if enough == len(parents) else f"{enough} of {named(parents)}"
    step = "" if need.at_step is None else f" of step {need.at_step:,} or later"
    what = f"{wanted} to {_VERBS[need.on]}{step}"
    if met + len(by["open"]) < enough:
        few = "it can no longer" if len(parents) == 1 else f"{named(by['impossible'])} can no longer"
        return NeedsVerdict("impossible", f"it needs {what}: {few}", by["impossible"], met, enough)
    so_far = "" if enough == 1 else f" ({met} of {enough} so far)"
    return NeedsVerdict("open", f"it waits for {what}{so_far}", by["open"], met, enough)


def named(parents: tuple[str, ...]) -> str:
    """job a; jobs a, b and c; jobs a, b, c and 7 more."""
    if len(parents) == 1:
        return f"job {parents[0]}"
    if len(parents) <= _NAMED_MAX:
        return f"jobs {', '.join(parents[:-1])} and {parents[-1]}"
    return f"jobs {', '.join(parents[:_NAMED_MAX])} and {len(parents) - _NAMED_MAX} more"


def _happened(spec: JobSpec) -> str:
    count, data = sum(len(need.parents) for need in spec.needs), [need.data for need in spec.needs if need.data]
    jobs = f"what it waited for of {count} job{'' if count == 1 else 's'} has happened"
    return ", and ".join((f"published: {', '.join(data)}", *([jobs] if count else ()))) if data else jobs
