"""How the client behaves: repeat, resume, follow, wait. Decisions only; see `steps`."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeVar

import msgspec

from ares.api.jobs import JobDetail, StreamedEvent
from ares.edge.client.addresses import Addresses, Tour, gone
from ares.edge.client.calls import answers, calls
from ares.edge.client.calls.calls import Call, Reply, Request, read_answer, read_problem, retry_after_s
from ares.edge.client.errors import Unavailable, Unreachable, WaitTimeout
from ares.edge.client.retry import DEFAULT_RETRY, RETRY_STATUSES, Retry, repeatable_failure, repeatable_status
from ares.edge.client.steps import Broken, Close, Emit, Flow, Now, Open, Pause, Read, Send
from ares.model.job import JobSpec
from ares.model.state import TERMINAL, LedgerEvent

T = TypeVar("T")
# The server sends a comment well within this when nothing happens.
SILENCE_S = 45.0
POLL_S = 1.0
# Progress, and why a job waits, change without an event: a watch reads them again after this long.
REFRESH_S = 2.0
_LINE_MAX = 4 * 1024 * 1024


def _uniform() -> float:
    # Imported when a request has failed: few commands live to see one.
    from random import random

    return random()


class Flows(msgspec.Struct, frozen=True):
    """The flows of one client."""

    addresses: Addresses
    url_from: str
    retry: Retry = DEFAULT_RETRY
    uniform: Callable[[], float] = _uniform

    def exchange(self, call: Call[T], tour: Tour | None = None) -> Flow[T]:
        """Sends a request; repeats it while that is safe and may help, first to every other replica."""
        failures, tour = 0, tour or Tour(self.addresses)
        while True:
            answer: Reply | Broken = yield Send(call.request, tour.next())
            if tour.note(answer) and _repeatable(call.request, answer):
                continue
            failures += 1
            delay = self._worth_repeating(call.request, answer, failures)
            if delay is not None:
                yield Pause(delay)
            elif isinstance(answer, Broken) or gone(answer):
                raise self.failure(answer, call.request, tour)
            else:
                return read_answer(call, answer)

    def submit_many(
        self, jobs: Sequence[tuple[JobSpec, str]]
    ) -> Flow[tuple[answers.Submitted | answers.RefusedJob, ...]]:
        """Submits in batches; answers come in the order of the jobs."""
        found: list[answers.Submitted | answers.RefusedJob] = []
        for batch in calls.batches(jobs):
            items = yield from self.exchange(batch)
            found.extend(item.outcome() for item in items)
        return tuple(found)

    def pages(self, params: calls.Params) -> Flow[None]:
        """Emits the jobs of all pages."""
        cursor = ""
        while True:
            page = yield from self.exchange(calls.jobs({**params, "cursor": cursor}))
            for state in page.jobs:
                yield Emit(state)
            if not page.cursor:
                return
            cursor = page.cursor

    def events(self, cursor: str, job_id: str | None) -> Flow[None]:
        """Emits `StreamedEvent`s for ever, resuming after the last one seen whenever the connection is lost."""
        patience = Patience(self)
        while True:
            opened: Reply | Broken = yield Open(calls.event_stream(cursor, job_id), patience.tour.next(), SILENCE_S)
            parser = SseParser()
            while isinstance(opened, Reply) and opened.status < 400:
                chunk: bytes | Broken = yield Read()
                if isinstance(chunk, Broken):
                    opened = chunk
                if isinstance(chunk, Broken) or not chunk:
                    break
                patience.reset()
                patience.tour.answered()
                for item in parser.feed(chunk):
                    cursor = item.id or cursor
                    if event := _ledger_event(item):
                        yield Emit(StreamedEvent(cursor=cursor, event=event))
            yield from patience.lose(opened, calls.event_stream(cursor, job_id))

    def watch(self, job_id: str, timeout_s: float | None, *, only_end: bool) -> Flow[None]:
        """Emits the job's detail at each change (or only the last), until it has ended."""
        deadline = None if timeout_s is None else (yield Now()) + timeout_s
        patience, parser, seen, listening, quiet_s = Patience(self), SseParser(), None, False, 0.0
        greeted = False
        while True:
            left = yield from _time_left(deadline, job_id, seen)
            if not listening:
                # Opened before the job is read: nothing can happen unseen in between.
                quiet_s = min(SILENCE_S if only_end else REFRESH_S, left)
                stream = calls.event_stream("", job_id)
                opened: Reply | Broken = yield Open(stream, patience.tour.next(), quiet_s)
                patience.tour.note(opened)
                listening, parser = isinstance(opened, Reply) and opened.status < 400, SseParser()
                greeted = False
            detail = yield from self.look(job_id, patience)
            if ended(detail) or (not only_end and detail != seen):
                yield Emit(detail)
            if ended(detail):
                yield Close()
                return
            seen = detail
            if patience.looked_at != patience.tour.at:
                # A replica that is behind may have shown the job as it was before this stream began.
                listening = False
            # An array's own events do not tell when its last task ends.
            if listening and detail.array_counts is None:
                lost = yield from _until_change(parser, job_id, only_end, bounded=deadline is not None, greeted=greeted)
                listening, greeted = lost is None, True
                # A short silence is our own wish, to look again; a long one is a replica that hangs.
                if isinstance(lost, Broken) and (lost.kind != "silent" or quiet_s >= SILENCE_S):
                    patience.tour.failed(lost)
            else:
                yield Pause(min(POLL_S, left))

    def look(self, job_id: str, patience: "Patience") -> Flow[JobDetail]:
        """Reads a job in the course of following it: once it was met, the server may be away for a while."""
        while True:
            tour = Tour(self.addresses)
            try:
                detail: JobDetail = yield from self.exchange(calls.job(job_id), tour)
            except (Unreachable, Unavailable) as error:
                if not patience.met:
                    raise
                yield from patience.lose(error, calls.job(job_id).request)
            else:
                patience.reset()
                patience.looked_at = tour.at
                return detail

    def failure(self, answer: Reply | Broken, asked: Request, tour: Tour) -> Exception:
        """The error that ends a tour: it names every address that was tried."""
        if isinstance(answer, Broken):
            return Unreachable("; ".join(f"{url} (from {self.url_from}): {why}" for url, why in tour.said.items()))
        tried = "; ".join(f"{url}: {why}" for url, why in tour.said.items()) if len(tour.said) > 1 else ""
        return read_problem(answer, asked, tried)

    def _worth_repeating(self, request: Request, answer: Reply | Broken, failures: int) -> float | None:
        if failures >= self.retry.attempts:
            return None
        asked_s = retry_after_s(answer) if isinstance(answer, Reply) else None
        if not _repeatable(request, answer) or (asked_s or 0.0) > self.retry.retry_after_max_s:
            return None
        return self.retry.delay_s(failures, self.uniform(), asked_s)


class Patience:
    """Pauses between the tries of a stream, and the end of them: quick before the first contact, long after it."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows
        self._failures = 0
        self._since: float | None = None
        self.tour = Tour(flows.addresses)
        self.looked_at = ""
        self.met = False

    def reset(self) -> None:
        self._failures, self._since, self.met = 0, None, True

    def lose(self, why: Reply | Broken | Exception, asked: Request) -> Flow[None]:
        """Call it when a stream is lost: returns when it is time to try again, raises when that is hopeless."""
        if isinstance(why, Reply) and why.status >= 400 and why.status not in RETRY_STATUSES:
            raise read_problem(why, asked)
        if not isinstance(why, Exception) and gone(why) and self.tour.failed(why):
            return
        now: float = yield Now()
        self._since = now if self._since is None else self._since
        self._failures += 1
        retry = self._flows.retry
        spent = now - self._since >= retry.stream_patience_s if self.met else self._failures >= retry.attempts
        if spent:
            raise why if isinstance(why, Exception) else self._error(why, asked)
        asked_s = retry_after_s(why) if isinstance(why, Reply) else None
        yield Pause(retry.delay_s(self._failures, self._flows.uniform(), asked_s))

    def _error(self, why: Reply | Broken, asked: Request) -> Exception:
        if isinstance(why, Broken) or why.status >= 400:
            return self._flows.failure(why, asked, self.tour)
        return Unreachable(f"{self.tour.at} keeps closing the stream at once")


class ServerEvent(msgspec.Struct, frozen=True):
    """A server-sent event: `id` is the cursor to resume after it."""

    id: str
    event: str
    data: str


class SseParser:
    """Feed it chunks as they come; it yields events as they are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._id = ""
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._rest) > _LINE_MAX:
            raise ValueError(f"a line of the event stream is longer than {_LINE_MAX} bytes")
        for line in lines:
            if line:
                self._field(line.decode("utf-8", "replace"))
            elif self._data or self._event:
                yield ServerEvent(self._id, self._event or "message", "\n".join(self._data))
                self._event, self._data = "", []

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value


def ended(detail: JobDetail) -> bool:
    """Whether the job, or every task of the array, is finished."""
    return detail.state.phase in TERMINAL


def _until_change(
    parser: SseParser, job_id: str, only_end: bool, *, bounded: bool, greeted: bool
) -> Flow[bytes | Broken | None]:
    """Reads the open stream until the job changed (or ended). Anything but None: open it anew."""
    while True:
        chunk: bytes | Broken = yield Read()
        if isinstance(chunk, Broken) or not chunk:
            return chunk
        events = [event for item in parser.feed(chunk) if (event := _ledger_event(item))]
        if any(event.job == job_id and (not only_end or event.phase in TERMINAL) for event in events):
            return None
        if bounded and greeted:
            # Any sign of life restarts the transport's silence timer: reopen with what is left of the time. Not the
            # greeting, which comes with every opening: the client would open streams as fast as it can.
            return chunk
        greeted = True


def _repeatable(request: Request, answer: Reply | Broken) -> bool:
    if isinstance(answer, Broken):
        return repeatable_failure(answer.kind, request.repeatable)
    return repeatable_status(answer.status, request.repeatable)


def _time_left(deadline: float | None, job_id: str, seen: JobDetail | None) -> Flow[float]:
    if deadline is None:
        return float("inf")
    now: float = yield Now()
    # One look is always taken, even with no time at all.
    if now >= deadline and seen is not None:
        raise WaitTimeout(f"{job_id} is {seen.state.phase}")
    return max(deadline - now, 0.05)


@cache
def _event_decoder() -> msgspec.json.Decoder[LedgerEvent]:
    """Made when the first event comes: most commands see none."""
    return msgspec.json.Decoder(LedgerEvent)


def _ledger_event(item: ServerEvent) -> LedgerEvent | None:
    """Greetings, and kinds of events of newer servers, only move the cursor."""
    try:
        return _event_decoder().decode(item.data)
    except msgspec.DecodeError:
        return None
