"""Ids of traces and spans, derived and never drawn: a span can be named before it ends, by any replica, and twice the
same span is one."""

import hashlib
import re

from ares.model.state import JobState

# W3C trace context, version 00: the text kept in a job's record.
_TRACEPARENT = re.compile(r"00-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_SAMPLED = "01"
_ZEROS = bytes(16)


def new_traceparent(drawn: bytes, parent: str = "") -> str:
    """`parent` itself when it is valid, so that the job's spans become its children; else a new, sampled trace by the
    16 bytes that were drawn for it. Its span is the job's own root, see `root_of`."""
    if parent and _TRACEPARENT.fullmatch(parent):
        return parent
    # All zeros means "invalid" in the format.
    trace_id = drawn.hex() if drawn != _ZEROS else "1".zfill(32)
    return f"00-{trace_id}-{_own_root(trace_id)}-{_SAMPLED}"


def span_id(job: str, fence: str, name: str, number: int = 0) -> str:
    """`fence` is that of the attempt, empty for what belongs to none; `number` tells several apart, such as ranks."""
    return _digest(f"span/{job}/{fence}/{name}/{number}", 8)


class TracePlace:
    """Where a job's spans belong: their trace, the id of its root span, what that hangs below, and the trace that the
    job's own goes on from."""

    __slots__ = ("came_from", "flags", "parent_id", "root_id", "trace_id")

    def __init__(self, state: JobState) -> None:
        own, self.flags, begun_by, above = _own_trace(state)
        self.trace_id, self.parent_id = own, above
        self.root_id = span_id(state.id, "", "job")
        self.came_from: tuple[str, str] | None = None
        if own != begun_by:
            self.parent_id = ""
            self.came_from = (begun_by, above) if above else None
        elif state.child_of is not None:
            self.parent_id = span_id(state.child_of.job, str(state.child_of.fence), "run")
        elif above == _own_root(own):
            self.root_id, self.parent_id = above, ""


def run_traceparent(state: JobState, rank: int) -> str:
    """For the processes of one rank of the attempt that the state grants: what they record hangs below its run span."""
    trace_id, flags, _, _ = _own_trace(state)
    return f"00-{trace_id}-{span_id(state.id, str(state.fence), 'run', rank)}-{flags}"


def trace_id_of(state: JobState) -> str:
    """The trace of the job's own spans."""
    return _own_trace(state)[0]


def _own_trace(state: JobState) -> tuple[str, str, str, str]:
    """The job's trace and its flags, then the trace and the span that were given with its submission."""
    given = _TRACEPARENT.fullmatch(state.trace)
    trace_id, above, flags = given.groups() if given else (_digest(f"trace/{state.id}", 16), "", _SAMPLED)
    if state.array is None and state.flow is None:
        return trace_id, flags, trace_id, above
    # Thousands of jobs in one trace could not be looked at: each has its own, which names where it came from.
    return _digest(f"trace/{trace_id}/{state.id}", 16), flags, trace_id, above


def _own_root(trace_id: str) -> str:
    """The span of a trace that was begun here, told by its id from one that a client began."""
    return _digest(f"root/{trace_id}", 8)


def _digest(text: str, n_bytes: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * n_bytes]
