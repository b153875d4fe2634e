"""Waiting, following and resuming: what happens when connections break in the middle."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.edge.client import errors
from ares.edge.client.flows import ServerEvent, SseParser
from tests.unit.edge.client.stub import JOB, Say, Stub, detail, event, problem

Ask = Callable[[Callable[[Any], Any]], Any]
EVENTS, THE_JOB, LOGS = "/v1/events", f"/v1/jobs/{JOB}", f"/v1/jobs/{JOB}/logs"
SSE = {"content-type": "text/event-stream"}


def log(*pieces: bytes, attempt: int = 1, offset: int = 0, **more: Any) -> Say:
    return Say(headers={"x-ares-attempt": str(attempt), "x-ares-log-offset": str(offset)}, pieces=pieces, **more)


# ---- wait


def test_wait_needs_no_event_for_a_job_that_has_ended(stub: Stub, ask: Ask) -> None:
    stub.on("GET", EVENTS, Say(headers=SSE, pieces=[b": open\n\n"]))
    stub.on("GET", THE_JOB, detail("SUCCEEDED"))
    assert ask(lambda c: c.wait(JOB)).state.phase == "SUCCEEDED"


def test_wait_listens_before_it_looks_and_reads_the_job_again_only_at_its_end(stub: Stub, ask: Ask) -> None:
    looked = threading.Event()

    def pieces() -> Any:
        yield b": open\n\n"
        assert looked.wait(20), "the job was not read while the stream was open"
        yield event(2, "STAGING", "bound")
        yield event(3, "SUCCEEDED", "succeeded", job="another000000000")
        yield event(3, "SUCCEEDED", "succeeded")

    stub.on("GET", EVENTS, Say(headers=SSE, pieces=pieces()))
    stub.on("GET", THE_JOB, Say(detail("PENDING"), before=looked.set), detail("SUCCEEDED", seq=3))
    assert ask(lambda c: c.wait(JOB)).state.seq == 3
    assert [asked.path for asked in stub.asked] == [EVENTS, THE_JOB, THE_JOB]


def test_watch_tells_every_change_once(stub: Stub, ask: Ask) -> None:
    looked = threading.Semaphore(0)

    def pieces() -> Any:
        for seq, phase in ((2, "STAGING"), (2, "STAGING"), (3, "RUNNING"), (4, "FAILED")):
            looked.acquire(timeout=20)
            yield event(seq, phase)

    phases = ["PENDING", "STAGING", "STAGING", "RUNNING", "FAILED"]
    stub.on("GET", EVENTS, Say(headers=SSE, pieces=pieces()))
    stub.on("GET", THE_JOB, *(Say(detail(phase), before=looked.release) for phase in phases))
    seen = [found.state.phase for found in ask(lambda c: c.watch(JOB))]
    assert seen == ["PENDING", "STAGING", "RUNNING", "FAILED"]


@pytest.mark.parametrize("ending", [{"break_off": True}, {}], ids=["broken", "closed"])
def test_wait_survives_the_loss_of_its_stream(stub: Stub, ask: Ask, ending: dict[str, Any]) -> None:
    stub.on(
        "GET", EVENTS,
        Say(headers=SSE, pieces=[b": open\n\n", event(2, "STAGING")[:20]], **ending),
        Say(headers=SSE, pieces=[event(3, "FAILED")]),
    )  # fmt: skip
    stub.on("GET", THE_JOB, detail("PENDING"), detail("RUNNING"), detail("FAILED"))
    assert ask(lambda c: c.wait(JOB)).state.phase == "FAILED"
    assert len(stub.requests("GET", EVENTS)) == 2


def test_wait_falls_back_to_asking_where_streams_are_refused(
    stub: Stub, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.edge.client.flows.POLL_S", 0.001)
    stub.on("GET", EVENTS, problem(403, "forbidden"))
    stub.on("GET", THE_JOB, detail("PENDING"), detail("RUNNING"), detail("CANCELLED"))
    assert ask(lambda c: c.wait(JOB)).state.phase == "CANCELLED"


def test_wait_survives_a_restart_of_the_server(stub: Stub, ask: Ask) -> None:
    stub.on("GET", EVENTS, Say(headers=SSE, pieces=[b": open\n\n"], break_off=True))
    # More refusals than a single request would be repeated.
    down = [problem(503, "not-ready")] * 9
    stub.on("GET", THE_JOB, detail("RUNNING"), *down, detail("SUCCEEDED"))
    assert ask(lambda c: c.wait(JOB)).state.phase == "SUCCEEDED"


def test_wait_gives_up_in_time_but_looks_once(stub: Stub, ask: Ask) -> None:
    stub.on("GET", EVENTS, Say(headers=SSE, pieces=(b": still here\n\n" for _ in itertools.repeat(0))))
    stub.on("GET", THE_JOB, detail("RUNNING"))
    with pytest.raises(errors.WaitTimeout, match=f"{JOB} is RUNNING") as caught:
        ask(lambda c: c.wait(JOB, timeout=0.0))
    assert isinstance(caught.value, TimeoutError)
    assert len(stub.requests("GET", THE_JOB)) == 1


def test_a_wait_with_a_limit_does_not_open_its_stream_anew_because_it_was_greeted(stub: Stub, ask: Ask) -> None:
    looked = threading.Event()

    def pieces() -> Any:
        yield b": open\n\n"
        assert looked.wait(20), "the job was not read while the stream was open"
        yield event(3, "SUCCEEDED", "succeeded")

    stub.on("GET", EVENTS, Say(headers=SSE, pieces=pieces()))
    stub.on("GET", THE_JOB, Say(detail("RUNNING"), before=looked.set), detail("SUCCEEDED", seq=3))
    assert ask(lambda c: c.wait(JOB, timeout=20.0)).state.seq == 3
    assert [asked.path for asked in stub.asked] == [EVENTS, THE_JOB, THE_JOB]


def test_wait_for_a_job_that_is_not_there(stub: Stub, ask: Ask) -> None:
    with pytest.raises(errors.NotFound):
        ask(lambda c: c.wait(JOB))


def test_wait_for_an_array_looks_at_the_whole(stub: Stub, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.edge.client.flows.POLL_S", 0.001)
    stub.on("GET", EVENTS, Say(headers=SSE, pieces=[b": open\n\n"]))
    # All tasks that exist have ended, but not all exist yet: the array's own phase decides.
    early = detail("RUNNING", arrayCounts={"SUCCEEDED": 3})
    stub.on("GET", THE_JOB, early, early, detail("SUCCEEDED", arrayCounts={"SUCCEEDED": 9}))
    assert ask(lambda c: c.wait(JOB)).array_counts == {"SUCCEEDED": 9}


# ---- events


def take(count: int) -> Callable[[Any], Any]:
    """The first events of a client that would go on for ever."""

    def make(client: Any) -> Any:
        stream = client.events("5")
        if hasattr(stream, "__next__"):
            return list(itertools.islice(stream, count))

        async def some() -> Any:
            return [await anext(stream) for _ in range(count)]

        return some()

    return make


def test_events_resume_after_the_last_one_seen(stub: Stub, ask: Ask) -> None:
    first, second = event(2, "STAGING", cursor="7-1"), event(3, "RUNNING", cursor="8-2")
    stub.on(
        "GET", EVENTS,
        Say(headers=SSE, pieces=[b": open\n\n", first, second[:30]], break_off=True),
        problem(503, "not-ready"),
        Say(headers=SSE, pieces=[second, b'event: error\ndata: {"code":"lagged"}\n\n']),
        Say(headers=SSE, pieces=[event(4, "SUCCEEDED", cursor="9-1")]),
    )  # fmt: skip
    seen = ask(take(3))
    assert [(item.cursor, item.event.seq) for item in seen] == [("7-1", 2), ("8-2", 3), ("9-1", 4)]
    resumed = [asked.headers["last-event-id"] for asked in stub.requests("GET", EVENTS)]
    assert resumed == ["5", "7-1", "7-1", "8-2"]


def test_events_of_kinds_not_known_yet_are_passed_over(stub: Stub, ask: Ask) -> None:
    newer = event(2, "RUNNING", "teleported")
    stub.on("GET", EVENTS, Say(headers=SSE, pieces=[newer, event(3, "RUNNING")]))
    assert ask(take(1))[0].event.seq == 3


def test_a_refused_cursor_is_not_tried_again(stub: Stub, ask: Ask) -> None:
    stub.on("GET", EVENTS, problem(400, "bad-cursor", "not a cursor"))
    with pytest.raises(errors.InvalidRequest, match="not a cursor"):
        ask(take(1))
    assert len(stub.requests("GET", EVENTS)) == 1


# ---- logs


def test_log_is_read_once(stub: Stub, ask: Ask) -> None:
    stub.on("GET", LOGS, log(b"one\n", b"two\n", attempt=3))
    assert b"".join(ask(lambda c: c.logs(JOB, tail=10, attempt=3, rank=2))) == b"one\ntwo\n"
    assert stub.requests("GET", LOGS)[0].query == {"tail": "10", "attempt": "3", "rank": "2", "follow": "false"}


def test_log_goes_on_where_it_broke_off(stub: Stub, ask: Ask) -> None:
    stub.on(
        "GET", LOGS,
        log(b"two\n", b"thr", offset=4, attempt=2, break_off=True),
        problem(503, "not-ready"),
        log(b"ee\n", offset=11, attempt=2),
    )  # fmt: skip
    stub.on("GET", THE_JOB, detail("RUNNING", attempt=2))
    assert b"".join(ask(lambda c: c.logs(JOB, tail=1))) == b"two\nthree\n"
    first, *others = (asked.query for asked in stub.requests("GET", LOGS))
    assert first["tail"] == "1"
    assert all(query["offset"] == "11" and query["attempt"] == "2" and "tail" not in query for query in others)


def test_followed_log_goes_on_with_the_next_attempt(stub: Stub, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.edge.client.logs.POLL_S", 0.001)
    # The job had no attempt yet when it was opened.
    stub.on("GET", LOGS, log(b"first\n", attempt=0), log(b"second\n", attempt=2))
    stub.on(
        "GET", THE_JOB,
        detail("RETRYING", attempt=1), detail("RUNNING", attempt=2), detail("SUCCEEDED", attempt=2),
    )  # fmt: skip
    assert b"".join(ask(lambda c: c.logs(JOB, follow=True))) == b"first\nsecond\n"
    assert stub.requests("GET", LOGS)[1].query == {"attempt": "2", "rank": "0", "follow": "true", "offset": "0"}


def test_followed_log_survives_a_restart_of_the_server(stub: Stub, ask: Ask) -> None:
    # More refusals than a single request would be repeated.
    down = [problem(503, "not-ready")] * 9
    stub.on("GET", LOGS, log(b"one\n", break_off=True), log(b"two\n", offset=4))
    stub.on("GET", THE_JOB, *down, detail("RUNNING", attempt=1), *down, detail("SUCCEEDED", attempt=1))
    assert b"".join(ask(lambda c: c.logs(JOB, follow=True))) == b"one\ntwo\n"


def test_followed_log_of_one_attempt_ends_with_it(stub: Stub, ask: Ask) -> None:
    stub.on("GET", LOGS, log(b"first\n"))
    assert ask(lambda c: c.logs(JOB, follow=True, attempt=1)) == [b"first\n"]
    assert stub.requests("GET", THE_JOB) == []


def test_followed_log_of_a_job_cancelled_before_it_began_ends(stub: Stub, ask: Ask) -> None:
    stub.on("GET", LOGS, log(attempt=0, break_off=True))
    stub.on("GET", THE_JOB, detail("CANCELLED", attempt=0))
    assert ask(lambda c: c.logs(JOB, follow=True)) == []


def test_log_of_a_job_that_is_not_there(stub: Stub, ask: Ask) -> None:
    with pytest.raises(errors.NotFound):
        ask(lambda c: c.logs(JOB, follow=True))


# ---- the parser

WIRE = (
    b": open\n\nid: 1\r\nevent: a\r\ndata: x\r\ndata:y\r\n\r\n"
    b"id: 2\ndata: \xc3\xa9\n\n: still here\n\ndata: z\n\nid: 9\ndata: cut"
)
PARSED = [ServerEvent("1", "a", "x\ny"), ServerEvent("2", "message", "é"), ServerEvent("2", "message", "z")]


@given(st.lists(st.integers(0, len(WIRE)), max_size=12))
def test_events_do_not_depend_on_how_bytes_arrive(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WIRE)]
    parser = SseParser()
    found = [item for a, b in itertools.pairwise(edges) for item in parser.feed(WIRE[a:b])]
    assert found == PARSED
