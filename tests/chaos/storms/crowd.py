"""Many clients in one event loop, each with the real rules on repeating, and what each of their requests became."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import httpx2

from ares.edge.client.aio import AsyncClient
from ares.edge.client.errors import AresError
from ares.edge.client.retry import Retry
from ares.model.job import JobSpec
from tests.history import Acknowledged

T = TypeVar("T")
# The real rules; only, nobody gives up before the test does.
STUBBORN = Retry(attempts=1000)


@dataclass
class Tally:
    """Counted since the last `mark`. Asked: what somebody wanted; sent: how often it went over the wire."""

    asked: int = 0
    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter[int])

    @property
    def amplification(self) -> float:
        return self.sent / max(1, self.asked)


class Crowd:
    """Clients that submit one job after the other, each with its request id until it is answered."""

    def __init__(
        self, url: str, token: str, size: int, spec: JobSpec, *, retry: Retry = STUBBORN, timeout_s: float = 10.0
    ) -> None:
        self.acknowledged: list[Acknowledged] = []
        # Answers that say "later" without saying when.
        self.curt: list[str] = []
        # Requests that nobody answered: lost connections and time-outs.
        self.unanswered = 0
        self.tally = Tally()
        self._address = (url, token)
        self._spec = spec
        self._retry = retry
        self._timeout_s = timeout_s
        self._size = size
        self._under_way = 0
        self._numbers = count()
        self._stop = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._all: Future[list[BaseException | None]] | None = None

    def mark(self) -> Tally:
        """What was counted until now; from here on a new count, which begins with what is still unanswered."""
        before, self.tally = self.tally, Tally(asked=self._under_way)
        return before

    def start(self, pause_s: float = 0.0) -> None:
        self._thread.start()
        self._all = self.run(self._everybody(pause_s))

    def run(self, work: "Coroutine[Any, Any, T]") -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self, timeout_s: float) -> None:
        """Returns when everybody has their answer."""
        assert self._all is not None
        self._stop.set()
        failures = [error for error in self._all.result(timeout_s) if error is not None]
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert not failures, failures

    async def _everybody(self, pause_s: float) -> list[BaseException | None]:
        clients = [self.client() for _ in range(self._size)]
        try:
            work = (self._one(client, random.Random(number), pause_s) for number, client in enumerate(clients))
            return await asyncio.gather(*work, return_exceptions=True)
        finally:
            for client in clients:
                await client.close()

    def client(self) -> AsyncClient:
        client = AsyncClient(*self._address, retry=self._retry, timeout_s=self._timeout_s)
        client._http.event_hooks = {"request": [self._sent], "response": [self._came]}  # pyright: ignore[reportPrivateUsage]
        return client

    async def _one(self, client: AsyncClient, rng: random.Random, pause_s: float) -> None:
        while not self._stop.is_set():
            request = f"storm-{id(self)}-{next(self._numbers)}"
            job = await self.insist(lambda request=request: client.submit(self._spec, request_id=request))
            self.acknowledged.append(Acknowledged(request, job.id))
            await asyncio.sleep(rng.uniform(0.0, 2 * pause_s))

    async def insist(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer, however often it must be asked for; one thing wanted, in the tally."""
        self.tally.asked += 1
        self._under_way += 1
        try:
            while True:
                try:
                    return await ask()
                except AresError:
                    continue
        finally:
            self._under_way -= 1

    async def _sent(self, request: httpx2.Request) -> None:
        self.tally.sent += 1
        self.unanswered += 1

    async def _came(self, response: httpx2.Response) -> None:
        self.unanswered -= 1
        self.tally.statuses[response.status_code] += 1
        if response.status_code in (429, 503) and not response.headers.get("retry-after", "").isdecimal():
            self.curt.append(f"{response.request.method} {response.request.url.path}: {response.status_code}")
