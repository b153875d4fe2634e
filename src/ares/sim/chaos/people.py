"""Clients of a run: they submit, send again, send something else under the same id, look, cancel and try again."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from ares.check.invariants.history import Answered, Verb, digest_of
from ares.edge.client.errors import ApiError, AresError, ServerError
from ares.edge.client.sync import Client
from ares.sim.chaos.canary import Canary, spec_of
from ares.sim.chaos.record import ChaosRecorder

_TRIES_PAUSE_S = 0.2
# The longest that a canary lasts, in leases, one as likely as the other.
_LENGTHS = (0.0, 0.5, 0.5, 1.5)
# How likely each of them comes after a submission.
_AFTER = {"replay": 0.3, "conflict": 0.15, "look": 0.8, "cancel": 0.1, "retry": 0.08}


class ChaosWorld(msgspec.Struct, frozen=True):
    """What all of a run's clients share."""

    tenant: str
    run: str
    marks: Path
    lease_s: float
    recorder: ChaosRecorder
    # No new jobs; and, later, no more tries of what was not answered.
    enough: threading.Event
    over: threading.Event


class ChaosPerson:
    """One client, one call at a time."""

    def __init__(self, name: str, client: Client, world: ChaosWorld, seed: int, jobs_per_s: float) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._client = client
        self._world = world
        self._chance = random.Random(seed)
        self._pause_s = 1.0 / jobs_per_s
        self._count = 0
        # Its own submissions that were answered: request, wish, job.
        self._mine: list[tuple[str, Canary, str]] = []
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _live(self) -> None:
        acts = {"replay": self._replay, "conflict": self._conflict, "look": self._look, "cancel": self._cancel,
                "retry": self._retry}  # fmt: skip
        try:
            while not self._world.enough.wait(self._chance.uniform(0.0, 2 * self._pause_s)):
                self._submit()
                for name, act in acts.items():
                    if self._mine and self._chance.random() < _AFTER[name]:
                        act()
        except BaseException as error:
            self.failure = error

    # ---- what they do

    def _submit(self) -> None:
        self._count += 1
        # In tenths of a second: short ones, and some that outlast a lease.
        longest = int(self._chance.choice(_LENGTHS) * self._world.lease_s * 10)
        wish = Canary(self._chance.randint(0, longest), int(self._chance.random() < 0.15))
        request = f"{self._world.run}-{self.name}-{self._count}"
        while not self._world.over.is_set():
            # Not answered, or not for certain: the same again, as often as it takes.
            answer = self._send(request, wish)
            if answer.outcome == "ok":
                self._mine.append((request, wish, answer.job))
            if answer.outcome != "unknown":
                return
            self._world.over.wait(_TRIES_PAUSE_S)

    def _send(self, request: str, wish: Canary) -> Answered:
        spec = spec_of(wish, self._world.marks, self._world.run, self._world.lease_s)

        def call(op: int) -> Callable[[float], Answered]:
            got = self._client.submit(spec, request_id=request)
            return lambda t: Answered(t=t, op=op, outcome="ok", job=got.id, replayed=got.replayed)

        return self._ask("submit", call, request=request, payload=f"{wish.beats}/{wish.fails}")

    def _replay(self) -> None:
        request, wish, _ = self._chance.choice(self._mine)
        self._send(request, wish)

    def _conflict(self) -> None:
        request, wish, _ = self._chance.choice(self._mine)
        self._send(request, Canary(wish.beats + 1, wish.fails))

    def _look(self) -> None:
        _, _, job = self._mine[-1] if self._chance.random() < 0.5 else self._chance.choice(self._mine)

        def call(op: int) -> Callable[[float], Answered]:
            detail = self._client.get(job)
            state, result = detail.state, detail.result
            seen = {} if result is None else {"": digest_of(result.value)}
            return lambda t: Answered(t=t, op=op, outcome="ok", job=job, phase=state.phase, seq=state.seq, seen=seen)

        self._ask("get", call, job=job)

    def _cancel(self) -> None:
        _, _, job = self._chance.choice(self._mine[-10:])

        def call(op: int) -> Callable[[float], Answered]:
            state = self._client.cancel(job, "by ares chaos")
            return lambda t: Answered(t=t, op=op, outcome="ok", job=job, phase=state.phase, seq=state.seq)

        self._ask("cancel", call, job=job)

    def _retry(self) -> None:
        _, _, job = self._chance.choice(self._mine)

        def call(op: int) -> Callable[[float], Answered]:
            state = self._client.retry(job, "by ares chaos")
            return lambda t: Answered(t=t, op=op, outcome="ok", job=state.id, phase=state.phase, seq=state.seq)

        self._ask("retry", call, job=job)

    # ---- asking

    def _ask(self, verb: Verb, call: Callable[[int], Callable[[float], Answered]], **about: str) -> Answered:
        recorder = self._world.recorder
        op = recorder.asked(self.name, verb, self._world.tenant, **about)
        try:
            answer = call(op)
        except ServerError as error:
            answer = _not(op, "unknown", error.code)
        except ApiError as error:
            answer = _not(op, "refused", error.code)
        except AresError as error:
            answer = _not(op, "unknown", error.code)
        return recorder.answered(answer)


def _not(op: int, outcome: str, code: str) -> Callable[[float], Answered]:
    kind = "refused" if outcome == "refused" else "unknown"
    return lambda t: Answered(t=t, op=op, outcome=kind, code=code)
