"""(e) The server's memory for queued jobs, against the bytes of their own records."""

from pathlib import Path

from bench import work
from bench.platform import platform
from bench.report import Row, judged
from bench.scale import Scale

TARGET_BYTES = 400e6
PER_JOBS = 100_000
MB = 1e6


async def rows(scale: Scale, folder: Path) -> list[Row]:
    sent = 0
    with platform(folder, with_agent=False) as ares:
        line = await ares.connect()
        await line.submit_batch(work.batch([work.realistic(0)], "warm-up"))
        before = ares.server_rss_bytes()
        for at in range(1, scale.queued + 1, scale.batch):
            body = work.batch([work.realistic(number) for number in range(at, at + scale.batch)], f"queued-{at}")
            sent += len(body)
            await line.submit_batch(body)
        grown = ares.server_rss_bytes() - before
        await line.close()
    per = grown * PER_JOBS / scale.queued
    return [
        Row(
            "e", f"server memory per {PER_JOBS:,} queued jobs", f"{per / MB:,.0f} MB", per,
            f"the requests' own JSON: {sent * PER_JOBS / scale.queued / MB:,.0f} MB", grown / sent,
            f"<= {TARGET_BYTES / MB:,.0f} MB", judged(per <= TARGET_BYTES),
            f"{scale.queued:,} jobs, {before / MB:,.0f} MB before them",
        )
    ]  # fmt: skip
