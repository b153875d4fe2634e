"""A job's trace, told by its ledger: complete, with ids that follow from the job, also while it runs."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from ares.api.telemetry.traces import JobTrace, TraceSpan
from ares.core.trace.forms import chrome, otlp
from ares.core.trace.ids import TracePlace, new_traceparent, run_traceparent
from ares.core.trace.spans import SPANS_MAX, DecisionFacts, job_trace
from ares.model.state import TERMINAL, ChildOf, Fence, JobState, LedgerEvent
from tests.unit.core.lifecycle.transcript import DASHES, FOLDER, Player

CLIENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def play(*commands: str) -> Player:
    player = Player()
    for command in commands:
        player.play(command)
    return player


def traced(player: Player, decision: DecisionFacts | None = None) -> JobTrace:
    assert player.job is not None
    return job_trace(player.job.state, player.ledger, player.context.now, decision, "here")


def bars(trace: JobTrace) -> list[tuple[str, float, float | None]]:
    return [(span.name, span.began_at, span.ended_at) for span in trace.spans]


def named(trace: JobTrace, name: str) -> list[TraceSpan]:
    return [span for span in trace.spans if span.name == name]


def test_the_seven_spans_of_a_job_that_succeeds() -> None:
    player = play("job", "bind n1 decision=d1", "start", "exit code=0")
    trace = traced(player, DecisionFacts("d1", 1.5, {"nodes_passing": 3}))
    assert bars(trace) == [
        ("job", 1.0, 4.0), ("submit", 1.0, 1.0), ("route", 1.0, 1.0), ("queue", 1.0, 1.5), ("place", 1.5, 2.0),
        ("start", 2.0, 3.0), ("run", 3.0, 4.0), ("commit", 4.0, 4.0),
    ]  # fmt: skip
    assert named(trace, "place")[0].attributes == {"decision": "d1", "nodes_passing": 3}
    assert named(trace, "run")[0].attributes == {"node": "n1", "code": 0}
    assert {span.status for span in trace.spans if span.name in ("job", "run", "commit")} == {"ok"}


def test_what_lasts_has_no_end_and_keeps_its_id() -> None:
    seen: dict[str, str] = {}
    player = Player()
    for command in ("job", "bind n1", "start", "exit code=0"):
        player.play(command)
        trace = traced(player)
        lasting = [span for span in trace.spans if span.ended_at is None]
        assert bool(lasting) == (command != "exit code=0")
        for span in trace.spans:
            assert seen.setdefault(span.name, span.span_id) == span.span_id


def test_attempts_are_linked_and_backoff_is_a_bar() -> None:
    player = play("job", "bind n1", "start", "exit code=1", "retry-due", "bind n2", "start", "exit code=0")
    trace = traced(player)
    first, second = named(trace, "run")
    assert (first.status, first.attributes["code"], first.attempt) == ("error", 1, 1)
    assert [link.span_id for link in second.links] == [first.span_id]
    assert second.attributes["node"] == "n2"
    assert [(span.began_at, span.ended_at) for span in named(trace, "backoff")] == [(4.0, 5.0)]
    assert len(named(trace, "queue")) == 2
    assert len(named(trace, "commit")) == 1


def test_each_rank_of_a_gang_has_its_run() -> None:
    player = play(
        "job ranks=2", "bind n1 n2", "start rank=0", "start rank=1", "exit rank=1 code=0", "exit rank=0 code=0"
    )
    runs = {span.rank: (span.began_at, span.ended_at, span.attributes["node"]) for span in named(traced(player), "run")}
    assert runs == {0: (3.0, 6.0, "n1"), 1: (4.0, 5.0, "n2")}


def test_a_preempted_attempt_ends_before_its_processes() -> None:
    player = play("job", "bind n1", "start", "preempt for j9", "release fence=1.1")
    trace = traced(player)
    assert [(span.ended_at, span.message) for span in named(trace, "run")] == [(4.0, "for j9")]
    assert [(span.began_at, span.ended_at) for span in named(trace, "stop")] == [(4.0, 5.0)]
    assert [span.ended_at for span in named(trace, "queue")] == [2.0, None]


def _steps() -> list[tuple[str, Player]]:
    """Every moment of every story that the lifecycle's transcripts tell."""
    found: list[tuple[str, Player]] = []
    for path in sorted(Path(FOLDER).glob("*.txt")):
        player, pending, skipping = Player(), list[str](), False
        for line in path.read_text().splitlines():
            if line == DASHES:
                for command in pending:
                    player.play(command)
                    seen = Player()
                    seen.job, seen.ledger, seen.context = player.job, list(player.ledger), player.context
                    found.append((f"{path.stem}: {command}", seen))
                pending, skipping = [], True
            elif not line or line.startswith("#"):
                skipping = False
            elif not skipping:
                pending.append(line)
    return found


def test_every_moment_of_every_story() -> None:
    """Ids are unique; spans lie in the job; a job that runs has a run span for the id that its process was given; a job
    that ended has none but the end of its processes open."""
    steps = _steps()
    assert len(steps) > 100
    for story, player in steps:
        assert player.job is not None
        state, trace = player.job.state, traced(player)
        ids = [span.span_id for span in trace.spans]
        assert len(set(ids)) == len(ids), story
        (root,) = named(trace, "job")
        assert all(span.parent_id == root.span_id for span in trace.spans if span is not root), story
        assert all(span.ended_at is None or span.ended_at >= span.began_at for span in trace.spans), story
        lasting = {span.name for span in trace.spans if span.ended_at is None}
        if state.phase in TERMINAL:
            assert lasting <= {"stop"}, story
        else:
            assert "job" in lasting, story
            wanted = {"PENDING": "queue", "STAGING": "start", "WAITING": "route"}.get(state.phase)
            assert wanted is None or wanted in lasting, story
        if state.phase == "RUNNING":
            given = {run_traceparent(state, place.rank).split("-")[2] for place in state.placements}
            started = {span.span_id for span in named(trace, "run") if span.attempt == state.attempt}
            assert given & started, story
        assert otlp(trace)["resourceSpans"]
        assert len(chrome(trace)["traceEvents"]) > len(trace.spans), story


# ---- whose trace it is


def test_a_trace_of_our_own_has_its_root_in_the_job() -> None:
    place = TracePlace(JobState(id="j1", tenant="t", name="n", trace=new_traceparent(b"\x07" * 16)))
    assert (place.trace_id, place.parent_id) == ("07" * 16, "")
    assert re.fullmatch(r"00-(07){16}-[0-9a-f]{16}-01", new_traceparent(b"\x07" * 16))


def test_a_clients_trace_goes_on() -> None:
    place = TracePlace(JobState(id="j1", tenant="t", name="n", trace=CLIENT))
    assert (place.trace_id, place.parent_id) == (CLIENT.split("-")[1], CLIENT.split("-")[2])


def test_tasks_of_an_array_have_traces_of_their_own_with_a_link() -> None:
    places = [TracePlace(JobState(id=f"a_{n}", tenant="t", name="n", array="a", trace=CLIENT)) for n in range(2)]
    assert len({place.trace_id for place in places}) == 2
    assert {place.came_from for place in places} == {(CLIENT.split("-")[1], CLIENT.split("-")[2])}


def test_a_child_hangs_below_the_run_of_its_parent() -> None:
    parent = JobState(id="p", tenant="t", name="n", trace=CLIENT, fence=Fence(counter=3))
    made_by = ChildOf(job="p", call=0, fence=Fence(counter=3))
    child = TracePlace(JobState(id="c", tenant="t", name="n", trace=CLIENT, child_of=made_by))
    assert run_traceparent(parent, 0) == f"00-{child.trace_id}-{child.parent_id}-01"


@pytest.mark.parametrize("bad", ["", "x", CLIENT + "\n", CLIENT.upper()])
def test_a_job_without_a_trace_has_one_all_the_same(bad: str) -> None:
    place = TracePlace(JobState(id="j1", tenant="t", name="n", trace=bad))
    assert re.fullmatch(r"[0-9a-f]{32}", place.trace_id)
    assert place.parent_id == ""


def test_a_retry_names_the_job_it_repeats() -> None:
    player = play("job", "cancel")
    assert player.job is not None
    before = JobState(id="j0", tenant="t", name="n", trace=CLIENT)
    trace = job_trace(player.job.state, player.ledger, 3.0, retried=before)
    (link,) = named(trace, "job")[0].links
    assert (link.trace_id, link.span_id) == (CLIENT.split("-")[1], TracePlace(before).root_id)


def test_spans_are_bounded() -> None:
    player = play("job", "bind n1", "start")
    assert player.job is not None
    event = player.ledger[-1]
    many = [
        LedgerEvent(job="j1", tenant="t", seq=4 + rank, kind="rank-started", phase="RUNNING", at=3.0, attempt=1,
                    fence=event.fence, data={"rank": rank, "node": "n1"})
        for rank in range(1, SPANS_MAX + 10)
    ]  # fmt: skip
    trace = job_trace(replace(player.job.state, seq=9999), [*player.ledger, *many], 4.0)
    assert (len(trace.spans), trace.left_out > 0) == (SPANS_MAX, True)
