"""What a run saw, as a history: written from several threads, put in order in the end."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from ares.check.invariants.history import Answered, Asked, Event, Verb

_UPTIME = Path("/proc/uptime")


def now() -> float:
    """Seconds by the clock that canaries read, too. It does not jump."""
    return float(_UPTIME.read_text().split()[0])


class ChaosRecorder:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._ops = 0
        # What to add to `now()` for the wall clock, by which ledgers are dated.
        self.wall_offset = time.time() - now()

    def add(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)

    def events(self) -> list[Event]:
        """In the order of their times."""
        with self._lock:
            return sorted(self._events, key=lambda event: event.t)

    def asked(self, client: str, verb: Verb, tenant: str, request: str = "", payload: str = "", job: str = "") -> int:
        with self._lock:
            self._ops += 1
            op = self._ops
        self.add(
            Asked(t=now(), op=op, client=client, verb=verb, tenant=tenant, request=request, payload=payload, job=job)
        )
        return op

    def answered(self, answer: Callable[[float], Answered]) -> Answered:
        made = answer(now())
        self.add(made)
        return made


class Stalls:
    """How long this machine itself kept a thread waiting that wanted to run: bounds are judged with that in mind."""

    _EVERY_S = 0.1

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stalls", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> float:
        self._ended.set()
        self._thread.join()
        return self.longest_s

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(self._EVERY_S):
            after = time.monotonic()
            self.longest_s = max(self.longest_s, after - before - self._EVERY_S)
            before = after
