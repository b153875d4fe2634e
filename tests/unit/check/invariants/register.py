"""One job that five clients ask about, by chance: legal histories of any size, and ways to spoil them."""

import random
from typing import Any, NamedTuple

import msgspec

from ares.check.invariants.history import Answered, Asked, Commit, Event, Settings, Write

JOB = "j1"
WAY = ("STAGING", "RUNNING", "RETRYING", "PENDING")


class _Call(NamedTuple):
    asked: Asked
    # When it takes effect, and when its answer comes.
    at: float
    ends: float


def history(chance: random.Random, calls: int = 200, clients: int = 5, unknown: float = 0.04) -> list[Event]:
    """Every call takes effect at one moment between its question and its answer."""
    job = _Job(chance)
    planned = _plan(chance, calls, clients)
    horizon = max(call.ends for call in planned)
    moments: list[tuple[float, _Call | None]] = [(call.at, call) for call in planned]
    moments += [(chance.uniform(0.0, horizon), None) for _ in range(calls // 4)]
    events: list[Event] = [Settings(t=0.0)]
    for at, call in sorted(moments, key=lambda one: one[0]):
        if call is None:
            job.move(at)
            continue
        answer = job.take(at, call.asked)
        if chance.random() < unknown:
            answer = {"outcome": "unknown"}
        events += [call.asked, Answered(t=call.ends, op=call.asked.op, **answer)]
    return sorted([*events, *job.commits], key=lambda event: event.t)


def _plan(chance: random.Random, calls: int, clients: int) -> list[_Call]:
    planned: list[_Call] = []
    times = [chance.random() for _ in range(clients)]
    for op in range(1, calls + 1):
        client = chance.randrange(clients)
        began = times[client] + chance.random()
        at = began + chance.random()
        times[client] = ends = at + chance.random()
        verb = chance.choices(("submit", "get", "cancel"), (0.1, 0.88, 0.02 if op > calls * 0.7 else 0.0))[0]
        payload = chance.choice("ppq")
        planned.append(_Call(_asked(op, began, f"c{client}", verb, payload), at, ends))
    return planned


def _asked(op: int, t: float, client: str, verb: Any, payload: str) -> Asked:
    submits = verb == "submit"
    return Asked(
        t=t, op=op, client=client, verb=verb, tenant="alpha", request="q1" if submits else "",
        payload=payload if submits else "", job="" if submits else JOB,
    )  # fmt: skip


class _Job:
    """The truth."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._payload: str | None = None
        self._phase = ""
        self._seq = 0
        self.commits: list[Commit] = []

    def move(self, t: float) -> None:
        """What the platform does by itself."""
        if self._payload is not None and self._phase != "CANCELLED":
            self._set(t, self._chance.choice(WAY))

    def _set(self, t: float, phase: str) -> None:
        self._phase, self._seq = phase, self._seq + 1
        state = {"id": JOB, "tenant": "alpha", "phase": phase, "seq": self._seq}
        writes = (Write(f"/state/alpha/{JOB}", msgspec.json.encode(state).decode(), self._seq),)
        if self._seq == 1:
            noted = {"job": JOB, "payloadSha256": self._payload}
            writes = (*writes, Write("/requests/alpha/q1", msgspec.json.encode(noted).decode(), 1))
        self.commits.append(Commit(t=t, revision=len(self.commits) + 1, writes=writes))

    def take(self, t: float, asked: Asked) -> dict[str, Any]:
        return {"submit": self._submit, "get": self._get, "cancel": self._cancel}[asked.verb](t, asked)

    def _submit(self, t: float, asked: Asked) -> dict[str, Any]:
        if self._payload is None:
            self._payload = asked.payload
            self._set(t, "PENDING")
            return {"outcome": "ok", "job": JOB}
        if self._payload != asked.payload:
            return {"outcome": "refused", "code": "request-conflict"}
        return {"outcome": "ok", "job": JOB, "replayed": True}

    def _get(self, t: float, asked: Asked) -> dict[str, Any]:
        if self._payload is None:
            return {"outcome": "refused", "code": "not-found"}
        return {"outcome": "ok", "job": JOB, "phase": self._phase, "seq": self._seq}

    def _cancel(self, t: float, asked: Asked) -> dict[str, Any]:
        if self._payload is None:
            return {"outcome": "refused", "code": "not-found"}
        if self._phase == "CANCELLED":
            return {"outcome": "refused", "code": "terminal"}
        self._set(t, "CANCELLED")
        return {"outcome": "ok", "job": JOB, "phase": "CANCELLED", "seq": self._seq}
