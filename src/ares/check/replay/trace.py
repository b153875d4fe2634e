"""A trace: which jobs came when, how long each really ran, and the nodes they came to."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import floor

from msgspec.structs import replace as put

from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.node import Gpu, NodeInfo

# More than any job of a trace that says nothing of memory asks for.
MEMORY_MIB = 1 << 24


class BadTrace(Exception):
    """A file that cannot be read as a trace: where, what is wrong, and what to do about it."""

    def __init__(self, file: str, line: int, what: str, do: str) -> None:
        super().__init__(f"{file}:{line}: {what}; {do}" if line else f"{file}: {what}; {do}")
        self.file = file
        self.line = line
        self.what = what
        self.do = do


class TraceJob(Record, frozen=True):
    """Only the simulator sees how long it runs; the scheduler sees the specification."""

    id: str
    # Seconds, by the trace's own clock.
    submit: float
    run_s: float
    spec: JobSpec
    tenant: str = "default"
    user: str = ""
    # By GPU model, where that makes a difference.
    runs_s: dict[str, float] = {}
    # The exit code it ends with, when that is not 0.
    fails: int | None = None
    # How long it takes to go on from saved work.
    restart_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of their submission."""

    name: str
    jobs: tuple[TraceJob, ...]
    nodes: tuple[NodeInfo, ...]
    # What was repaired or left out, counted.
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        late = next((job for before, job in pairwise(self.jobs) if job.submit < before.submit), None)
        if late is not None:
            raise ValueError(f"trace {self.name}: job {late.id} comes after one that was submitted later; sort them")


def node(name: str, cpus: float, gpus: int = 0, model: str = "", memory_mib: int = MEMORY_MIB) -> NodeInfo:
    """A machine of a trace, of which nothing else is known."""
    cards = tuple(Gpu(index=at, uuid=f"{name}-{at}", model=model or "GPU", memory_mib=81_920) for at in range(gpus))
    return NodeInfo(name=name, cpu_milli=round(cpus * 1000), memory_mib=memory_mib, gpus=cards)


def fleet(
    count: int, cpus: float, gpus: int = 0, model: str = "", memory_mib: int = MEMORY_MIB
) -> tuple[NodeInfo, ...]:
    wide = len(str(count - 1))
    return tuple(node(f"n{at:0{wide}d}", cpus, gpus, model, memory_mib) for at in range(count))


def in_order(jobs: Iterable[TraceJob]) -> tuple[tuple[TraceJob, ...], int]:
    """Sorted by submission, equal ones as they came; and how many came after a later one."""
    found = tuple(jobs)
    latest, late = float("-inf"), 0
    for job in found:
        late += job.submit < latest
        latest = max(latest, job.submit)
    return (tuple(sorted(found, key=lambda job: job.submit)) if late else found), late


# ---- scaled traces


def scaled(trace: Trace, *, gpus: float = 1.0, load: float = 1.0) -> Trace:
    """The same trace with `gpus` times the nodes of every kind, and with jobs that come `load` times as fast.

    Of a kind with one node the node itself grows. What that rounds to is among the warnings.
    """
    said: list[str] = []
    nodes = trace.nodes if gpus == 1.0 else _more(trace.nodes, gpus, said)
    jobs = trace.jobs if load == 1.0 else _faster(trace.jobs, load, said)
    return replace(trace, jobs=jobs, nodes=nodes, warnings=(*trace.warnings, *said))


def saving(trace: Trace, restart_s: float) -> Trace:
    """The same trace with jobs that save their work when they have to leave, and take so long to go on from it."""
    # Like jobs share their specification, as before.
    specs = {id(job.spec): job.spec for job in trace.jobs}
    saves = {
        at: put(spec, preemption=put(spec.preemption, allowed=True, checkpoint_signal="SIGUSR1"))
        for at, spec in specs.items()
    }
    jobs = tuple(put(job, spec=saves[id(job.spec)], restart_s=restart_s) for job in trace.jobs)
    return replace(trace, jobs=jobs)


def _more(nodes: tuple[NodeInfo, ...], factor: float, said: list[str]) -> tuple[NodeInfo, ...]:
    kinds: dict[str, list[NodeInfo]] = {}
    for info in nodes:
        kinds.setdefault(repr(_plain(info)), []).append(info)
    found: list[NodeInfo] = []
    for alike in kinds.values():
        found += [_grown(alike[0], factor, said)] if len(alike) == 1 else _counted(alike, factor, said)
    return tuple(found)


def _plain(info: NodeInfo) -> NodeInfo:
    """Without what tells it from others of its kind."""
    cards = tuple(put(card, uuid="") for card in info.gpus)
    return put(info, name="", hostname="", address="", gpus=cards, rack="", labels={}, devices={})


def _counted(alike: list[NodeInfo], factor: float, said: list[str]) -> list[NodeInfo]:
    count = max(1, floor(len(alike) * factor + 0.5))
    said.append(f"what if: {len(alike)} nodes like {alike[0].name} became {count} ({count / len(alike):.0%})")
    copies = [_named(alike[at % len(alike)], f"-x{at // len(alike)}") for at in range(len(alike), count)]
    return alike[:count] + copies


def _named(info: NodeInfo, ending: str) -> NodeInfo:
    cards = tuple(put(card, uuid=f"{card.uuid}{ending}") for card in info.gpus)
    return put(info, name=info.name + ending, gpus=cards)


def _grown(info: NodeInfo, factor: float, said: list[str]) -> NodeInfo:
    cards = max(1, floor(len(info.gpus) * factor + 0.5)) if info.gpus else 0
    more = tuple(
        put(info.gpus[at % len(info.gpus)], index=at, uuid=f"{info.name}-{at}")
        if at >= len(info.gpus)
        else info.gpus[at]
        for at in range(cards)
    )
    cpus, memory = round(info.cpu_milli * factor), round(info.memory_mib * factor)
    said.append(
        f"what if: the one node like {info.name} has {cpus / 1000:g} CPUs and {cards} GPUs"
        f" instead of {info.cpu_milli / 1000:g} and {len(info.gpus)}"
    )
    return put(info, cpu_milli=cpus, memory_mib=memory, gpus=more, gpu_links=(), numa=())


def _faster(jobs: tuple[TraceJob, ...], load: float, said: list[str]) -> tuple[TraceJob, ...]:
    """Deadlines keep their distance from the submission."""
    if not jobs:
        return jobs
    first = jobs[0].submit
    said.append(f"what if: the time between submissions is 1/{load:g} of what it was")
    return tuple(_moved(job, first + (job.submit - first) / load) for job in jobs)


def _moved(job: TraceJob, submit: float) -> TraceJob:
    due = job.spec.deadline_at
    if due is None:
        return put(job, submit=submit)
    return put(job, submit=submit, spec=put(job.spec, deadline_at=due - job.submit + submit))
