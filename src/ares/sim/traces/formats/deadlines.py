"""Jobs of one GPU with deadlines, and a run time for every GPU model: job_name, norm_job_submit_time, ddl, models.

Deadlines are by the same clock as submissions, not counted from them.
"""

from pathlib import Path

from ares.check.replay.trace import BadTrace, Trace, TraceJob, node
from ares.model.job import JobSpec, Resources
from ares.model.node import NodeInfo
from ares.sim.traces.formats.reading import Repairs, Row, header, sound, table, trace

COLUMNS = ("job_name", "norm_job_submit_time", "ddl")
_COMMAND = ("true",)
# Of each model, unless nodes are told.
_GPUS = 15


def load(path: Path, nodes: tuple[NodeInfo, ...] | None) -> Trace:
    repairs = Repairs()
    there = header(path)
    models = there[there.index("ddl") + 1 :] if "ddl" in there else ()
    if not models:
        raise BadTrace(path.name, 1, "no column after ddl", "add one with run times for every GPU model")
    if nodes is None:
        nodes = tuple(node(model.lower(), 4 * _GPUS, _GPUS, model) for model in models)
        repairs.say(f"no nodes are told: {_GPUS} GPUs each of {', '.join(models)}")
    jobs = [job for row in table(path, COLUMNS) if (job := _job(row, models, repairs)) is not None]
    return trace(path, jobs, nodes, repairs)


def _job(row: Row, models: tuple[str, ...], repairs: Repairs) -> TraceJob | None:
    submit, due = row.number("norm_job_submit_time"), row.number_or_none("ddl")
    runs_s = {model: row.number(model) for model in models}
    if due is not None and due < 0:
        repairs.add("jobs with a negative deadline", "left out")
        return None
    if not sound(row, repairs, submit, min(runs_s.values())):
        return None
    spec = JobSpec(
        command=_COMMAND,
        resources=Resources(memory_mib=1, gpus=1),
        expected_runtime_s=max(runs_s.values()),
        expected_runtimes_s=runs_s,
        deadline_at=due,
    )
    return TraceJob(id=row.cells["job_name"], submit=submit, run_s=max(runs_s.values()), spec=spec, runs_s=runs_s)
