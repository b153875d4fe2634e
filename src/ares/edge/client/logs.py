"""Reading a job's output: from one attempt to the next, and on after a lost connection."""

from dataclasses import dataclass
from typing import Any

from ares.edge.client import answers, calls
from ares.edge.client.calls import Reply
from ares.edge.client.flows import POLL_S, SILENCE_S, Flows, Patience, ended
from ares.edge.client.steps import Broken, Emit, Flow, Open, Pause, Read

ATTEMPT_HEADER = "x-ares-log-attempt"
OFFSET_HEADER = "x-ares-log-offset"


@dataclass(slots=True)
class _Place:
    """Where in the output we are. An `attempt` of None means the latest one."""

    attempt: int | None
    offset: int | None
    tail: int | None

    def params(self, rank: int, follow: bool) -> dict[str, Any]:
        tail = self.tail if self.offset is None else None
        return {"attempt": self.attempt, "rank": rank, "follow": follow or None, "offset": self.offset, "tail": tail}

    def learn(self, reply: Reply) -> None:
        attempt, offset = reply.headers.get(ATTEMPT_HEADER, ""), reply.headers.get(OFFSET_HEADER, "")
        self.attempt = int(attempt) if attempt.isdecimal() else self.attempt
        self.offset = int(offset) if offset.isdecimal() else self.offset or 0


def follow_logs(
    flows: Flows, job_id: str, follow: bool, tail: int | None, attempt: int | None, rank: int
) -> Flow[None]:
    """Emits the output as it comes. With `follow` and no attempt named, later attempts come after earlier ones."""
    place, patience = _Place(attempt, None, tail), Patience(flows)
    while True:
        opened: Reply | Broken = yield Open(calls.job_logs(job_id, place.params(rank, follow)), SILENCE_S)
        finished = False
        if isinstance(opened, Reply) and opened.status < 400:
            patience.reset()
            place.learn(opened)
            finished = yield from _copy(place)
        if not finished:
            yield from patience.lose(opened)
            continue
        if not follow or attempt is not None:
            return
        detail: answers.JobDetail = yield from flows.exchange(calls.job(job_id))
        if place.attempt is not None and detail.state.attempt > place.attempt:
            place = _Place(place.attempt + 1, 0, None)
        elif ended(detail):
            return
        else:
            yield Pause(POLL_S)


def _copy(place: _Place) -> Flow[bool]:
    """Emits the open answer's bytes. False: it broke off."""
    while True:
        chunk: bytes | Broken = yield Read()
        if isinstance(chunk, Broken):
            return False
        if not chunk:
            return True
        yield Emit(chunk)
        place.offset = (place.offset or 0) + len(chunk)
