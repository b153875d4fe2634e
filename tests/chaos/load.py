"""Submissions from several threads while processes die, each with a request id that is repeated until answered."""

import random
import threading
from pathlib import Path

from ares.edge.client.errors import AresError
from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources, RetryPolicy
from tests.history import MARKED, Acknowledged

TINY = Resources(cpu_milli=100, memory_mib=32)


def marked(marks: Path, *, beats: int = 0, later_beats: int | None = None, **more: object) -> JobSpec:
    """Runs for a tenth of a second per beat; attempts after the first for `later_beats`."""
    later = beats if later_beats is None else later_beats
    env = {"MARKS": str(marks), "BEATS": str(beats), "LATER_BEATS": str(later)}
    return JobSpec(command=("sh", "-c", MARKED), env=env, resources=TINY, **more)  # pyright: ignore[reportArgumentType]


class Load:
    """`count` jobs in all; one in eight runs for a while. Ends by itself."""

    def __init__(self, clients: list[Client], marks: Path, count: int, seed: int) -> None:
        marks.mkdir()
        self.acknowledged: list[Acknowledged] = []
        self._marks = marks
        self._lock = threading.Lock()
        each = count // len(clients)
        self._threads = [
            threading.Thread(target=self._submit, args=(client, n, each, seed), daemon=True)
            for n, client in enumerate(clients)
        ]
        self._failures: list[BaseException] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self, timeout_s: float) -> None:
        for thread in self._threads:
            thread.join(timeout_s)
        assert not any(thread.is_alive() for thread in self._threads), "the load was not accepted in time"
        assert not self._failures, self._failures

    def _submit(self, client: Client, number: int, count: int, seed: int) -> None:
        rng = random.Random(seed * 100 + number)
        try:
            for n in range(count):
                self._submit_one(client, f"load-{number}-{n}", rng)
        except BaseException as error:
            self._failures.append(error)

    def _submit_one(self, client: Client, request: str, rng: random.Random) -> None:
        beats = rng.randrange(5, 20) if rng.random() < 0.125 else 0
        spec = marked(self._marks, beats=beats, retry=RetryPolicy(limit=20, base_s=0.1, max_s=1.0))
        while True:
            try:
                answer = client.submit(spec, request_id=request)
            except AresError:
                # Nobody said yes: the same request again.
                continue
            with self._lock:
                self.acknowledged.append(Acknowledged(request, answer.id))
            return
