"""(k) What others notice of one tenant that reads, lists, streams and submits as hard as it can over many jobs."""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import work
from bench.http import Connection
from bench.latency import quantile
from bench.noise import WAITS
from bench.openloop import Schedule, Seen
from bench.platform import Platform, platform
from bench.processes import NotMeasured
from bench.report import Row, judged
from bench.scale import Scale

TARGET = 1.5
# Jobs that run all the while.
HELD = 4
# Of all calm tenants together, each half submissions and reads.
CALM_PER_S, CALM_TENANTS = 40.0, 20


@dataclass
class Calm:
    """Tenants that ask for little."""

    tokens: list[str]
    schedule: Schedule
    rounds: dict[bool, list[tuple[Seen, Seen]]] = field(
        default_factory=lambda: {False: list[tuple[Seen, Seen]](), True: list[tuple[Seen, Seen]]()}
    )

    async def round(self, first: int, seconds: float, *, noisy: bool) -> None:
        count = round(seconds * CALM_PER_S / 2)
        submitted, read = await asyncio.gather(
            self.schedule.run(self._submission, first, count, CALM_PER_S / 2),
            self.schedule.run(self._read, first, count, CALM_PER_S / 2),
        )
        for seen in (submitted, read):
            if set(seen.statuses) - {200, 201}:
                raise NotMeasured(f"calm tenants were answered {dict(seen.statuses)}: {seen.refused.decode()}")
        self.rounds[noisy].append((submitted, read))

    def p99(self, which: int, *, noisy: bool) -> float:
        return quantile([took for seen in self.rounds[noisy] for took in seen[which].took_s], 0.99)

    def p50(self, which: int, *, noisy: bool) -> float:
        return quantile([took for seen in self.rounds[noisy] for took in seen[which].took_s], 0.5)

    def _submission(self, number: int) -> bytes:
        body = work.single(work.noop(WAITS), f"calm-{number}")
        return self._head("POST", "/v1/jobs", number, len(body)) + body

    def _read(self, number: int) -> bytes:
        return self._head("GET", "/v1/jobs?limit=10", number, 0)

    def _head(self, method: str, path: str, number: int, length: int) -> bytes:
        token = self.tokens[number % len(self.tokens)]
        return (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()


@asynccontextmanager
async def _noise(port: int, token: str, number: int) -> AsyncGenerator[Counter[str]]:
    """While the block runs. A neighbour's client has a machine of its own: here it yields to all that is measured."""
    statuses: Counter[str] = Counter()
    command = ("nice", "-n", "19", sys.executable, "-m", "bench.noise", str(port), str(number))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None, "it was started with a pipe"
    process.stdin.write(f"{token}\n".encode())
    try:
        yield statuses
    finally:
        # Without an input, even an empty one, its standard input would stay open.
        said, _ = await process.communicate(b"")
    if process.returncode:
        raise NotMeasured(f"the noisy tenant's client ended with {process.returncode}")
    statuses.update(json.loads(said))


async def _tenant(line: Connection, name: str) -> str:
    await line.json("POST", "/v1/tenants", {"name": name})
    return (await line.json("POST", "/v1/tokens", {"role": "submitter", "tenant": name, "name": "bench"}))["token"]


async def _fill(ares: Platform, token: str, jobs: int, batch: int) -> None:
    line = await Connection.open(ares.port, token)
    for first in range(0, jobs, batch):
        specs = [
            {**work.noop(WAITS), "name": f"n{number % 50}", "labels": {"number": str(number)}}
            for number in range(first, min(jobs, first + batch))
        ]
        while (await line.ask("POST", "/v1/jobs/batch", work.batch(specs, f"fill-{first}")))[0] != 200:
            await asyncio.sleep(0.5)
    await line.close()


async def _hold(line: Connection) -> None:
    """Jobs that run to the end of the measurement."""
    for number in range(HELD):
        spec = work.noop(10, ("sleep", "3600"))
        await line.ask("POST", "/v1/jobs", work.single(spec, f"held-{number}"))
    while len((await line.json("GET", "/v1/jobs?phase=RUNNING"))["jobs"]) < HELD:
        await asyncio.sleep(0.1)


def _slowest_renewal(before: str, after: str) -> str:
    """The bound that all renewals in between were durable within, by the server's own histogram."""
    bucket = re.compile(r'^ares_store_latency_seconds_bucket\{op="renew",le="(.*?)"\} (.*)$', re.MULTILINE)
    counts = [{bound: float(count) for bound, count in bucket.findall(text)} for text in (before, after)]
    grown = {bound: count - counts[0].get(bound, 0.0) for bound, count in counts[1].items()}
    whole = max(grown.values(), default=0.0)
    bound = next((bound for bound, count in grown.items() if count == whole), "?")
    return f"{whole:.0f} renewals, each durable within {bound} s"


def _metric(text: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


async def rows(scale: Scale, folder: Path) -> list[Row]:
    began = time.perf_counter()
    with platform(folder) as ares:
        admin = await ares.connect()
        noisy = await _tenant(admin, "noisy")
        calm = Calm([await _tenant(admin, f"calm-{number:02d}") for number in range(CALM_TENANTS)], Schedule(ares.port))
        await _fill(ares, noisy, scale.neighbour_jobs, scale.batch)
        await _hold(admin)
        await calm.round(10**9, 2.0, noisy=False)
        calm.rounds[False].clear()
        before = await admin.text("/metrics")
        rss = ares.server_rss_bytes()
        statuses: Counter[str] = Counter()
        for number in range(scale.rounds):
            first = round(2 * number * scale.round_s * CALM_PER_S)
            await calm.round(first, scale.round_s, noisy=False)
            async with _noise(ares.port, noisy, number) as seen:
                await asyncio.sleep(1.0)
                await calm.round(first + round(scale.round_s * CALM_PER_S), scale.round_s, noisy=True)
            statuses += seen
            # What was asked for in the last moment is done with.
            await asyncio.sleep(3.0)
        # The server has closed what said nothing for a minute.
        await admin.close()
        admin = await ares.connect()
        after = await admin.text("/metrics")
        grown = (ares.server_rss_bytes() - rss) >> 20
        calm.schedule.close()
        await admin.close()
    leases = _metric(after, "ares_lease_losses_total") - _metric(before, "ares_lease_losses_total")
    led = _metric(after, "ares_leader_age_seconds") > _metric(before, "ares_leader_age_seconds")
    answered = dict(sorted(statuses.items()))
    took_s = time.perf_counter() - began
    note = f"{scale.neighbour_jobs:,} jobs, {scale.rounds} rounds of {scale.round_s:g} s; {took_s:.0f} s in all"
    return [
        _row(f"others' {what}, p99", calm.p99(which, noisy=True), calm.p99(which, noisy=False), note)
        for which, what in enumerate(("submissions", "reads"))
    ] + [
        Row(
            "k", f"others' {what}, p50", _ms(calm.p50(which, noisy=True)), calm.p50(which, noisy=True),
            f"calm: {_ms(calm.p50(which, noisy=False))}",
            calm.p50(which, noisy=True) / calm.p50(which, noisy=False),
        )
        for which, what in enumerate(("submissions", "reads"))
    ] + [
        Row(
            "k", f"leases lost meanwhile, of {HELD} running jobs", f"{leases:.0f}", leases, target="0",
            verdict=judged(leases == 0 and led),
            note=f"{_slowest_renewal(before, after)}; the same leader: {led}; the server grew by {grown} MiB; "
            f"the noisy tenant's answers: {answered}",
        ),
    ]  # fmt: skip


def _row(what: str, among: float, alone: float, note: str) -> Row:
    return Row(
        "k", what, _ms(among), among, f"calm: {_ms(alone)}", among / alone, f"<= {TARGET:g} times",
        judged(among <= TARGET * alone), note,
    )  # fmt: skip


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
