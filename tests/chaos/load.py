"""Submissions from several threads while processes die, each with a request id that is repeated until answered."""

import random
import threading
from dataclasses import replace
from pathlib import Path

from ares.edge.client.errors import AresError, Conflict
from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources, RetryPolicy
from tests.history import MARKED, Acknowledged

TINY = Resources(cpu_milli=100, memory_mib=32)


def marked(marks: Path, *, beats: int = 0, later_beats: int | None = None, fails: int = 0, **more: object) -> JobSpec:
    """Runs for a tenth of a second per beat, attempts after the first for `later_beats`; the first `fails` fail."""
    later = beats if later_beats is None else later_beats
    env = {"MARKS": str(marks), "BEATS": str(beats), "LATER_BEATS": str(later), "FAILS": str(fails)}
    return JobSpec(command=("sh", "-c", MARKED), env=env, resources=TINY, **more)  # pyright: ignore[reportArgumentType]


class Load:
    """Jobs until told to stop: most are short, some run a while, fail first, are arrays or are cancelled."""

    def __init__(
        self, clients: list[Client], marks: Path, seed: int, *, pause_s: float = 0.1, cancels: float = 0.05
    ) -> None:
        """`cancels` is the part that is cancelled right after it was accepted."""
        marks.mkdir(exist_ok=True)
        self._cancels = cancels
        self._pause_s = pause_s
        self.acknowledged: list[Acknowledged] = []
        self._marks = marks
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._submit_all, args=(client, n, random.Random(seed * 100 + n)), daemon=True)
            for n, client in enumerate(clients)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        """Returns when everybody has their answer."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)
        assert not any(thread.is_alive() for thread in self._threads), "a submission was not answered in time"
        assert not self._failures, self._failures

    def _submit_all(self, client: Client, number: int, rng: random.Random) -> None:
        try:
            while not self._stop.wait(rng.uniform(0.0, self._pause_s)):
                answer = self._submit(client, f"load-{number}-{len(self.acknowledged)}-{rng.random()}", rng)
                if rng.random() < self._cancels:
                    answer = self._cancel(client, answer)
                self.acknowledged.append(answer)
        except BaseException as error:
            self._failures.append(error)

    def _submit(self, client: Client, request: str, rng: random.Random) -> Acknowledged:
        beats = rng.randrange(5, 20) if rng.random() < 0.125 else 0
        tasks = rng.randrange(2, 6) if rng.random() < 0.1 else 0
        spec = marked(
            self._marks, beats=beats, fails=int(rng.random() < 0.1), array=f"0-{tasks - 1}" if tasks else None,
            retry=RetryPolicy(limit=20, base_s=0.1, max_s=1.0),
        )  # fmt: skip
        while True:
            try:
                answer = client.submit(spec, request_id=request)
            except AresError:
                # Nobody said yes: the same request again.
                continue
            return Acknowledged(request, answer.id, bool(tasks), answer.tasks)

    @staticmethod
    def _cancel(client: Client, answer: Acknowledged) -> Acknowledged:
        """Whether it worked is only known from a plain "yes"; arrays may be cancelled in part."""
        if answer.array:
            return answer
        while True:
            try:
                client.cancel(answer.job)
            except Conflict:
                return replace(answer, cancelled=client.get(answer.job).state.phase == "CANCELLED")
            except AresError:
                continue
            return replace(answer, cancelled=True)
