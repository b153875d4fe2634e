"""(i) 500 submissions a second by 1,000 tenants, with quotas, policies and audit, beside the same load without them."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import work
from bench.http import Connection
from bench.latency import quantile
from bench.openloop import Schedule, Seen
from bench.platform import Platform, platform
from bench.processes import NotMeasured
from bench.report import Row, judged
from bench.scale import Scale

PER_S = 500.0
P99_TARGET_S = 0.050
MAX_TARGET_S = 2.0
OVERHEAD_TARGET = 1.30
WARM_UP_S = 2.0
SETTERS = 8
CALM_PER_S, CALM_TENANTS, FLOOD_LINES = 50.0, 50, 64

_AMPLE = {"hard": 1e9}
QUOTA = {
    "quota": {
        "own": {
            "amounts": dict.fromkeys(("cpu", "memory", "gpus", "gpu-hours", "jobs", "budget"), _AMPLE),
            "priority": "HIGH",
        },
        "userDefault": {"amounts": {"jobs": _AMPLE, "gpus": _AMPLE}},
    }
}
POLICIES = {
    "no-big-jobs": {"when": "job.gpus > 64 && user.role != 'operator'", "action": "reject", "message": "ask first"},
    "no-sudo": {"when": "job.command.exists(word, word == 'sudo')", "action": "reject", "message": "no sudo"},
    "long-jobs": {"when": "job.time_limit_s > 604800.0", "action": "warn", "message": "longer than a week"},
    "default-limit": {"when": "job.time_limit_s == 0.0", "action": "set", "set": {"timeLimitS": "86400.0"}},
}


@dataclass
class Side:
    """One server, with everything on or off, and what was seen of it."""

    ares: Platform
    tokens: list[str]
    schedule: Schedule
    seen: list[Seen] = field(default_factory=list[Seen])
    cpu_s: float = 0.0

    def request(self, number: int) -> bytes:
        body = work.single(work.noop(1000), f"open-{number}")
        token = self.tokens[number % len(self.tokens)]
        head = (
            f"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def round(self, first: int, seconds: float) -> None:
        before = self.ares.cpu_s().server
        seen = await self.schedule.run(self.request, first, round(seconds * PER_S), PER_S)
        self.cpu_s += self.ares.cpu_s().server - before
        if set(seen.statuses) != {201}:
            raise NotMeasured(f"answers by status {dict(seen.statuses)}: {seen.refused.decode(errors='replace')}")
        self.seen.append(seen)

    @property
    def took_s(self) -> list[float]:
        return [took for seen in self.seen for took in seen.took_s]

    def p99(self) -> float:
        """The median over rounds: a neighbour's burst of work spoils one of them, not the figure."""
        return statistics.median(quantile(seen.took_s, 0.99) for seen in self.seen)

    def cpu_ms(self) -> float:
        return self.cpu_s * 1000 / len(self.took_s)


async def set_up(ares: Platform, tenants: int, *, everything: bool) -> list[str]:
    """A token of each tenant; with everything, a quota of each as well, and policies for all."""
    tokens = [""] * tenants
    lines = [await ares.connect() for _ in range(SETTERS)]

    async def some(line: Connection, numbers: Sequence[int]) -> None:
        for number in numbers:
            name = f"tenant-{number:04d}"
            await line.json("POST", "/v1/tenants", {"name": name})
            if everything:
                await line.json("PUT", f"/v1/tenants/{name}/quota", QUOTA)
            made = await line.json("POST", "/v1/tokens", {"role": "submitter", "tenant": name, "name": "bench"})
            tokens[number] = made["token"]

    await asyncio.gather(*(some(line, range(at, tenants, SETTERS)) for at, line in enumerate(lines)))
    if everything:
        for name, policy in POLICIES.items():
            await lines[0].json("PUT", f"/v1/policies/{name}?platform=true", policy)
    await asyncio.gather(*(line.close() for line in lines))
    return tokens


@contextlib.contextmanager
def _platforms(folder: Path) -> Generator[tuple[Platform, Platform]]:
    for name in ("on", "off"):
        (folder / name).mkdir()
    with (
        platform(folder / "on", with_agent=False) as on,
        platform(folder / "off", with_agent=False, program=("-m", "bench.bare")) as off,
    ):
        yield on, off


async def measure(folder: Path, tenants: int, rounds: int, round_s: float) -> tuple[Side, Side, tuple[float, float]]:
    """Both sides, in rounds by turns; then the others' p99 without and with one tenant that floods."""
    with _platforms(folder) as (on, off):
        sides: list[Side] = []
        for ares in (on, off):
            tokens = await set_up(ares, tenants, everything=ares is on)
            sides.append(Side(ares, tokens, Schedule(ares.port)))
            await sides[-1].schedule.run(sides[-1].request, 10**9, round(WARM_UP_S * PER_S), PER_S)
        for number in range(rounds):
            # Each goes first as often as the other.
            for side in sides if number % 2 else reversed(sides):
                await side.round(round(number * round_s * PER_S), round_s)
        flood = await _flood(sides[0], round_s)
        for side in sides:
            side.schedule.close()
        return sides[0], sides[1], flood


async def _flood(side: Side, seconds: float) -> tuple[float, float]:
    """p99 of calm tenants alone, and while another one sends as fast as it is let."""
    tokens = side.tokens
    calm = Side(side.ares, tokens[1 : 1 + CALM_TENANTS], side.schedule)
    count, first = round(seconds * CALM_PER_S), 2 * 10**9
    alone = await side.schedule.run(calm.request, first, count, CALM_PER_S)
    lines = [await Connection.open(side.ares.port, tokens[0]) for _ in range(FLOOD_LINES)]
    over, sent = False, 0

    async def flood(line: Connection) -> None:
        nonlocal sent
        while not over:
            sent += 1
            await line.ask("POST", "/v1/jobs", work.single(work.noop(1000), f"flood-{sent}"))

    floods = [asyncio.create_task(flood(line)) for line in lines]
    among = await side.schedule.run(calm.request, first + count, count, CALM_PER_S)
    over = True
    await asyncio.gather(*floods)
    await asyncio.gather(*(line.close() for line in lines))
    return quantile(alone.took_s, 0.99), quantile(among.took_s, 0.99)


async def rows(scale: Scale, folder: Path) -> list[Row]:
    began = time.perf_counter()
    on, off, (alone, among) = await measure(folder, scale.tenants, scale.rounds, scale.round_s)
    what = f"{PER_S:,.0f} submissions/s, {scale.tenants:,} tenants"
    p99, bare = on.p99(), off.p99()
    took, took_off = on.took_s, off.took_s
    slow = sum(t > MAX_TARGET_S for t in took)
    note = f"open loop, {scale.rounds} rounds of {scale.round_s:g} s each; {time.perf_counter() - began:.0f} s in all"

    def ms(seconds: float) -> str:
        return f"{seconds * 1e3:.1f} ms"

    return [
        Row(
            "i", f"{what}, p99", ms(p99), p99, f"without quotas, policies and audit: {ms(bare)}", p99 / bare,
            f"<= {P99_TARGET_S * 1e3:g} ms", judged(p99 <= P99_TARGET_S), note,
        ),
        Row(
            "i", f"{what}, p50", ms(quantile(took, 0.5)), quantile(took, 0.5),
            f"without: {ms(quantile(took_off, 0.5))}", quantile(took, 0.5) / quantile(took_off, 0.5),
        ),
        Row(
            "i", f"{what}, slowest", ms(max(took)), max(took), f"without: {ms(max(took_off))}",
            max(took) / max(took_off), f"<= {MAX_TARGET_S:g} s", judged(slow == 0), f"{slow} of {len(took):,} over it",
        ),
        Row(
            "i", f"{what}, server's CPU", f"{on.cpu_ms():.2f} ms each", on.cpu_ms(),
            f"without: {off.cpu_ms():.2f} ms each", on.cpu_ms() / off.cpu_ms(),
            f"<= {OVERHEAD_TARGET:g} times", judged(on.cpu_ms() <= OVERHEAD_TARGET * off.cpu_ms()),
        ),
        Row(
            "i", f"p99 of others while one tenant floods over {FLOOD_LINES} connections", ms(among), among,
            f"without the flood: {ms(alone)}", among / alone,
        ),
    ]  # fmt: skip
