"""The spans of a job, told by its ledger: each entry ends some and begins others."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ares.api.telemetry.traces import JobTrace, SpanLink, SpanName, SpanStatus, TraceSpan
from ares.core.trace.ids import TracePlace, span_id
from ares.model.state import TERMINAL, EventKind, JobState, LedgerEvent

# More than that no page can show; a gang of a thousand ranks that was tried four times has fewer.
SPANS_MAX = 5000

# How an attempt that such an entry ends has ended.
_ENDS: Mapping[EventKind, SpanStatus] = {
    "succeeded": "ok", "restarted": "ok", "failed": "error", "retrying": "error", "lease-lost": "error",
    "unknown": "error", "preempted": "unset", "requeue-requested": "unset", "cancelled": "unset",
}  # fmt: skip
_STATUS_OF_JOB: Mapping[str, SpanStatus] = {"SUCCEEDED": "ok", "FAILED": "error", "UNKNOWN": "error"}
# What an entry's data says of an end.
_EXIT = ("code", "signal", "failure")


class DecisionFacts(NamedTuple):
    """What is known of the decision that gave an attempt its place, beside the ledger."""

    decision: str
    at: float
    attributes: Mapping[str, str | int | float]


def job_trace(
    state: JobState,
    events: Sequence[LedgerEvent],
    now: float,
    decision: DecisionFacts | None = None,
    cluster: str = "",
    retried: JobState | None = None,
    recorded: Sequence[TraceSpan] = (),
) -> JobTrace:
    """What still lasts has no end. `decision` is the newest of the job, where this replica has it; `retried` the job
    that it repeats, where that is still kept; `recorded` what its program told."""
    walk = _Walk(state, decision, cluster, retried)
    for event in sorted(events, key=lambda event: event.seq):
        walk.take(event)
    own = walk.spans()
    # What a program says of itself never takes the place of what the ledger says.
    known = {span.span_id for span in own}
    inner = {span.span_id: span for span in recorded if span.span_id not in known}
    # The whole before its parts; of too many, those of programs are left out first.
    kept = [*own, *inner.values()][:SPANS_MAX]
    spans = sorted(kept, key=lambda span: (span.began_at, span.name != "job"))
    return JobTrace(
        job=state.id, name=state.name, tenant=state.tenant, phase=state.phase, trace_id=walk.place.trace_id, at=now,
        spans=tuple(spans), left_out=len(own) + len(inner) - len(kept),
    )  # fmt: skip


class _Walk:
    """Reads a ledger entry by entry. `_open` has what lasts, by name and rank."""

    def __init__(self, state: JobState, decision: DecisionFacts | None, cluster: str, retried: JobState | None) -> None:
        self._job = state
        self._retried = retried
        self._decision = decision
        self._cluster = cluster
        self.place = TracePlace(state)
        self._done: list[TraceSpan] = []
        self._open: dict[tuple[SpanName, int], TraceSpan] = {}
        self._attempt = 0
        self._fence = ""
        self._nodes: dict[int, str] = {}
        # The last span of the attempt before, and of this one.
        self._before: SpanLink | None = None
        self._newest = ""

    def spans(self) -> list[TraceSpan]:
        return [*self._done, *self._open.values()]

    def take(self, event: LedgerEvent) -> None:
        if event.kind == "submitted":
            self._submitted(event)
        elif event.kind == "bound":
            self._bound(event)
        elif event.kind in ("started", "rank-started", "rank-exited", "resized"):
            self._ranks(event)
        elif event.kind in _ENDS:
            self._attempt_ended(event)
        elif event.kind in ("requeued", "released"):
            self._close("stop", event.at)
        self._by_phase(event)

    # ---- before an attempt

    def _submitted(self, event: LedgerEvent) -> None:
        links = [SpanLink(*self.place.came_from, "the array or workflow it belongs to")] if self.place.came_from else []
        if self._retried is not None:
            before = TracePlace(self._retried)
            links.append(SpanLink(before.trace_id, before.root_id, f"a retry of {self._retried.id}"))
        root = TraceSpan(
            name="job", span_id=self.place.root_id, parent_id=self.place.parent_id, began_at=event.at,
            attributes={"job": self._job.id, "tenant": self._job.tenant, "name": self._job.name}, links=tuple(links),
        )  # fmt: skip
        self._open["job", 0] = root
        self._instant("submit", event, {"by": event.by} if event.by else {})
        self._begin("route", event, attributes={"cluster": self._cluster} if self._cluster else {})

    def _by_phase(self, event: LedgerEvent) -> None:
        """What follows from the phase alone, whichever entry brought it about."""
        if event.phase == "WAITING" and ("queue", 0) in self._open:
            self._close("queue", event.at, message=event.reason)
            self._begin("route", event, event.reason)
        elif event.phase == "PENDING" and ("queue", 0) not in self._open:
            for name in ("route", "backoff", "stop"):
                self._close(name, event.at)
            self._begin("queue", event)
        elif event.phase == "RETRYING" and ("backoff", 0) not in self._open:
            self._begin("backoff", event, event.reason)
        elif event.phase in TERMINAL:
            self._finished(event)

    def _finished(self, event: LedgerEvent) -> None:
        if ("job", 0) not in self._open:
            return
        for name in ("route", "queue", "backoff"):
            self._close(name, event.at, message=event.reason)
        self._instant("commit", event, {"phase": event.phase})
        self._close("job", event.at, _STATUS_OF_JOB.get(event.phase, "unset"), event.reason)

    # ---- attempts

    def _bound(self, event: LedgerEvent) -> None:
        self._attempt, self._fence = event.attempt, event.fence
        self._before = SpanLink(self.place.trace_id, self._newest, "the attempt before") if self._newest else None
        self._nodes = dict(_nodes_of(event.data))
        name = str(event.data.get("decision", ""))
        known = self._decision if self._decision is not None and self._decision.decision == name else None
        chosen_at = event.at if known is None else min(known.at, event.at)
        queue = self._open.get(("queue", 0))
        chosen_at = chosen_at if queue is None else max(chosen_at, queue.began_at)
        self._close("queue", chosen_at)
        facts = {} if known is None else dict(known.attributes)
        self._begin("place", event, at=chosen_at, attributes={**({"decision": name} if name else {}), **facts})
        self._close("place", event.at, "ok")
        nodes = ", ".join(dict.fromkeys(self._nodes.values()))
        self._begin("start", event, attributes={"node": nodes}, links=self._links())
        self._newest = span_id(self._job.id, self._fence, "start")

    def _ranks(self, event: LedgerEvent) -> None:
        rank = int(event.data.get("rank", 0))
        if event.kind == "rank-exited":
            status: SpanStatus = "error" if "failure" in event.data else "ok"
            if ("run", rank) not in self._open:
                # The report of its start never came.
                self._run(event, rank)
            self._close("run", event.at, status, event.reason, rank, _exit_of(event))
        elif event.kind == "resized":
            self._nodes |= dict(_nodes_of({"placements": event.data.get("added", ())}))
            for gone in (*event.data.get("dropped", ()), *event.data.get("lost", ())):
                self._close("run", event.at, message=event.reason, rank=int(gone["rank"]))
        elif event.kind == "rank-started":
            self._run(event, rank)
        else:
            self._close("start", self._started_at(event), "ok", event.reason)
            if not any(name == "run" for name, _ in self._open):
                self._run(event, 0)

    def _run(self, event: LedgerEvent, rank: int) -> None:
        facts = {"node": self._nodes.get(rank, "")}
        self._begin("run", event, rank=rank, at=self._started_at(event), attributes=facts, links=self._links())
        self._newest = span_id(self._job.id, self._fence, "run")

    def _started_at(self, event: LedgerEvent) -> float:
        """By the agent's word, where that is kept: of the newest attempt, as a whole."""
        started = self._job.started_at if event.attempt == self._job.attempt and event.kind == "started" else None
        return event.at if started is None else started

    def _attempt_ended(self, event: LedgerEvent) -> None:
        status, facts = _ENDS[event.kind], _exit_of(event)
        ended = [key for key in self._open if key[0] in ("start", "run")]
        for name, rank in ended:
            self._close(name, event.at, status, event.reason, rank, facts)
        if ended and event.kind in ("preempted", "requeue-requested", "cancelled"):
            self._begin("stop", event, event.reason)

    # ---- one span

    def _links(self) -> tuple[SpanLink, ...]:
        return () if self._before is None else (self._before,)

    def _begin(
        self,
        name: SpanName,
        event: LedgerEvent,
        message: str = "",
        rank: int | None = None,
        at: float | None = None,
        attributes: Mapping[str, str | int | float] = {},
        links: tuple[SpanLink, ...] = (),
    ) -> None:
        # What belongs to no attempt is told apart by the entry that began it.
        of_attempt = name in ("place", "start", "run", "stop")
        fence, number = (self._fence, rank or 0) if of_attempt else ("", event.seq)
        self._open[name, rank or 0] = TraceSpan(
            name=name, span_id=span_id(self._job.id, fence, name, number), parent_id=self.place.root_id,
            began_at=event.at if at is None else at, attempt=self._attempt if of_attempt else 0, rank=rank,
            message=message, attributes=dict(attributes), links=links,
        )  # fmt: skip

    def _instant(self, name: SpanName, event: LedgerEvent, attributes: Mapping[str, str | int | float]) -> None:
        self._begin(name, event, attributes=attributes)
        self._close(name, event.at, "ok")

    def _close(
        self,
        name: SpanName,
        at: float,
        status: SpanStatus = "unset",
        message: str = "",
        rank: int = 0,
        attributes: Mapping[str, str | int | float] = {},
    ) -> None:
        span = self._open.pop((name, rank), None)
        if span is None:
            return
        facts = {**span.attributes, **attributes}
        ended_at, said = max(span.began_at, at), message or span.message
        self._done.append(replace(span, ended_at=ended_at, status=status, message=said, attributes=facts))


def _nodes_of(data: Mapping[str, Any]) -> Iterable[tuple[int, str]]:
    """The node of each rank, as a grant has them."""
    if "node" in data:
        yield 0, str(data["node"])
    for place in data.get("placements", ()):
        yield int(place["rank"]), str(place["node"])


def _exit_of(event: LedgerEvent) -> dict[str, str | int | float]:
    return {name: event.data[name] for name in _EXIT if name in event.data}
