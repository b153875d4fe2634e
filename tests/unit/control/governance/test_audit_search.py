"""Searching several chains: every page goes on where the one before ended, however little a page looks at."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.adapters.audit.files import FileAudit
from ares.api.audit import AuditPage
from ares.control.governance import audit_search
from ares.control.governance.audit_search import AuditSearch, month_of
from ares.control.state.cursors import Cursors
from ares.core.audit.chain import ChainWriter
from ares.core.audit.search import RULES, AuditQuery
from ares.edge.rest.routes.routes import OPERATIONS
from ares.model.access import Principal
from ares.model.audit import AuditDraft, AuditHead

AUDITOR = Principal(token_id="t", tenant="platform", role="auditor")
DAY_S = 86_400.0
BEGAN = 20_000 * DAY_S


async def fill(directory: Path, chain: str, entries: int, every_s: float) -> None:
    writer = ChainWriter(chain)
    log = FileAudit(directory, chain, segment_bytes=2000)
    await log.open()
    for number in range(entries):
        # Many of one moment: only the number tells them apart.
        at = BEGAN + number // 3 * every_s
        draft = AuditDraft(
            operation="submitJob" if number % 2 else "deleteJob", outcome="DENY" if number % 5 == 0 else "ALLOW",
            tenant=f"tenant-{number % 4}", user='say "hi"' if number % 7 == 0 else "ada", object=f"jobs/j{number}",
        )  # fmt: skip
        await log.append(writer.seq + 1, at, [writer.line(draft, at)])
    await log.close()


@pytest.fixture
async def search(tmp_path: Path) -> AuditSearch:
    await fill(tmp_path, "a", 60, 1.0)
    await fill(tmp_path, "b", 40, 1.5)
    elsewhere = AuditHead(chain="c", seq=7, hash="", at=5.0, key="k")
    view: Any = SimpleNamespace(kept=SimpleNamespace(audit_heads={"c/7": elsewhere}))
    return AuditSearch(FileAudit(tmp_path, ""), view, Cursors(b"key"))


async def everything(search: AuditSearch, query: AuditQuery, limit: int) -> list[tuple[float, str, int]]:
    found: list[tuple[float, str, int]] = []
    cursor = ""
    for _ in range(1000):
        page = await search.page(AUDITOR, query, limit, cursor)
        assert isinstance(page, AuditPage)
        assert len(page.entries) <= limit
        found += [(entry.at, entry.chain, entry.seq) for entry in page.entries]
        if not (cursor := page.cursor):
            return found
    raise AssertionError("the pages never end")


@pytest.mark.parametrize("scanned", [3, 200_000])
async def test_pages_miss_nothing_and_repeat_nothing(
    search: AuditSearch, monkeypatch: pytest.MonkeyPatch, scanned: int
) -> None:
    monkeypatch.setattr(audit_search, "SCANNED_MAX", scanned)
    queries = {
        AuditQuery(): 100,
        AuditQuery(tenant="tenant-1"): 25,
        AuditQuery(outcome="DENY", operation="deleteJob"): 10,
        AuditQuery(who='say "hi"'): 15,
        AuditQuery(object="jobs/j7"): 2,
        AuditQuery(object="j7"): 2,
        AuditQuery(since=BEGAN + 5, until=BEGAN + 10): 15 + 9,
        AuditQuery(text="J39"): 2,
        AuditQuery(who="nobody"): 0,
    }
    for query, expected in queries.items():
        for limit in (1, 7, 1000):
            found = await everything(search, query, limit)
            assert len(found) == len(set(found)) == expected, (query, limit)
            assert found == sorted(found, reverse=True), (query, limit)


async def test_chains_elsewhere_are_named(search: AuditSearch) -> None:
    seen = {chain.chain: (chain.here, chain.signed) for chain in search.chains()}
    assert seen == {"a": (True, 0), "b": (True, 0), "c": (False, 7)}


async def test_a_line_that_was_changed_is_not_shown(search: AuditSearch, tmp_path: Path) -> None:
    first = min((tmp_path / "a").glob("*.jsonl"))
    first.write_bytes(first.read_bytes().replace(b"tenant-1", b"tenant-9") + b'{"seq":"x"}\n\xff\n')
    assert await everything(search, AuditQuery(tenant="tenant-9"), 100) == []
    assert len(await everything(search, AuditQuery(tenant="tenant-2"), 100)) == 25


def test_what_changes_rules_is_known_by_the_paths_there_are() -> None:
    changing = {operation.path.split("/")[1] for operation in OPERATIONS if operation.method != "GET"}
    assert changing >= RULES
    # Whoever adds a route that changes something says which of the two it is.
    others = {
        "alerts", "auth", "consolidations", "crons", "datasets", "decisions", "flows", "insights", "jobs", "nodes",
        "plan", "predictions", "projects", "reports", "reservations",
    }  # fmt: skip
    assert changing - RULES == others


def test_months_are_whole_and_meet() -> None:
    assert month_of("2026-12")[1] == month_of("2027-01")[0]
    assert month_of("2028-02")[1] - month_of("2028-02")[0] == 29 * DAY_S
