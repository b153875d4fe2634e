"""The smallest change to a job that would start it now: tried on the cluster as it is, not guessed."""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import inf
from typing import Any, NamedTuple

from msgspec.structs import replace

from ares.api.decisions import Change
from ares.core.queue.order import account_of
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.trial import Trial
from ares.core.steps import Steps, in_steps
from ares.core.text import span
from ares.model.job import TOPOLOGY_LEVELS, JobSpec, Toleration, TopologyWish
from ares.model.state import JobState


class _SpecChange(NamedTuple):
    cost: float
    fields: dict[str, Any]
    message: str
    spec: JobSpec


# Nothing is booked further ahead.
_LONGEST_S = 400 * 86_400
# What giving up a wish about the place costs, against shares of resources between 0 and 1.
_NUMA, _LEVEL, _TOLERATE, _WISH, _MODEL, _REGION, _SPREAD = 0.05, 0.1, 0.2, 0.3, 0.35, 0.5, 0.1


@in_steps
def smallest_change(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Steps[Change | None]:
    """None when the job would start as it is, or when no change of it would help."""
    if _Trial(cluster, state, now).starts(spec):
        return None
    found: list[_SpecChange] = []
    for maker in _CHANGES:
        trial = _Trial(cluster, state, now)
        found += [option for option in maker(spec, trial) if trial.starts(option.spec)]
        yield
    best = min(found, key=lambda option: (option.cost, sorted(option.fields)), default=None)
    trial = _Trial(cluster, state, now)
    for number, (cost, wishes) in enumerate(_sets(spec, trial)):
        if number == _SETS_MAX or (best is not None and cost >= best.cost):
            break
        if number and number % _SETS_A_STEP == 0:
            yield
            trial = _Trial(cluster, state, now)
        option = _together(spec, trial, wishes)
        if option is not None and trial.starts(option.spec):
            best = option
            break
    if best is None:
        return None
    return Change(fields=best.fields, message=best.message, cost=round(best.cost, 4))


class _Trial:
    """Places a changed job on the cluster and takes it back."""

    def __init__(self, cluster: Cluster, state: JobState, now: float) -> None:
        cluster.prepare()
        self.cluster = cluster
        self._state = state
        self._trial = Trial.what_if(cluster, now)

    def starts(self, spec: JobSpec) -> bool:
        """Whether the job would start now; beside reservations, by how long it is planned to run."""
        return self._trial.tried(self.cluster.waiting.key_of(self._state, spec), self.runs_s(spec)) is not None

    def runs_s(self, spec: JobSpec) -> float:
        if not self.cluster.bookings:
            return inf
        runs = self.cluster.predictor.estimate(spec, account_of(self._state))
        return self.cluster.waiting.run_times.held_s(runs, spec)

    def largest(self, low: int, high: int, made: Callable[[int], JobSpec]) -> int | None:
        """The largest number from `low` to `high` with which the job starts: fewer never makes it harder."""
        if low > high or not self.starts(made(low)):
            return None
        while low < high:
            middle = (low + high + 1) // 2
            if self.starts(made(middle)):
                low = middle
            else:
                high = middle - 1
        return low


def _resources(spec: JobSpec, **changes: Any) -> JobSpec:
    return replace(spec, resources=replace(spec.resources, **changes))


# The number comes first.
_AMOUNTS: dict[str, Callable[[int], str]] = {
    "gpus": lambda count: f"{count:,} GPU{'' if count == 1 else 's'}",
    "gpuMilli": lambda milli: f"{milli / 10:g}% of each GPU",
    "cpuMilli": lambda milli: f"{milli / 1000:g} CPU{'' if milli == 1000 else 's'}",
    "memoryMib": lambda mib: f"{mib:,} MiB of memory",
}


def _less(spec: JobSpec, trial: _Trial, name: str, field: str) -> Iterator[_SpecChange]:
    asked = getattr(spec.resources, name)
    most = trial.largest(1, asked - 1, lambda value: _resources(spec, **{name: value}))
    if most is not None:
        words = _AMOUNTS[field]
        message = f"ask for {words(most)} instead of {words(asked).split()[0]}"
        yield _SpecChange(
            (asked - most) / asked, {f"resources.{field}": most}, message, _resources(spec, **{name: most})
        )


def _fewer_gpus(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    if spec.resources.gpus > 1:
        yield from _less(spec, trial, "gpus", "gpus")


def _smaller_share(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    if spec.resources.gpus:
        yield from _less(spec, trial, "gpu_milli", "gpuMilli")


def _less_cpu(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    yield from _less(spec, trial, "cpu_milli", "cpuMilli")


def _less_memory(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    yield from _less(spec, trial, "memory_mib", "memoryMib")


def _smaller_gpus(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    asked = spec.resources.gpu_memory_mib
    most = trial.largest(0, asked - 1, lambda value: _resources(spec, gpu_memory_mib=value)) if asked else None
    if most is not None:
        message = f"ask for GPUs with {most:,} MiB of memory instead of {asked:,}"
        changed = _resources(spec, gpu_memory_mib=most)
        yield _SpecChange((asked - most) / asked, {"resources.gpuMemoryMib": most}, message, changed)


def _any_model(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    if spec.resources.gpu_model is not None:
        message = f"take any GPU model instead of {spec.resources.gpu_model}"
        yield _SpecChange(_MODEL, {"resources.gpuModel": None}, message, _resources(spec, gpu_model=None))


def _fewer_devices(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    for kind, asked in spec.resources.devices.items():

        def made(count: int, kind: str = kind) -> JobSpec:
            return _resources(spec, devices={**spec.resources.devices, kind: count})

        most = trial.largest(1, asked - 1, made)
        if most is not None:
            message = f"ask for {most} {kind} instead of {asked}"
            yield _SpecChange((asked - most) / asked, {f"resources.devices.{kind}": most}, message, made(most))


def _fewer_ranks(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    gang = spec.gang
    if gang is None or gang.ranks == 1:
        return
    least = gang.min_ranks or gang.ranks
    most = trial.largest(1, least - 1, lambda ranks: replace(spec, gang=replace(gang, min_ranks=ranks)))
    if most is not None:
        message = f"let the gang start with {most} of its {gang.ranks} ranks"
        changed = replace(spec, gang=replace(gang, min_ranks=most))
        yield _SpecChange((gang.ranks - most) / gang.ranks, {"gang.minRanks": most}, message, changed)


def _spread(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    gang = spec.gang
    if gang is not None and gang.ranks > 1 and gang.per_node is not None:
        changed = replace(spec, gang=replace(gang, per_node=None))
        yield _SpecChange(_SPREAD, {"gang.perNode": None}, "let several ranks share a node", changed)


def _numa(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    if spec.numa == "required":
        message = "prefer one NUMA node instead of requiring it"
        yield _SpecChange(_NUMA, {"numa": "preferred"}, message, replace(spec, numa="preferred"))


def _wider(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    wish = spec.topology
    if wish is None or not wish.required:
        return
    at = TOPOLOGY_LEVELS.index(wish.level)
    for further, level in enumerate(TOPOLOGY_LEVELS[at + 1 :], start=1):
        changed = replace(spec, topology=TopologyWish(level=level, required=True))
        yield _SpecChange(
            _LEVEL * further, {"topology.level": level}, f"require one {level} instead of one {wish.level}", changed
        )
    changed = replace(spec, topology=TopologyWish(level=wish.level))
    message = f"prefer one {wish.level} instead of requiring it"
    yield _SpecChange(_LEVEL * 5, {"topology.required": False}, message, changed)


def _tolerate(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    table = trial.cluster.table
    records = [record for row in table.tainted if (record := table.records[row]) is not None]
    taints = {(taint.key, taint.value) for record in records for taint in (*record.info.taints, *record.taints)}
    for key, value in sorted(taints):
        toleration = Toleration(key=key, value=value)
        if toleration not in spec.tolerations:
            changed = replace(spec, tolerations=(*spec.tolerations, toleration))
            fields = {
                "tolerations": [{"key": tolerated.key, "value": tolerated.value} for tolerated in changed.tolerations]
            }
            yield _SpecChange(_TOLERATE, fields, f"tolerate the taint {key}={value}", changed)


def _preemptible(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    """Spot nodes are for preemptible jobs."""
    if not spec.preemption.allowed:
        changed = replace(spec, preemption=replace(spec.preemption, allowed=True))
        yield _SpecChange(_WISH, {"preemption.allowed": True}, "allow that it is preempted", changed)


def _fewer_wishes(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    for key, value in spec.selector.items():
        rest = {name: text for name, text in spec.selector.items() if name != key}
        yield _SpecChange(
            _WISH, {f"selector.{key}": None}, f"do not require {key}={value}", replace(spec, selector=rest)
        )
    for at, term in enumerate(spec.affinity):
        if term.required:
            softer = (*spec.affinity[:at], replace(term, required=False), *spec.affinity[at + 1 :])
            message = f"prefer nodes by {term.key} instead of requiring it"
            yield _SpecChange(_WISH, {f"affinity.{at}.required": False}, message, replace(spec, affinity=softer))
    for at, near in enumerate(spec.job_affinity):
        if near.required:
            softer = (*spec.job_affinity[:at], replace(near, required=False), *spec.job_affinity[at + 1 :])
            message = (
                f"prefer {'distance from' if near.away else 'closeness to'} the jobs it names instead of requiring it"
            )
            yield _SpecChange(_WISH, {f"jobAffinity.{at}.required": False}, message, replace(spec, job_affinity=softer))
    if spec.residency:
        message = f"allow regions other than {', '.join(spec.residency)}"
        yield _SpecChange(_REGION, {"residency": []}, message, replace(spec, residency=()))


def _fewer_licences(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    for name, asked in spec.licences.items():

        def made(count: int, name: str = name) -> JobSpec:
            return replace(spec, licences={key: many for key, many in {**spec.licences, name: count}.items() if many})

        most = trial.largest(0, asked - 1, made)
        if most is not None:
            message = f"ask for {most} of licence {name} instead of {asked}" if most else f"do without licence {name}"
            yield _SpecChange((asked - most) / asked, {f"licences.{name}": most or None}, message, made(most))


def _shorter(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    """A job fits beside booked room if it ends before the reservation begins. The time limit makes sure of it."""
    if not trial.cluster.bookings:
        return
    asked = trial.runs_s(spec)
    most_s = _LONGEST_S if asked == inf else int(asked) - 1

    def made(seconds: int) -> JobSpec:
        models = {model: min(float(seconds), runs_s) for model, runs_s in spec.expected_runtimes_s.items()}
        limit_s = float(seconds) if spec.time_limit_s is None else min(float(seconds), spec.time_limit_s)
        return replace(spec, expected_runtime_s=float(seconds), expected_runtimes_s=models, time_limit_s=limit_s)

    most = trial.largest(1, most_s, made)
    if most is not None:
        cost = _WISH if asked == inf else (asked - most) / asked
        changed = made(most)
        fields: dict[str, Any] = {"expectedRuntimeS": changed.expected_runtime_s, "timeLimitS": changed.time_limit_s}
        fields |= {f"expectedRuntimesS.{model}": runs_s for model, runs_s in changed.expected_runtimes_s.items()}
        message = f"let it run for {span(most)} at most: the room is booked from then on"
        yield _SpecChange(cost, fields, message, changed)


def _scaled(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    """CPU, memory and GPUs together, by as little as will do, in steps of a thousandth."""
    wants = spec.resources

    def made(thousandths: int) -> JobSpec:
        return _resources(
            spec,
            cpu_milli=max(1, wants.cpu_milli * thousandths // 1000),
            memory_mib=max(1, wants.memory_mib * thousandths // 1000),
            gpus=max(1, wants.gpus * thousandths // 1000) if wants.gpus else 0,
        )

    most = trial.largest(1, 999, made)
    if most is None:
        return
    less = _tightened(made(most), spec, trial).resources
    fields: dict[str, Any] = {}
    cost = 0.0
    for name, value, asked in (
        ("cpuMilli", less.cpu_milli, wants.cpu_milli),
        ("memoryMib", less.memory_mib, wants.memory_mib),
        ("gpus", less.gpus, wants.gpus),
    ):
        if value != asked:
            fields[f"resources.{name}"] = value
            cost += (asked - value) / asked
    message = "ask for " + " and ".join(_AMOUNTS[name.removeprefix("resources.")](at) for name, at in fields.items())
    yield _SpecChange(cost, fields, message, replace(spec, resources=less))


def _tightened(changed: JobSpec, spec: JobSpec, trial: _Trial) -> JobSpec:
    """The changed job with as much of each resource given back as still starts it."""
    for name in ("cpu_milli", "memory_mib", "gpus"):
        asked, low = getattr(spec.resources, name), getattr(changed.resources, name)

        def made(value: int, name: str = name, changed: JobSpec = changed) -> JobSpec:
            return _resources(changed, **{name: value})

        most = trial.largest(low, asked, made)
        changed = changed if most is None else made(most)
    return changed


def _free_of_wishes(spec: JobSpec, trial: _Trial) -> Iterator[_SpecChange]:
    """All wishes about the place given up at once."""
    free = replace(
        spec, selector={}, affinity=(), job_affinity=(), residency=(), topology=None, numa="none",
        resources=replace(spec.resources, gpu_model=None, gpu_memory_mib=0),
    )  # fmt: skip
    if free == spec:
        return
    fields: dict[str, Any] = {"selector": {}, "affinity": [], "jobAffinity": [], "residency": [], "topology": None}
    fields |= {"numa": "none", "resources.gpuModel": None, "resources.gpuMemoryMib": 0}
    yield _SpecChange(2.0, fields, "give up every wish about where it runs", free)
    for option in _scaled(free, trial):
        yield option._replace(
            cost=3.0,
            fields=fields | option.fields,
            message=f"give up every wish about where it runs, and {option.message}",
        )


_Maker = Callable[[JobSpec, _Trial], Iterator[_SpecChange]]

# The smallest of all counts: a little less of everything may be less than all of one wish.
_CHANGES: tuple[_Maker, ...] = (
    _fewer_gpus, _smaller_share, _less_cpu, _less_memory, _smaller_gpus, _any_model, _fewer_devices, _fewer_ranks,
    _spread, _numa, _wider, _tolerate, _preemptible, _fewer_wishes, _fewer_licences,
    _shorter, _scaled, _free_of_wishes,
)  # fmt: skip

# ---- several wishes about the place given up together

_WISHES: tuple[_Maker, ...] = (_any_model, _spread, _numa, _wider, _tolerate, _preemptible, _fewer_wishes)
_TOGETHER_MAX = 3
# Sets that are tried, and how many of them before others have a turn.
_SETS_MAX, _SETS_A_STEP = 256, 16
# Wishes that sets are made of.
_EACH_MAX = 24

_Given = tuple[_Maker, str]


def _sets(spec: JobSpec, trial: _Trial) -> list[tuple[float, tuple[_Given, ...]]]:
    """All sets of two or three wishes, the least costly first; a wish by its maker and its words."""
    each = [(option.cost, (maker, option.message)) for maker in _WISHES for option in maker(spec, trial)]
    found = [
        (sum(cost for cost, _ in chosen), tuple(given for _, given in chosen))
        for count in range(2, _TOGETHER_MAX + 1)
        for chosen in combinations(each[:_EACH_MAX], count)
    ]
    return sorted(found, key=lambda option: option[0])


def _together(spec: JobSpec, trial: _Trial, wishes: tuple[_Given, ...]) -> _SpecChange | None:
    """The job without these wishes. None where giving up one leaves another without meaning."""
    made = _SpecChange(0.0, {}, "", spec)
    for maker, words in wishes:
        option = next((option for option in maker(made.spec, trial) if option.message == words), None)
        if option is None:
            return None
        message = f"{made.message} and {words}" if made.message else words
        made = _SpecChange(made.cost + option.cost, made.fields | option.fields, message, option.spec)
    return made
