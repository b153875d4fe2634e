"""(a) Durable submissions by REST, against the store's own rate of committing the same records."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ares.adapters.clocks import SystemClock
from ares.adapters.store.open import open_store
from ares.ports.store import TXN_OPS_MAX, Committed, Store
from bench import work
from bench.http import Connection, expect
from bench.platform import Platform, platform
from bench.processes import NotMeasured
from bench.report import Row, judged, rate
from bench.scale import Scale

BATCH_TARGET_PER_S = 5000.0
BATCHES_AT_ONCE = 4


async def store_rate(url: str, count: int, writers: int, jobs_per_txn: int) -> float:
    """Jobs per second that `writers` concurrent callers commit to the bare store."""
    records = work.Records()
    txns = [range(at, min(at + jobs_per_txn, count)) for at in range(0, count, jobs_per_txn)]
    store = await open_store(url, SystemClock())
    try:
        began = time.perf_counter()
        await asyncio.gather(*(_write(store, records, txns[writer::writers]) for writer in range(writers)))
        return count / (time.perf_counter() - began)
    finally:
        await store.close()


async def _write(store: Store, records: work.Records, txns: Sequence[range]) -> None:
    for txn in txns:
        parts = [records.of(number) for number in txn]
        done = await store.txn([compare for compare, _ in parts], [put for _, puts in parts for put in puts])
        if not (isinstance(done, Committed) and done.succeeded):
            raise NotMeasured(f"the bare store answered {done}")


async def single_rate(ares: Platform, count: int, connections: int, prefix: str = "single") -> float:
    """Jobs per second by POST /v1/jobs, each connection waiting for its answer."""
    spec = work.noop(1000)
    bodies = iter([work.single(spec, f"{prefix}-{number}") for number in range(count)])
    lines = [await ares.connect() for _ in range(connections)]
    began = time.perf_counter()
    await asyncio.gather(*(_post_all(line, bodies) for line in lines))
    took = time.perf_counter() - began
    await asyncio.gather(*(line.close() for line in lines))
    return count / took


async def batch_rate(ares: Platform, count: int, batch: int) -> float:
    """Jobs per second by POST /v1/jobs/batch."""
    spec = work.noop(1000)
    bodies = iter([work.batch([spec] * batch, f"batch-{at}") for at in range(0, count, batch)])
    lines = [await ares.connect() for _ in range(BATCHES_AT_ONCE)]
    began = time.perf_counter()
    await asyncio.gather(*(_post_batches(line, bodies) for line in lines))
    took = time.perf_counter() - began
    await asyncio.gather(*(line.close() for line in lines))
    return count / took


async def _post_all(line: Connection, bodies: Iterator[bytes]) -> None:
    for body in bodies:
        status, answer = await line.ask("POST", "/v1/jobs", body)
        expect(status, answer, "POST /v1/jobs")


async def _post_batches(line: Connection, bodies: Iterator[bytes]) -> None:
    for body in bodies:
        await line.submit_batch(body)


async def rows(scale: Scale, folder: Path) -> list[Row]:
    with platform(folder, with_agent=False) as ares:
        one = await single_rate(ares, scale.singles, scale.connections)
        many = await batch_rate(ares, scale.batched, scale.batch)
    jobs_per_txn = TXN_OPS_MAX // work.PUTS_PER_JOB
    bare_one = await store_rate(f"sqlite://{folder / 'one.db'}", scale.singles, scale.connections, 1)
    bare_many = await store_rate(f"sqlite://{folder / 'many.db'}", scale.batched, scale.connections, jobs_per_txn)
    return [
        Row(
            "a", f"submit single, {scale.connections} connections", rate(one), one,
            f"store alone, {scale.connections} writers: {rate(bare_one)}", one / bare_one,
        ),
        Row(
            "a", f"submit in batches of {scale.batch}", rate(many), many,
            f"store alone, {jobs_per_txn} jobs per transaction: {rate(bare_many)}", many / bare_many,
            f">= {BATCH_TARGET_PER_S:,.0f}/s", judged(many >= BATCH_TARGET_PER_S),
        ),
    ]  # fmt: skip
