"""A workflow as it was sent: whether its jobs can follow each other, and which come of which."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ares.core.admit.arrays import indices
from ares.core.refusal import Refusal
from ares.model.job import PARENTS_OUTSIDE_MAX, JobSpec, Need, Parent

FLOW_JOBS_MAX = 10_000
_PATH_SHOWN = 12


class Workflow(NamedTuple):
    """The names of its jobs, each after all that it waits for; and the jobs outside that some of them wait for."""

    order: tuple[str, ...]
    outside: tuple[str, ...]


def arranged(jobs: Mapping[str, JobSpec]) -> Workflow | Refusal:
    if not 1 <= len(jobs) <= FLOW_JOBS_MAX:
        message = f"the workflow has {len(jobs):,} jobs, 1 to {FLOW_JOBS_MAX:,} are allowed"
        return Refusal(code="flow-invalid", message=message, fix="split it, or make like jobs an array")
    for name, spec in jobs.items():
        wrong = _wrong(name, spec, jobs)
        if wrong is not None:
            return Refusal(code="flow-invalid", message=f"job {name!r}: {wrong[0]}", fix=wrong[1])
    parents = {name: [p for need in spec.needs for p in need.parents] for name, spec in jobs.items()}
    outside = dict.fromkeys(parent for names in parents.values() for parent in names if parent not in jobs)
    if len(outside) > PARENTS_OUTSIDE_MAX:
        message = f"the workflow waits for {len(outside):,} jobs outside, at most {PARENTS_OUTSIDE_MAX} are allowed"
        return Refusal(code="needs-too-many", message=message, fix="make these jobs part of the workflow, or an array")
    order = _ordered(parents, jobs)
    if len(order) < len(jobs):
        path = _cycle(parents, set(jobs) - set(order))
        shown = [*path[:_PATH_SHOWN], "..."] if len(path) > _PATH_SHOWN else path
        message = f"the jobs wait for each other in a circle: {' -> '.join(shown)}"
        return Refusal(code="flow-cycle", message=message, fix="remove one of these needs")
    return Workflow(tuple(order), tuple(outside))


def _wrong(name: str, spec: JobSpec, jobs: Mapping[str, JobSpec]) -> tuple[str, str] | None:
    """What is wrong with it, and what to do."""
    if spec.name not in ("job", name):
        return f"it is called {spec.name!r} as well", "leave its name out: a job of a workflow has one name"
    for need in spec.needs:
        for parent in need.parents:
            other = jobs.get(parent)
            if parent == name:
                return "it waits for itself", "remove that need"
            if other is None:
                continue
            if other.finally_ and not spec.finally_:
                return f"it waits for {parent!r}, which runs when all others have ended", "remove that need"
            if need.on == "success" and other.restart == "always":
                return f"it waits for the success of {parent!r}, which never ends", "wait for its start"
            if need.each and (missing := _missing(spec, other)) is not None:
                return f"{parent!r} has no task {missing}, which a task of it would wait for", "use indices of both"
    return None


def _missing(spec: JobSpec, parent: JobSpec) -> int | None:
    mine, theirs = indices(spec.array or ""), () if parent.array is None else indices(parent.array)
    if not isinstance(mine, tuple) or not isinstance(theirs, tuple):
        return None
    return min(set(mine) - set(theirs), default=None)


def _ordered(parents: Mapping[str, Sequence[str]], jobs: Mapping[str, JobSpec]) -> list[str]:
    """All that are in no circle and after none, in an order in which parents come first."""
    open_ = {name: len({parent for parent in names if parent in jobs}) for name, names in parents.items()}
    children: dict[str, list[str]] = {}
    for name, names in parents.items():
        for parent in {parent for parent in names if parent in jobs}:
            children.setdefault(parent, []).append(name)
    order = [name for name, count in open_.items() if not count]
    for name in order:
        for child in children.get(name, ()):
            open_[child] -= 1
            if not open_[child]:
                order.append(child)
    return order


def _cycle(parents: Mapping[str, Sequence[str]], among: set[str]) -> list[str]:
    """A circle of jobs that wait for each other, the first named again at its end."""
    path: dict[str, None] = {}
    name = min(among)
    while name not in path:
        path[name] = None
        name = min(parent for parent in parents[name] if parent in among)
    names = list(path)
    return [*names[names.index(name) :], name]


def descendants(jobs: Mapping[str, JobSpec], first: Sequence[str]) -> set[str]:
    """These jobs and all that wait for any of them, and so on; jobs that run at the end come with them."""
    children: dict[str, list[str]] = {}
    for name, spec in jobs.items():
        for need in spec.needs:
            for parent in need.parents:
                children.setdefault(parent, []).append(name)
    found = dict.fromkeys(first)
    queue = list(first)
    for name in queue:
        for child in children.get(name, ()):
            if child not in found:
                found[child] = None
                queue.append(child)
    return {*found, *(name for name, spec in jobs.items() if spec.finally_)}


def renamed(spec: JobSpec, names: Mapping[str, str]) -> tuple[Need, ...]:
    """Its needs, with jobs by their new names where they have one."""

    def of(need: Need) -> Need:
        if need.data is not None:
            return need
        job = None if need.job is None else names.get(need.job, need.job)
        parents = tuple(Parent(job=names.get(parent.job, parent.job)) for parent in need.of)
        return Need(job=job, of=parents, k=need.k, on=need.on, each=need.each)

    return tuple(of(need) for need in spec.needs)
