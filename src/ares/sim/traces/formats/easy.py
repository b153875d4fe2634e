"""A table of jobs with processors and requested times, which are limits: job_id, submit, run, procs, req_time, user."""

from pathlib import Path

from ares.check.replay.trace import Trace, TraceJob
from ares.model.node import NodeInfo
from ares.sim.traces.formats.processors import ProcessorMachine
from ares.sim.traces.formats.reading import Repairs, Row, sound, table, trace

COLUMNS = ("job_id", "submit", "run", "procs", "req_time", "user")


def load(path: Path, nodes: tuple[NodeInfo, ...] | None) -> Trace:
    repairs = Repairs()
    rows = [row for row in table(path, COLUMNS) if _sound(row, repairs)]
    widest = max((int(row.number("procs")) for row in rows), default=1)
    if nodes is None:
        repairs.say(f"no machine is told: one of {widest} processors, as many as the widest job asks for")
    machine = ProcessorMachine(nodes, widest)
    jobs: list[TraceJob] = []
    for row in rows:
        limit_s = row.number("req_time")
        spec = machine.spec(int(row.number("procs")), limit_s if limit_s > 0 else None, "job", repairs)
        if spec is not None:
            user, id_ = f"u{row.cells['user']}", row.cells["job_id"]
            submit, run_s = row.number("submit"), row.number("run")
            jobs.append(TraceJob(id=id_, submit=submit, run_s=run_s, spec=spec, tenant=user, user=user))
    return trace(path, jobs, machine.nodes, repairs)


def _sound(row: Row, repairs: Repairs) -> bool:
    if row.number("procs") < 1:
        repairs.add("jobs without processors", "left out")
        return False
    return sound(row, repairs, row.number("submit"), row.number("run"))
