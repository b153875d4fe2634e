"""Reading a job's output: from one attempt to the next, and on after a lost connection."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.json import decode as decode_json

from ares.api.jobs import LogStream, StreamedLog
from ares.edge.client.calls import calls
from ares.edge.client.calls.calls import Reply
from ares.edge.client.flows import POLL_S, SILENCE_S, Flows, Patience, ended
from ares.edge.client.steps import Broken, Emit, Flow, Open, Pause, Read

ATTEMPT_HEADER = "x-ares-attempt"
OFFSET_HEADER = "x-ares-log-offset"
_PIECES = "application/jsonl"
OnAttempt = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class LogWish:
    """Which output is asked for. `pieces`: it is emitted with its offsets and streams, not as bytes."""

    follow: bool = False
    tail: int | None = None
    attempt: int | None = None
    rank: int = 0
    since: float | None = None
    stream: LogStream | None = None
    pieces: bool = False


@dataclass(slots=True)
class _Place:
    """Where in the output we are. An `attempt` of None means the latest one."""

    attempt: int | None
    offset: int | None = None
    tail: int | None = None
    since: float | None = None

    def params(self, wish: LogWish) -> calls.Params:
        begin: calls.Params = {"tail": self.tail, "since": self.since} if self.offset is None else {}
        # Bytes of one stream do not say how far the log was read.
        apart = wish.pieces or wish.stream is not None
        some: calls.Params = {"stream": wish.stream, "pieces": True} if apart else {}
        return {
            "attempt": self.attempt, "rank": wish.rank, "follow": wish.follow, "offset": self.offset, **begin, **some
        }  # fmt: skip

    def learn(self, reply: Reply) -> None:
        """The server says what it sends. 0 is a job that waits for its first attempt."""
        attempt, offset = reply.headers.get(ATTEMPT_HEADER, ""), reply.headers.get(OFFSET_HEADER, "")
        self.attempt = max(1, int(attempt)) if attempt.isdecimal() else self.attempt
        self.offset = int(offset) if offset.isdecimal() else self.offset or 0


def follow_logs(flows: Flows, job_id: str, wish: LogWish, on_attempt: OnAttempt | None = None) -> Flow[None]:
    """Emits the output as it comes. With `follow` and no attempt named, later attempts come after earlier ones.

    `on_attempt` is called ahead of each later attempt's output.
    """
    follow, place, patience = wish.follow, _Place(wish.attempt, tail=wish.tail, since=wish.since), Patience(flows)
    while True:
        request = calls.job_logs(job_id, place.params(wish))
        opened: Reply | Broken = yield Open(request, patience.tour.next(), SILENCE_S)
        lost = opened
        if isinstance(opened, Reply) and opened.status < 400:
            patience.reset()
            patience.tour.answered()
            place.learn(opened)
            in_pieces = opened.headers.get("content-type", "").startswith(_PIECES)
            lost = yield from (_copy_pieces(place, wish) if in_pieces else _copy(place))
        if lost is not None:
            # Silence may also mean that the attempt we wait for will never be.
            if follow and patience.met and (yield from _never_comes(flows, job_id, place, patience)):
                return
            yield from patience.lose(lost, request)
        elif not follow or wish.attempt is not None or not (yield from _next_attempt(flows, job_id, place, patience)):
            return
        else:
            place = _Place((place.attempt or 0) + 1, 0)
            if on_attempt is not None:
                on_attempt(place.attempt or 1)


def search_logs(
    flows: Flows, job_id: str, text: str, attempt: int | None, rank: int, stream: LogStream | None = None
) -> Flow[None]:
    """Emits the lines that contain the text, as far as the output goes now."""
    offset = 0
    while True:
        params: calls.Params = {
            "text": text, "attempt": attempt, "rank": rank, "offset": offset, "limit": 1000, "stream": stream
        }  # fmt: skip
        found = yield from flows.exchange(calls.search_logs(job_id, params))
        for line in found.lines:
            yield Emit(line)
        if found.complete or found.next == offset:
            return
        # Later attempts begin at their own first byte: the search stays in the one it began in.
        offset, attempt = found.next, found.attempt or attempt


def _copy(place: _Place) -> Flow[Broken | None]:
    """Emits the open answer's bytes. None: it is complete."""
    while True:
        chunk: bytes | Broken = yield Read()
        if isinstance(chunk, Broken):
            return chunk
        if not chunk:
            return None
        yield Emit(chunk)
        place.offset = (place.offset or 0) + len(chunk)


def _copy_pieces(place: _Place, wish: LogWish) -> Flow[Broken | None]:
    """The same of an answer in lines of JSON. Half a line at a break is asked for again."""
    rest = b""
    while True:
        chunk: bytes | Broken = yield Read()
        if isinstance(chunk, Broken):
            return chunk
        if not chunk:
            return None
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            piece = decode_json(line, type=StreamedLog)
            if wish.pieces or piece.data:
                yield Emit(piece if wish.pieces else piece.data)
            place.offset = piece.next


def _next_attempt(flows: Flows, job_id: str, place: _Place, patience: Patience) -> Flow[bool]:
    """Waits for an attempt after this one. False: the job has ended without."""
    while True:
        detail = yield from flows.look(job_id, patience)
        if detail.state.attempt > (place.attempt or 0):
            return True
        if ended(detail):
            return False
        yield Pause(POLL_S)


def _never_comes(flows: Flows, job_id: str, place: _Place, patience: Patience) -> Flow[bool]:
    detail = yield from flows.look(job_id, patience)
    return ended(detail) and detail.state.attempt < (place.attempt or 0)
