"""(ui) The dashboard in a real browser, and what watching costs: pages, lists, live changes, viewers and scrapes.

One server without machines holds very many queued jobs of one tenant, and some of each of two hundred others. Times are
what a person waits, by the browser's own clock, and depend on what else the machine does: the load stands beside them,
and a bare page of the same browser.
"""

import asyncio
import contextlib
import os
import statistics
import threading
import time
import urllib.request
from collections.abc import Generator, Sequence
from pathlib import Path

import psutil
import websockets
from msgspec import structs
from playwright.sync_api import Browser, Page

from ares.edge.client.sync import Client
from ares.edge.dashboard import files
from ares.model.job import JobSpec, Resources
from bench import watching
from bench.platform import Platform, platform
from bench.report import Row, judged
from bench.scale import Scale
from tests.browser import chromium

_WAITS = JobSpec(command=("true",), name="storm", resources=Resources(gpus=1, gpu_model="H900"))
_NAMES = ("alder", "beech", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel", "iroko", "juniper")
_KINDS = [structs.replace(_WAITS, name=name) for name in _NAMES]
_LOADS = 20
_FILTERS = 30
# As many rows as are in sight.
_PROBES = 15
_PER_S = 500
_VIEWERS = 50
_WATCHED_S = 20.0
_TENANTS = 200
_DRAWN = "() => document.querySelector('h1') && !document.querySelector('.skeleton') && performance.now()"
# Rows are there, and all of them are called so.
_ROWS = """(name) => {
  const rows = [...document.querySelectorAll("[data-at]")];
  return rows.length > 0 && rows.every((row) => row.textContent.includes(name)) && performance.now();
}"""
# Two hundred frames of a person who scrolls fast; how long each took, and how many elements there were at most.
_SCROLL = """() => new Promise((done) => {
  const grid = document.querySelector("[role=grid]");
  const frames = []; let most = 0, last = 0;
  const step = (now) => {
    if (last) frames.push(now - last);
    last = now;
    most = Math.max(most, document.querySelectorAll("*").length);
    grid.scrollTop += 600;
    if (frames.length < 200) requestAnimationFrame(step); else done([frames, most]);
  };
  requestAnimationFrame(step);
})"""
_GO = """(path) => {
  const at = performance.now();
  history.pushState({}, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
  return at;
}"""
# Notes the moment at which each row more is first in the page.
_WATCH = """() => {
  window.__seen = [];
  const look = () => {
    const rows = document.querySelectorAll("[data-at]").length;
    while (window.__seen.length < rows) window.__seen.push(Date.now() / 1000);
    requestAnimationFrame(look);
  };
  look();
}"""


async def rows(scale: Scale, folder: Path) -> list[Row]:
    found = await asyncio.to_thread(_rows, scale, folder)
    watched = folder / "watched"
    await asyncio.to_thread(watched.mkdir)
    return [*found, *await watching.rows(scale, watched)]


def _rows(scale: Scale, folder: Path) -> list[Row]:
    busy = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    with platform(folder, with_agent=False) as ares:
        client = Client(f"http://127.0.0.1:{ares.port}", token=ares.token)
        _fill(client, scale.listed)
        found = [_weight(), *_scrapes(ares, client, busy), _viewers(ares, busy)]
        with chromium() as browser:
            found += [*_loads(browser, client, busy), *_list(browser, client, scale.listed, busy)]
            found.append(_live(browser, client, busy))
    return found


def _fill(client: Client, count: int) -> None:
    for first in range(0, count, 5000):
        client.submit_many([_KINDS[at % len(_KINDS)] for at in range(first, min(first + 5000, count))])
    for number in range(_TENANTS):
        name = f"tenant-{number}"
        client.create_tenant(name)
        made = client.create_token(role="submitter", tenant=name, name=name)
        client_of = Client(client.endpoint.shown, token=made.token)
        client_of.submit_many([_WAITS] * 5)


def _weight() -> Row:
    sent = [found for path in _paths() if (found := files.static_file(path)) is not None]
    total = sum(len(file.packed) for file in sent) / 1000
    return Row(
        "ui", "first load, all files of all pages, gzip", f"{total:.1f} kB", total, target="<= 80 kB",
        verdict=judged(total <= 80), note=f"{len(sent)} files",
    )  # fmt: skip


def _paths() -> list[str]:
    kinds = (".html", ".js", ".css", ".svg")
    return [str(file.relative_to(files.STATIC)) for file in files.STATIC.rglob("*") if file.suffix in kinds]


# ---- pages


@contextlib.contextmanager
def _page(browser: Browser, client: Client) -> Generator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{client.endpoint.shown}{client.login_link().path}")
    page.wait_for_function(_DRAWN)
    yield page
    context.close()


def _loads(browser: Browser, client: Client, busy: str) -> list[Row]:
    found: list[Row] = []
    with _page(browser, client) as page:
        bare, drawn = list[float](), list[float]()
        for _ in range(_LOADS):
            page.goto(f"{client.endpoint.shown}/healthz")
            bare.append(page.evaluate("() => performance.now()"))
            page.goto(f"{client.endpoint.shown}/ui/")
            drawn.append(page.wait_for_function(_DRAWN).json_value())
    p95, against = _part(drawn, 0.95), _part(bare, 0.95)
    found.append(
        Row(
            "ui", f"overview drawn with its data, p95 of {_LOADS}", f"{p95:,.0f} ms", p95,
            f"bare page {against:,.0f} ms", p95 / against if against else None, "<= 700 ms", judged(p95 <= 700),
            f"median {statistics.median(drawn):,.0f} ms; {busy}",
        )
    )  # fmt: skip
    return found


def _list(browser: Browser, client: Client, count: int, busy: str) -> list[Row]:
    with _page(browser, client) as page:
        page.evaluate(_GO, "/ui/queue")
        page.wait_for_function(_DRAWN)
        first = _took(page, "/ui/jobs", "")
        names = [_NAMES[at % len(_NAMES)] for at in range(_FILTERS)]
        filters = [_took(page, f"/ui/jobs?name={name}", name) for name in names]
        frames, most = page.evaluate(_SCROLL)
        frame, slow = _part(frames, 0.95), _part(filters, 0.99)
    rows_ = f"of {count:,}"
    return [
        Row("ui", f"first rows {rows_}", f"{first:,.0f} ms", first, target="<= 300 ms", verdict=judged(first <= 300),
            note=busy),
        Row("ui", f"another filter {rows_}, p99", f"{slow:,.0f} ms", slow, target="<= 150 ms",
            verdict=judged(slow <= 150), note=f"median {statistics.median(filters):,.0f} ms; {busy}"),
        Row("ui", f"frame while scrolling {rows_}, p95", f"{frame:.1f} ms", frame, target="<= 25 ms",
            verdict=judged(frame <= 25), note=f"median {statistics.median(frames):.1f} ms; {busy}"),
        Row("ui", f"elements of the page {rows_}", f"{most:,}", most, target="<= 600", verdict=judged(most <= 600)),
    ]  # fmt: skip


def _took(page: Page, path: str, name: str) -> float:
    """From the change of the address to rows of that name, in milliseconds, by the page's clock."""
    at: float = page.evaluate(_GO, path)
    return page.wait_for_function(_ROWS, arg=name).json_value() - at


# ---- as it happens


def _live(browser: Browser, client: Client, busy: str) -> Row:
    stop, sent = threading.Event(), list[float]()

    def storm() -> None:
        while not stop.is_set():
            began = time.monotonic()
            client_.submit_many([_WAITS] * (_PER_S // 5))
            stop.wait(max(0.0, 0.2 - (time.monotonic() - began)))

    client_ = Client(client.endpoint.shown, token=client.create_token(role="admin", name="storm").token)
    thread = threading.Thread(target=storm)
    with _page(browser, client) as page:
        page.evaluate(_GO, "/ui/jobs?name=probe")
        page.evaluate(_WATCH)
        thread.start()
        try:
            for _ in range(_PROBES):
                client.submit(structs.replace(_WAITS, name="probe"))
                sent.append(time.time())
                page.wait_for_timeout(1000)
            page.wait_for_function("(count) => window.__seen.length >= count", arg=len(sent))
        finally:
            stop.set()
            thread.join()
        seen: list[float] = page.evaluate("() => window.__seen")
    late = [1000 * (shown - at) for at, shown in zip(sent, seen, strict=False)]
    p50, p99 = statistics.median(late), _part(late, 0.99)
    return Row(
        "ui", f"job acknowledged to row in the page, while {_PER_S}/s are submitted",
        f"p50 {p50:,.0f} ms, p99 {p99:,.0f} ms", p50,
        target="p50 <= 250 ms, p99 <= 1 s", verdict=judged(p50 <= 250 and p99 <= 1000), note=busy,
    )  # fmt: skip


# ---- what it costs others


def _viewers(ares: Platform, busy: str) -> Row:
    """Fifty people at the overview: each with the socket of its browser, asking as often as the page does."""
    server = psutil.Process(ares.server.pid)

    def cpu_s() -> float:
        times = server.cpu_times()
        return times.user + times.system

    def idle() -> float:
        before = cpu_s()
        time.sleep(_WATCHED_S / 2)
        return (cpu_s() - before) / (_WATCHED_S / 2)

    rest = idle()

    async def watch() -> float:
        url, headers = f"127.0.0.1:{ares.port}", {"Authorization": f"Bearer {ares.token}"}

        async def person(number: int) -> None:
            line = await ares.connect()
            async with websockets.connect(f"ws://{url}/v1/events", additional_headers=headers, proxy=None):
                await asyncio.sleep(12.0 * number / _VIEWERS)
                while True:
                    await line.ask("GET", "/v1/overview")
                    await asyncio.sleep(12.0)

        people = [asyncio.create_task(person(number)) for number in range(_VIEWERS)]
        await asyncio.sleep(3.0)
        before = cpu_s()
        await asyncio.sleep(_WATCHED_S)
        used = (cpu_s() - before) / _WATCHED_S
        for person_ in people:
            person_.cancel()
        await asyncio.gather(*people, return_exceptions=True)
        return used

    share = max(0.0, asyncio.run(watch()) - rest)
    return Row(
        "ui", f"{_VIEWERS} viewers of the overview", f"{100 * share:.1f} % of a core", share, target="<= 5 %",
        verdict=judged(share <= 0.05), note=f"the server alone {100 * rest:.1f} %; {busy}",
    )  # fmt: skip


def _scrapes(ares: Platform, client: Client, busy: str) -> list[Row]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{ares.port}/metrics", headers={"Authorization": f"Bearer {ares.token}"}
    )
    took, lines = list[float](), 0
    for _ in range(20):
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
        took.append(1000 * (time.perf_counter() - began))
        lines = sum(not line.startswith("#") for line in text.splitlines())
    median = statistics.median(took)
    return [
        Row("ui", f"a scrape, {_TENANTS} tenants", f"{median:,.0f} ms", median, target="<= 70 ms",
            verdict=judged(median <= 70), note=f"p95 {_part(took, 0.95):,.0f} ms; {busy}"),
        Row("ui", f"series of a replica, {_TENANTS} tenants", f"{lines:,}", lines, target="<= 5,000",
            verdict=judged(lines <= 5000)),
    ]  # fmt: skip


def _part(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]
