"""Tables of GPU jobs as derived from Microsoft's Philly trace: job_id, num_gpu, submit_time, duration.

With `iterations` and `iteration_time` as columns, times are in milliseconds: the product of the two is the duration,
and an iteration of the models named takes 0.1 to 1 s, not as many minutes. Without them times are in seconds.
"""

from functools import lru_cache
from pathlib import Path

from ares.check.replay.trace import Trace, TraceJob, fleet
from ares.model.job import Gang, JobSpec, Resources
from ares.model.node import NodeInfo
from ares.sim.traces.formats.reading import Repairs, Row, header, sound, table, trace

COLUMNS = ("job_id", "num_gpu", "submit_time", "duration")
_ITERATIONS = ("iterations", "iteration_time")
_COMMAND = ("true",)
_CPUS_PER_GPU = 4
# Columns that name the owner of a job. The first one present counts.
_OWNERS = ("user", "vc", "tenant")


def load(path: Path, nodes: tuple[NodeInfo, ...] | None) -> Trace:
    repairs = Repairs()
    there = header(path)
    unit = 0.001 if set(_ITERATIONS) <= set(there) else 1.0
    if nodes is None:
        nodes = fleet(8, 96, 8)
        repairs.say("no nodes are told: 8 of 8 GPUs")
    most, total = max(len(node.gpus) for node in nodes), sum(len(node.gpus) for node in nodes)
    owner = next((name for name in _OWNERS if name in there), None)
    jobs: list[TraceJob] = []
    for row in table(path, COLUMNS):
        job = _job(row, unit, most, total, owner, repairs)
        if job is not None:
            jobs.append(job)
    return trace(path, jobs, nodes, repairs)


def _job(row: Row, unit: float, most: int, total: int, owner: str | None, repairs: Repairs) -> TraceJob | None:
    submit, run_s, gpus = row.number("submit_time") * unit, row.number("duration") * unit, int(row.number("num_gpu"))
    if not sound(row, repairs, submit, run_s):
        return None
    if not 0 < gpus <= total:
        repairs.add(f"jobs without a GPU or with more than the {total} there are", "left out")
        return None
    whose = row.cells[owner] if owner is not None else "default"
    spec = _spec(gpus, most, row.cells.get("model_name", "job") or "job")
    return TraceJob(id=row.cells["job_id"], submit=submit, run_s=run_s, spec=spec, tenant=whose, user=whose)


@lru_cache(maxsize=4096)
def _spec(gpus: int, most: int, name: str) -> JobSpec:
    """What is wider than a node becomes a gang of equal ranks, each as wide as possible."""
    each = next(size for size in range(min(gpus, most), 0, -1) if gpus % size == 0)
    resources = Resources(cpu_milli=1000 * _CPUS_PER_GPU * each, memory_mib=1, gpus=each)
    gang = None if each == gpus else Gang(ranks=gpus // each)
    return JobSpec(command=_COMMAND, name=name, resources=resources, gang=gang)
