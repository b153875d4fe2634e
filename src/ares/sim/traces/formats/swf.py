"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, comments after a semicolon."""

import re
from pathlib import Path
from typing import NamedTuple

from ares.check.replay.trace import BadTrace, Trace, TraceJob
from ares.model.node import NodeInfo
from ares.sim.traces.formats.processors import ProcessorMachine
from ares.sim.traces.formats.reading import Repairs, lines, number, trace

_FIELDS = 18
_ID, _SUBMIT, _RUN, _GIVEN, _ASKED, _LIMIT, _USER, _PROGRAM = 0, 1, 3, 4, 7, 8, 11, 13
_NAMES = {
    _ID: "job number", _SUBMIT: "submit time", _RUN: "run time", _GIVEN: "number of allocated processors",
    _ASKED: "requested number of processors", _LIMIT: "requested time", _USER: "user", _PROGRAM: "executable",
}  # fmt: skip
_HEADER = re.compile(r"^;\s*(MaxProcs|MaxNodes)\s*:\s*(\d+)", re.IGNORECASE)


class _SwfJob(NamedTuple):
    id: str
    submit: float
    run_s: float
    processors: int
    limit_s: float | None
    user: str
    program: str


def load(path: Path, nodes: tuple[NodeInfo, ...] | None) -> Trace:
    """Requested times are limits: what ran longer in the log is ended there, as Ares would."""
    repairs = Repairs()
    sizes: dict[str, int] = {}
    found: list[_SwfJob] = []
    for at, text in lines(path, repairs, comment=";"):
        if text.lstrip().startswith(";"):
            if (match := _HEADER.match(text.lstrip())) is not None:
                sizes[match[1].lower()] = int(match[2])
        elif text.strip():
            line = _line(path.name, at, text, repairs)
            if line is not None:
                found.append(line)
    machine = ProcessorMachine(nodes, _size(sizes, found, repairs, told=nodes is not None))
    jobs: list[TraceJob] = []
    for line in found:
        spec = machine.spec(line.processors, line.limit_s, line.program, repairs)
        if spec is not None:
            job = TraceJob(
                id=line.id, submit=line.submit, run_s=line.run_s, spec=spec, tenant=line.user, user=line.user
            )
            jobs.append(job)
    return trace(path, jobs, machine.nodes, repairs)


def _size(sizes: dict[str, int], found: list[_SwfJob], repairs: Repairs, told: bool) -> int:
    size = sizes.get("maxprocs") or sizes.get("maxnodes")
    if size is None:
        size = max((line.processors for line in found), default=1)
        if not told:
            repairs.say(f"the header names no MaxProcs: taken as {size}, the width of the widest job")
    return size


def _line(file: str, at: int, text: str, repairs: Repairs) -> _SwfJob | None:
    cells = text.split()
    if len(cells) < _FIELDS:
        raise BadTrace(file, at, f"{len(cells)} of {_FIELDS} fields", "the file may be cut off: fetch it again")
    if len(cells) > _FIELDS:
        # Some tools and archives add columns of their own.
        repairs.add(f"lines with more than {_FIELDS} fields", "read without the rest")
    # -1 stands for what is not known.
    read = {field: number(file, at, name, cells[field]) for field, name in _NAMES.items()}
    wanted = read[_ASKED] if read[_ASKED] > 0 else read[_GIVEN]
    for field in (_SUBMIT, _RUN):
        if read[field] < 0:
            repairs.add(f"jobs of unknown {_NAMES[field]}", "left out")
            return None
    if wanted <= 0:
        repairs.add("jobs without processors", "left out")
        return None
    return _SwfJob(
        cells[_ID],
        read[_SUBMIT],
        read[_RUN],
        int(wanted),
        read[_LIMIT] if read[_LIMIT] > 0 else None,
        f"u{cells[_USER]}" if read[_USER] >= 0 else "nobody",
        f"app-{cells[_PROGRAM]}" if read[_PROGRAM] >= 0 else "job",
    )
