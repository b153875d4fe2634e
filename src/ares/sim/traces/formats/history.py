"""Ares' own history, as `ares history` writes it: {"spec", "state"} of every job, {"node"} of every node, as lines."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ares.check.replay.trace import BadTrace, Trace, TraceJob
from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.node import NodeInfo
from ares.model.state import JobState
from ares.sim.traces.formats.reading import Repairs, lines, trace


class _HistoryLine(Record, frozen=True):
    spec: JobSpec | None = None
    state: JobState | None = None
    node: NodeInfo | None = None


def load(path: Path, nodes: tuple[NodeInfo, ...] | None) -> Trace:
    """Jobs that ended by themselves, each with the run time of its last attempt."""
    repairs = Repairs()
    there: dict[str, NodeInfo] = {}
    jobs: list[TraceJob] = []
    for line in _lines(path):
        if line.node is not None:
            there[line.node.name] = line.node
        elif line.spec is not None and line.state is not None:
            job = job_of(line.spec, line.state, repairs)
            jobs += [] if job is None else [job]
    if nodes is None and not there:
        raise BadTrace(path.name, 0, "a history without nodes", "give --nodes, such as 8x96x8xA100")
    return trace(path, jobs, nodes or tuple(there.values()), repairs)


def load_nodes(path: Path) -> tuple[NodeInfo, ...]:
    """Only the nodes of an export, for another trace."""
    found = {line.node.name: line.node for line in _lines(path) if line.node is not None}
    if not found:
        raise BadTrace(path.name, 0, "no line with a node", 'write one {"node": {"name": ...}} for each')
    return tuple(found.values())


def _lines(path: Path) -> Iterator[_HistoryLine]:
    decoder = msgspec.json.Decoder(_HistoryLine)
    for at, text in lines(path):
        if not text.strip():
            continue
        try:
            line = decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise BadTrace(path.name, at, f"not a line of a history: {error}", "export it again") from None
        if line.node is None and (line.spec is None or line.state is None):
            raise BadTrace(path.name, at, "neither spec and state of a job nor a node", "export it again")
        yield line


def job_of(spec: JobSpec, state: JobState, repairs: Repairs) -> TraceJob | None:
    """None where it did not run to an end of its own."""
    if state.phase not in ("SUCCEEDED", "FAILED") or state.ended_at is None or state.started_at is None:
        repairs.add("jobs without an end of their own", "left out")
        return None
    run_s = state.ended_at - state.started_at
    if run_s < 0:
        repairs.add("jobs with negative run time", "left out")
        return None
    submit = state.submitted_at
    if spec.held or spec.needs or spec.begin_at is not None or state.flow is not None:
        # What it waited for is not part of the trace; that it came to the queue then is.
        submit = max(submit, min(state.queued_at, state.started_at))
        spec = replace(spec, held=False, needs=(), needs_timeout=None, begin_at=None, finally_=False)
        repairs.add("jobs that waited for others, for a time or to be released", "come when they were queued")
    how = state.exit
    fails = how.code or 1 if how is not None and how.failure not in (None, "time-limit", "node-lost") else None
    return TraceJob(
        id=state.id,
        submit=submit,
        run_s=run_s,
        spec=spec,
        tenant=state.tenant,
        user=state.submitted_by,
        fails=fails,
    )
