"""Several addresses: a client goes on with another replica when the one it talks to is gone."""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ares.edge.client import addresses, errors
from ares.edge.client.addresses import Addresses, Tour
from ares.edge.client.steps import Broken
from ares.edge.client.sync import Client
from tests.unit.edge.client.both import QUICK, drain_async, drain_sync
from tests.unit.edge.client.stub import JOB, Say, Stub, detail, event, problem, state

EVENTS, JOBS, THE_JOB, LOGS = "/v1/events", "/v1/jobs", f"/v1/jobs/{JOB}", f"/v1/jobs/{JOB}/logs"
SSE = {"content-type": "text/event-stream"}
Ask = Callable[[Callable[[Any], Any]], Any]


@pytest.fixture
def other() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.close()


@pytest.fixture
def gone() -> str:
    """An address where nobody listens."""
    server = Stub()
    server.close()
    return server.url


@pytest.fixture(params=["sync", "async"])
def ask_both(request: pytest.FixtureRequest, stub: Stub, other: Stub) -> Ask:
    """Asks by a client that knows the stub first, then the other one."""
    drain: Any = drain_sync if request.param == "sync" else drain_async
    return lambda make: drain(make, f"{stub.url}, {other.url}/")


def log(*pieces: bytes, offset: int = 0, **more: Any) -> Say:
    return Say(headers={"x-ares-attempt": "1", "x-ares-log-offset": str(offset)}, pieces=pieces, **more)


# ---- requests


@pytest.mark.parametrize("end", [Say(hang_up=True), problem(503, "not-ready", retry_after="3600")], ids=["dies", "503"])
def test_a_submission_goes_on_under_its_request_id(stub: Stub, other: Stub, ask_both: Ask, end: Say) -> None:
    stub.on("POST", JOBS, end)
    other.on("POST", JOBS, {"id": JOB, "replayed": True})
    assert ask_both(lambda c: c.submit(command=["true"])).replayed
    (first,), (second,) = stub.requests("POST", JOBS), other.requests("POST", JOBS)
    assert first.body == second.body
    assert first.body["requestId"]


def test_a_submission_that_gets_no_answer_in_time_goes_on_elsewhere(stub: Stub, other: Stub) -> None:
    answered = threading.Event()
    stub.on("POST", JOBS, Say(hang_up=True, before=lambda: answered.wait(20)))
    other.on("POST", JOBS, Say({"id": JOB}))
    with Client(f"{stub.url},{other.url}", "token", retry=QUICK, timeout_s=0.5) as client:
        assert client.submit(command=["true"]).id == JOB
    answered.set()
    assert stub.requests("POST", JOBS)[0].body == other.requests("POST", JOBS)[0].body


def test_what_may_have_arrived_and_cannot_be_repeated_is_not(stub: Stub, other: Stub, ask_both: Ask) -> None:
    stub.on("POST", "/v1/tokens", Say(hang_up=True))
    with pytest.raises(errors.Unreachable, match=stub.url) as caught:
        ask_both(lambda c: c.create_token())
    assert other.url not in str(caught.value)
    assert other.asked == []


def test_a_retry_is_repeated_under_the_same_id(stub: Stub, other: Stub, ask_both: Ask) -> None:
    stub.on("POST", f"{THE_JOB}/retry", Say(hang_up=True))
    other.on("POST", f"{THE_JOB}/retry", state("PENDING"))
    assert ask_both(lambda c: c.retry(JOB)).id == JOB
    (first,), (second,) = (one.requests("POST", f"{THE_JOB}/retry") for one in (stub, other))
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_an_answer_is_an_answer(stub: Stub, other: Stub, ask_both: Ask, status: int) -> None:
    stub.on("GET", THE_JOB, problem(status, "some-code"))
    with pytest.raises(errors.ApiError):
        ask_both(lambda c: c.get(JOB))
    assert other.asked == []


def test_a_limit_holds_at_every_replica(stub: Stub, other: Stub, ask_both: Ask) -> None:
    stub.on("GET", THE_JOB, problem(429, "rate"), detail("RUNNING"))
    assert ask_both(lambda c: c.get(JOB)).state.phase == "RUNNING"
    assert other.asked == []


def test_the_address_that_answered_is_asked_first_from_then_on(stub: Stub, other: Stub) -> None:
    stub.on("GET", THE_JOB, problem(503, "not-ready"), detail("PENDING"))
    other.on("GET", THE_JOB, detail("RUNNING"), detail("RUNNING"), Say(hang_up=True))
    with Client(f"{stub.url},{other.url}", "token", retry=QUICK) as client:
        assert [client.get(JOB).state.phase for _ in range(3)] == ["RUNNING", "RUNNING", "PENDING"]
    assert (len(stub.requests("GET", THE_JOB)), len(other.requests("GET", THE_JOB))) == (2, 3)


@pytest.mark.parametrize("drain", [drain_sync, drain_async])
def test_the_error_names_every_address_tried(stub: Stub, gone: str, drain: Any) -> None:
    stub.on("GET", THE_JOB, Say(hang_up=True))
    with pytest.raises(errors.Unreachable) as caught:
        drain(lambda c: c.get(JOB), f"{gone},{stub.url}")
    assert f"{gone} (from argument): " in str(caught.value)
    assert f"{stub.url} (from argument): " in str(caught.value)
    stub.on("GET", THE_JOB, problem(503, "not-ready", "starting"))
    with pytest.raises(errors.Unavailable, match="starting") as refused:
        drain(lambda c: c.get(JOB), f"{gone},{stub.url}")
    assert f"{gone}: " in str(refused.value)
    assert f"{stub.url}: answered 503" in str(refused.value)
    # Each round asks every address once, and there are as many rounds as tries of a single one.
    assert len(stub.requests("GET", THE_JOB)) == 2 * QUICK.attempts


def test_no_proxy_stands_between_a_machine_and_its_own_replica(
    stub: Stub, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", gone)
    monkeypatch.setenv("ALL_PROXY", gone)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    stub.on("GET", THE_JOB, detail("RUNNING"))
    with Client(f"http://far.invalid:1,{stub.url}", "token", retry=QUICK) as client:
        assert client.get(JOB).state.phase == "RUNNING"


# ---- streams


def test_events_go_on_behind_the_last_one_seen(stub: Stub, other: Stub, ask_both: Ask) -> None:
    second = event(3, "RUNNING", cursor="8-2")
    stub.on("GET", EVENTS, Say(headers=SSE, pieces=[event(2, "STAGING", cursor="7-1"), second[:30]], break_off=True))
    other.on("GET", EVENTS, Say(headers=SSE, pieces=[second, event(4, "SUCCEEDED", cursor="9-1")]))

    def take(client: Any) -> Any:
        stream = client.events("5")
        if hasattr(stream, "__next__"):
            return list(itertools.islice(stream, 3))

        async def some() -> Any:
            return [await anext(stream) for _ in range(3)]

        return some()

    assert [item.cursor for item in ask_both(take)] == ["7-1", "8-2", "9-1"]
    assert [asked.headers["last-event-id"] for asked in stub.requests("GET", EVENTS)] == ["5"]
    assert [asked.headers["last-event-id"] for asked in other.requests("GET", EVENTS)] == ["7-1"]


def test_a_followed_log_goes_on_at_its_offset(stub: Stub, other: Stub, ask_both: Ask) -> None:
    stub.on("GET", LOGS, log(b"one\n", b"tw", break_off=True))
    stub.on("GET", THE_JOB, Say(hang_up=True))
    other.on("GET", LOGS, log(b"o\n", offset=6))
    other.on("GET", THE_JOB, detail("RUNNING", attempt=1), detail("SUCCEEDED", attempt=1))
    assert b"".join(ask_both(lambda c: c.logs(JOB, follow=True))) == b"one\ntwo\n"
    assert len(stub.requests("GET", LOGS)) == 1
    assert [asked.query["offset"] for asked in other.requests("GET", LOGS)] == ["6"]


def test_wait_goes_on_elsewhere(stub: Stub, other: Stub, ask_both: Ask) -> None:
    stub.on("GET", EVENTS, Say(headers=SSE, pieces=[b": open\n\n"], break_off=True))
    stub.on("GET", THE_JOB, detail("RUNNING"), Say(hang_up=True))
    other.on("GET", EVENTS, Say(headers=SSE, pieces=[b": open\n\n", event(3, "SUCCEEDED")]))
    other.on("GET", THE_JOB, detail("RUNNING"), detail("SUCCEEDED"))
    assert ask_both(lambda c: c.wait(JOB)).state.phase == "SUCCEEDED"
    assert len(stub.requests("GET", EVENTS)) == 1


def test_wait_does_not_trust_a_look_at_one_replica_with_a_stream_of_another(
    stub: Stub, other: Stub, ask_both: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.edge.client.flows.POLL_S", 0.001)
    over, stuck = threading.Event(), threading.Event()

    def silent() -> Iterator[bytes]:
        # The end was told before this stream began: it never comes.
        yield b": open\n\n"
        if not over.wait(10):
            stuck.set()

    stub.on("GET", EVENTS, Say(headers=SSE, pieces=silent()))
    stub.on("GET", THE_JOB, Say(hang_up=True))
    other.on("GET", EVENTS, Say(headers=SSE, pieces=[b": open\n\n"]))
    # The other replica is behind at first.
    other.on("GET", THE_JOB, detail("RUNNING"), Say(detail("SUCCEEDED"), before=over.set))
    assert ask_both(lambda c: c.wait(JOB)).state.phase == "SUCCEEDED"
    assert not stuck.is_set(), "the client listened to the stream of a replica it had not looked at"


def test_wait_leaves_a_replica_that_went_quiet(
    stub: Stub, other: Stub, ask_both: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.edge.client.flows.SILENCE_S", 0.5)
    over = threading.Event()

    def hanging() -> Iterator[bytes]:
        yield b": open\n\n"
        over.wait(20)

    stub.on("GET", EVENTS, Say(headers=SSE, pieces=hanging()))
    stub.on("GET", THE_JOB, detail("RUNNING"))
    other.on("GET", EVENTS, Say(headers=SSE, pieces=[b": open\n\n"]))
    other.on("GET", THE_JOB, detail("SUCCEEDED"))
    assert ask_both(lambda c: c.wait(JOB)).state.phase == "SUCCEEDED"
    over.set()
    assert len(stub.requests("GET", EVENTS)) == 1


def test_streams_that_break_everywhere_are_not_opened_in_a_busy_loop() -> None:
    tour = Tour(Addresses(("http://a", "http://b", "http://c")))
    at_once: list[bool] = []
    for _ in range(9):
        tour.next()
        tour.answered()
        at_once.append(tour.failed(Broken("sent", "broke off")))
    assert at_once == [True, True, False] * 3


def test_flows_that_lose_one_replica_together_leave_it_once() -> None:
    addresses = Addresses(("http://a", "http://b", "http://c"))
    tours = [Tour(addresses) for _ in range(3)]
    assert [tour.next() for tour in tours] == ["http://a"] * 3
    for tour in tours:
        assert tour.failed(Broken("connect", "refused"))
    assert Tour(addresses).next() == "http://b"


def test_clients_begin_at_any_of_the_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "choice", random.Random(7).choice)
    urls = ("http://a", "http://b", "http://c")
    first = Counter(Addresses(urls).current for _ in range(300))
    assert set(first) == set(urls)
    assert min(first.values()) > 70
