"""The records of a replay: the history of every job, its placements, and the use of the cluster."""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from ares.check.replay.trace import Trace
from ares.core.ask import asks_of
from ares.core.capacity.node_slice import Typical
from ares.core.capacity.node_table import Ints, NodeTable
from ares.core.capacity.typical import Typicals
from ares.model.job import JobSpec
from ares.model.node import NodeInfo
from ares.model.state import TERMINAL, JobState, Placement
from ares.sim.traces.outcome import Intervals, JobColumns, Series

# Moments kept of the series. With twice as many, every second one is dropped.
_MOMENTS = 1024
_NAN = float("nan")


class ReplayBooks:
    def __init__(self, trace: Trace, nodes: Sequence[NodeInfo]) -> None:
        self._trace = trace
        count = len(trace.jobs)
        self._nodes = {node.name: at for at, node in enumerate(nodes)}
        self._shapes = common_shapes(job.spec for job in trace.jobs) if any(node.gpus for node in nodes) else ()
        self.first_start = _times(count, _NAN)
        self.last_start = _times(count, _NAN)
        self.end = _times(count, _NAN)
        self.first_node = array("q", [-1]) * count
        # Work saved by preempted attempts, which the next attempt goes on with.
        self.saved_s = _times(count, 0.0)
        # Of jobs that are over. A job that never got into the queue is in none of these.
        self._phase: list[str] = ["REFUSED"] * count
        self._attempts = array("q", bytes(8 * count))
        self._preemptions = array("q", bytes(8 * count))
        self._energy_j = _times(count, 0.0)
        self._cost = _times(count, 0.0)
        # One entry for every rank of every attempt: job, node, begin, end, GPU and CPU thousandths.
        self._job, self._node, self._gpu, self._cpu = array("q"), array("q"), array("q"), array("q")
        self._begin, self._end = array("d"), array("d")
        # Entries of running attempts, by job and rank.
        self._open: dict[int, dict[int, int]] = {}
        self._cpu_now = self._gpu_now = 0
        self._moments: list[tuple[float, int, int, int, float]] = []
        # There are about two moments per job, and reading all nodes takes time.
        self._every, self._seen = max(1, count // _MOMENTS), 0

    # ---- placements

    def start(self, job: int, now: float, places: Sequence[Placement]) -> None:
        if self.first_node[job] < 0:
            self.first_start[job] = now
            self.first_node[job] = self._nodes[places[0].node]
        self.last_start[job] = now
        self.enter(job, now, places)

    def enter(self, job: int, now: float, places: Sequence[Placement]) -> None:
        """These ranks run from now on."""
        ranks = self._open.setdefault(job, {})
        for place in places:
            ranks[place.rank] = len(self._job)
            gpu = len(place.gpus) * place.gpu_milli
            self._job.append(job)
            self._node.append(self._nodes[place.node])
            self._begin.append(now)
            self._end.append(_NAN)
            self._gpu.append(gpu)
            self._cpu.append(place.cpu_milli)
            self._cpu_now += place.cpu_milli
            self._gpu_now += gpu

    def leave(self, job: int, now: float, ranks: Sequence[int] | None = None) -> None:
        """These ranks are gone; all of them when none are named."""
        entries = self._open.get(job, {})
        for rank in list(entries) if ranks is None else ranks:
            entry = entries.pop(rank)
            self._end[entry] = now
            self._cpu_now -= self._cpu[entry]
            self._gpu_now -= self._gpu[entry]
        if not entries:
            self._open.pop(job, None)

    def close(self, job: int, state: JobState) -> None:
        """What counts of the job's record in the end: the record itself need not be kept."""
        self._phase[job] = state.phase
        self._attempts[job] = state.attempt
        self._preemptions[job] = state.preemptions
        # Energy and cost of all attempts.
        self._energy_j[job] = sum(part.energy_j for part in state.spent)
        self._cost[job] = sum(part.cost for part in state.spent)

    # ---- over time

    def moment(self, now: float, queued: int, table: NodeTable | None = None) -> None:
        """Records the state of the cluster. Without a table of nodes nothing is fragmented."""
        self._seen += 1
        if self._seen % self._every:
            return
        stranded = fragmentation(table, self._shapes) if self._shapes and table is not None else 0.0
        moment = (now, self._cpu_now, self._gpu_now, queued, stranded)
        if self._moments and self._moments[-1][0] == now:
            self._moments[-1] = moment
            return
        self._moments.append(moment)
        if len(self._moments) >= 2 * _MOMENTS:
            self._moments = self._moments[::2]
            self._every *= 2

    # ---- the end of the replay

    def intervals(self, until: float) -> Intervals:
        """The intervals of all ranks. A rank that still runs is cut off at `until`."""
        end = np.array(self._end, np.float64)
        return Intervals(
            job=np.array(self._job, np.int64),
            node=np.array(self._node, np.int64),
            begin=np.array(self._begin, np.float64),
            end=np.where(np.isnan(end), until, end),
            gpu_milli=np.array(self._gpu, np.int64),
            cpu_milli=np.array(self._cpu, np.int64),
        )

    def series(self) -> Series:
        time, cpu, gpu, queued, stranded = zip(*self._moments, strict=True) if self._moments else ((),) * 5
        return Series(
            time=np.array(time, np.float64),
            cpu_milli=np.array(cpu, np.int64),
            gpu_milli=np.array(gpu, np.int64),
            queued=np.array(queued, np.int64),
            fragmentation=np.array(stranded, np.float64),
        )

    def jobs(self, alive: Iterable[tuple[int, JobState]]) -> JobColumns:
        """With the states of jobs that are not over."""
        for job, state in alive:
            self.close(job, state)
        jobs = self._trace.jobs
        end, last = np.array(self.end, np.float64), np.array(self.last_start, np.float64)
        due = np.array([_NAN if job.spec.deadline_at is None else job.spec.deadline_at for job in jobs], np.float64)
        sizes = [size(job.spec) for job in jobs]
        over = np.array([phase in TERMINAL for phase in self._phase], np.bool_)
        end = np.where(over, end, _NAN)
        return JobColumns(
            id=np.array([job.id for job in jobs], np.str_),
            name=np.array([job.spec.name for job in jobs], np.str_),
            tenant=np.array([job.tenant for job in jobs], np.str_),
            submit=np.array([job.submit for job in jobs], np.float64),
            first_start=np.array(self.first_start, np.float64),
            last_start=last,
            end=end,
            run=end - last + np.array(self.saved_s),
            cpus=np.array([cpu / 1000 for cpu, _, _ in sizes], np.float64),
            gpus=np.array([gpu / 1000 for _, gpu, _ in sizes], np.float64),
            ranks=np.array([ranks for _, _, ranks in sizes], np.int64),
            deadline=due,
            late=~np.isnan(due) & ~(end <= due),
            energy_j=np.array(self._energy_j, np.float64),
            cost=np.array(self._cost, np.float64),
            attempts=np.array(self._attempts, np.int64),
            preemptions=np.array(self._preemptions, np.int64),
            phase=np.array(self._phase, np.str_),
            first_node=np.array(self.first_node, np.int64),
        )


def _times(count: int, value: float) -> "array[float]":
    return array("d", [value]) * count


def size(spec: JobSpec) -> tuple[int, int, int]:
    """Thousandths of CPUs and GPUs of all ranks together, and how many ranks that is."""
    ranks, wants = (1 if spec.gang is None else spec.gang.ranks), spec.resources
    return ranks * wants.cpu_milli, ranks * wants.gpus * wants.gpu_milli, ranks


# ---- how much of the idle GPU is of no use to the jobs that are common in a trace


# Shapes beyond this share of all jobs are too rare to matter.
_COMMON = 0.95
_SHAPES_MAX = 16


def common_shapes(specs: Iterable[JobSpec]) -> tuple[Typical, ...]:
    """The most frequent shapes with GPUs, as the scheduler counts them, until they make up nearly all jobs."""
    counts = Typicals()
    for spec in specs:
        counts.count(asks_of(spec, "")[0])
    found: list[Typical] = []
    for shape in sorted(counts.top(), key=lambda common: -common.share)[:_SHAPES_MAX]:
        found.append(shape)
        if sum(common.share for common in found) >= _COMMON:
            break
    total = sum(common.share for common in found)
    return tuple(shape._replace(share=shape.share / total) for shape in found)


def fragmentation(table: NodeTable, shapes: tuple[Typical, ...]) -> float:
    """The share of idle GPU that is useless to a common job, by how common it is: all that is idle on a node that
    cannot take it, and pieces too small for it on one that can."""
    left: Ints = np.where(table.healthy[:, None], np.maximum(table.gpu_left, 0), 0)
    idle = left.sum(axis=1)
    total = int(idle.sum())
    if not total or not shapes:
        return 0.0
    useless = 0.0
    for shape in shapes:
        enough = left >= shape.gpu_milli
        takes = (enough.sum(axis=1) >= shape.gpus) & (table.cpu_free >= shape.cpu_milli)
        wish = shape.wish
        if wish.gpu_model is not None or wish.gpu_memory_mib:
            takes &= table.answer_masks(wish.gpu_model, wish.gpu_memory_mib) != 0
        pieces: Ints = np.where(enough, 0, left).sum(axis=1)
        useless += shape.share * int(np.where(takes, pieces, idle).sum())
    return useless / total
