"""An oracle to compare with: shortest remaining time first, with true run times and preemption that costs nothing.

Its own small computation, not the scheduler's: the cluster is one pool of CPUs and GPUs without nodes, every job goes
on where it was stopped, and the one with the least left to run goes first, others in the gaps. Nothing that has to
place, predict or pay for preemption gets there, though no proof says that its mean is the least there is.
"""

import heapq
import time
from collections.abc import Iterator

from ares.check.replay.trace import Trace, TraceJob, node
from ares.model.job import JobSpec
from ares.model.state import JobState, Placement
from ares.sim.traces.books import ReplayBooks, size
from ares.sim.traces.outcome import Outcome, ReplayFacts

_POOL = "pool"


def srtf(trace: Trace, policy: str, seed: int) -> Outcome:
    began = time.perf_counter()
    found = _Pool(trace)
    found.run()
    return found.outcome(policy, seed, time.perf_counter() - began)


class _Pool:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._cpu = sum(info.cpu_milli for info in trace.nodes)
        self._gpu = 1000 * sum(len(info.gpus) for info in trace.nodes)
        self._books = ReplayBooks(trace, (node(_POOL, self._cpu / 1000, self._gpu // 1000),))
        self._sizes = [size(job.spec) for job in trace.jobs]
        self._left = [_fastest(job) for job in trace.jobs]
        self._begun = [0] * len(trace.jobs)
        # Jobs that run, since when.
        self._running: dict[int, float] = {}
        self._waiting: set[int] = set()
        self._over = [False] * len(trace.jobs)
        self._refused = 0
        self._events = 0

    def run(self) -> None:
        jobs, ends, at = self._trace.jobs, list[tuple[float, int, int]](), 0
        while at < len(jobs) or ends:
            now = min(jobs[at].submit if at < len(jobs) else ends[0][0], ends[0][0] if ends else float("inf"))
            while ends and ends[0][0] <= now:
                _, job, attempt = heapq.heappop(ends)
                if job in self._running and self._begun[job] == attempt:
                    self._end(job, now)
            while at < len(jobs) and jobs[at].submit <= now:
                self._come(at)
                at += 1
            self._events += 1
            for job in self._choose(now):
                heapq.heappush(ends, (now + self._left[job], job, self._begun[job]))
            self._books.moment(now, len(self._waiting))

    def _come(self, job: int) -> None:
        cpu, gpu, _ = self._sizes[job]
        if cpu > self._cpu or gpu > self._gpu:
            self._refused += 1
        else:
            self._waiting.add(job)

    def _end(self, job: int, now: float) -> None:
        self._left[job] = 0.0
        self._over[job] = True
        del self._running[job]
        self._books.leave(job, now)
        self._books.end[job] = now

    def _choose(self, now: float) -> list[int]:
        """Stops and starts jobs. Returns those that start."""
        for job, since in self._running.items():
            self._left[job] -= now - since
            self._running[job] = now
        cpu, gpu, chosen = self._cpu, self._gpu, set[int]()
        for job in sorted((*self._running, *self._waiting), key=lambda job: (self._left[job], job)):
            wants_cpu, wants_gpu, _ = self._sizes[job]
            if wants_cpu <= cpu and wants_gpu <= gpu:
                chosen.add(job)
                cpu, gpu = cpu - wants_cpu, gpu - wants_gpu
                if not cpu or (self._gpu and not gpu):
                    break
        for job in sorted(self._running.keys() - chosen):
            del self._running[job]
            self._books.saved_s[job] += now - self._books.last_start[job]
            self._waiting.add(job)
            self._books.leave(job, now)
        started = sorted(chosen - self._running.keys())
        for job in started:
            self._waiting.discard(job)
            self._running[job] = now
            self._begun[job] += 1
            self._books.start(job, now, (_place(self._trace.jobs[job].spec),))
        return started

    def outcome(self, policy: str, seed: int, wall_s: float) -> Outcome:
        trace, books = self._trace, self._books
        began = trace.jobs[0].submit if trace.jobs else 0.0
        ended = max((end for end in books.end if end == end), default=began)
        refused = f"{self._refused} jobs wider than the cluster: refused"
        facts = ReplayFacts(
            policy=policy, trace=trace.name, seed=seed, nodes=(_POOL,), node_gpus=(self._gpu // 1000,),
            cpu_milli=self._cpu, gpu_milli=self._gpu, began=began, ended=ended, cycles=0, events=self._events,
            wall_s=wall_s, estimates="exact", warnings=(*trace.warnings, *([refused] if self._refused else [])),
        )  # fmt: skip
        return Outcome(books.jobs(self._states()), books.intervals(ended), books.series(), facts)

    def _states(self) -> Iterator[tuple[int, JobState]]:
        for at, (job, over, begun) in enumerate(zip(self._trace.jobs, self._over, self._begun, strict=True)):
            if over:
                yield at, JobState(
                    id=job.id, tenant=job.tenant, name=job.spec.name, phase="SUCCEEDED", attempt=begun,
                    preemptions=begun - 1,
                )  # fmt: skip


def _fastest(job: TraceJob) -> float:
    return min((job.run_s, *job.runs_s.values()))


def _place(spec: JobSpec) -> Placement:
    cpu, gpu, _ = size(spec)
    whole, part = (gpu // 1000, 1000) if gpu % 1000 == 0 else (1, gpu)
    return Placement(node=_POOL, incarnation=1, cpu_milli=cpu, memory_mib=0, gpus=tuple(range(whole)), gpu_milli=part)
