"""One tenant that reads, lists, streams and submits as hard as it can: `python -m bench.noise PORT`.

A process of its own, as another tenant's client is: what it does with its answers costs nobody else's client anything.
Its token comes as a line; it goes on until its standard input ends, and then says how it was answered.
"""

import asyncio
import itertools
import json
import sys
from collections import Counter
from contextlib import suppress

import uvloop

from bench import work
from bench.http import Connection

# More than any node has: such jobs wait, and nothing is started.
WAITS = 4_000_000
READERS, SUBMITTERS, BATCHES, STREAMS = 16, 16, 2, 10
BATCH_JOBS = 200
READS = (
    "/v1/usage", "/v1/usage?by=job", "/v1/jobs?name=none", "/v1/jobs?label=number=17", "/v1/jobs?limit=1000",
    "/v1/jobs?phase=FAILED", "/v1/jobs?limit=1000&sort=submitted", "/v1/sla", "/v1/prio?limit=1000", "/v1/clusters",
    "/v1/jobs/resolve?prefix=zzz",
)  # fmt: skip


class Noise:
    """Everything at once, each line as fast as it is answered; streams from the beginning are not read."""

    def __init__(self, port: int, token: str, round_id: str) -> None:
        self._port = port
        self._token = token
        self._round = round_id
        self._numbers = itertools.count()
        self.statuses: Counter[int] = Counter()

    async def run(self) -> None:
        lines = [self._read(number) for number in range(READERS)]
        lines += [self._submit() for _ in range(SUBMITTERS)]
        lines += [self._submit_batches() for _ in range(BATCHES)]
        lines += [self._stream() for _ in range(STREAMS)]
        await asyncio.gather(*lines)

    async def _read(self, first: int) -> None:
        line = await Connection.open(self._port, self._token)
        for path in itertools.islice(itertools.cycle(READS), first % len(READS), None):
            self.statuses[(await line.ask("GET", path))[0]] += 1

    async def _submit(self) -> None:
        line = await Connection.open(self._port, self._token)
        while True:
            body = work.single(work.noop(WAITS), f"noisy-{self._round}-{next(self._numbers)}")
            self.statuses[(await line.ask("POST", "/v1/jobs", body))[0]] += 1

    async def _submit_batches(self) -> None:
        line = await Connection.open(self._port, self._token)
        while True:
            body = work.batch([work.noop(WAITS)] * BATCH_JOBS, f"noisy-{self._round}-{next(self._numbers)}")
            self.statuses[(await line.ask("POST", "/v1/jobs/batch", body))[0]] += 1

    async def _stream(self) -> None:
        head = f"GET /v1/events?cursor=0 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1024)
            writer.write(head.encode())
            with suppress(ConnectionError):
                await asyncio.sleep(5.0)
            writer.close()


async def main(port: int, token: str, round_id: str) -> None:
    noise = Noise(port, token, round_id)
    making = asyncio.create_task(noise.run())
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait({making, ended}, return_when=asyncio.FIRST_COMPLETED)
    if making.done():
        making.result()
    making.cancel()
    print(json.dumps(noise.statuses))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.stdin.readline().strip(), sys.argv[2]))
