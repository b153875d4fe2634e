"""Reports: the same to the byte, harmless wherever they are opened, and figures that add up over days."""

import csv

from ares.api.books.reports import PeriodReport, ReportHead, ReportTable
from ares.core.books import waits
from ares.core.books.costs import PoolDays
from ares.core.books.pages import csv_of, digest_of, html_of, sealed
from ares.core.books.tables import CostTables, PromiseTables
from ares.model.books.book import BookLine, MissedDeadline, PoolDay, SlaLine, TenantBook
from ares.model.profile import Sla

HEAD = ReportHead(chain="r1", seq=7, hash="ab" * 32, at=1_700_000_000.0, key="k1")


def _report(**changes: object) -> PeriodReport:
    table = ReportTable(title="T", columns=("name", "n"), rows=(("<script>alert(1)</script>", 1.5), ("=1+1", None)))
    usual: dict[str, object] = {
        "kind": "sla", "title": "Promises", "cluster": "c", "incarnation": 1, "tenant": "", "first_day": "2026-11-01",
        "last_day": "2026-11-30", "complete": True, "currency": "EUR", "tables": (table,), "remarks": (),
        "heads": (HEAD,),
    }  # fmt: skip
    return sealed(PeriodReport(**{**usual, **changes}))  # type: ignore[arg-type]


def test_a_report_has_its_digest_and_the_audit_head_in_every_form() -> None:
    report = _report()
    assert report.digest == digest_of(report)
    assert _report() == report
    assert _report(currency="USD").digest != report.digest
    for text in (html_of(report), csv_of(report)):
        assert report.digest in text
        assert HEAD.hash in text
    assert "not all days are closed" in html_of(_report(complete=False))
    assert "none was signed" in html_of(_report(heads=()))


def test_text_of_jobs_is_text_in_pages_and_in_spreadsheets() -> None:
    report = _report()
    page = html_of(report)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    cells = [row for row in csv.reader(csv_of(report).splitlines()) if row]
    assert ["'=1+1", ""] in cells
    awkward = 'a "b", c\nd'
    table = ReportTable(title="T", columns=("x",), rows=((awkward,),))
    assert [awkward] in list(csv.reader(csv_of(_report(tables=(table,))).splitlines(keepends=True)))


def test_promises_add_up_over_days_and_say_how_much_may_still_miss() -> None:
    day = TenantBook(
        tenant="acme", day="2026-11-01", ended={"SUCCEEDED": 18, "FAILED": 2}, failures={"user": 2},
        sla=(SlaLine(name="gold", met=18, missed=1, excluded=1),), waits=waits.counted([0.5] * 18 + [100.0] * 2),
        worst=(MissedDeadline(job="j1", name="late", sla="gold", late_s=9.0, cause="it failed"),), cluster="here",
    )  # fmt: skip
    away = SlaLine(name="gold", met=1, cluster="west")
    other = TenantBook(tenant="acme", day="2026-11-02", ended={"SUCCEEDED": 1}, elsewhere={"west": 1}, sla=(away,))
    sums = PromiseTables()
    for book in (other, day):
        sums.add(book)
    population, promises, there, waited, worst, how = sums.tables({"gold": Sla(target_percent=90.0)})
    assert population.rows == (("acme", 21, 21),)
    assert promises.rows == (("acme", "gold", 19, 1, 1, 95.0, 90.0, 50.0),)
    # The same by the cluster that had the jobs.
    assert there.rows == (
        ("here", "gold", 18, 1, 1, 94.736842, 90.0, there.rows[0][-1]),
        ("west", "gold", 1, 0, 0, 100.0, 90.0, 100.0),
    )
    (tenant, jobs, middle, most, _) = waited.rows[0]
    assert (tenant, jobs) == ("acme", 20)
    assert isinstance(middle, float)
    assert middle <= 1.0
    assert isinstance(most, float)
    assert 60.0 < most <= 120.0
    assert worst.rows[0][1:] == ("j1", "late", "gold", "2026-11-01", 9.0, "it failed")
    assert ("acme", "failed: user", 2) in how.rows


def test_a_cost_report_has_idle_only_where_the_whole_is_shown() -> None:
    line = BookLine(pool="gold", gpu_model="A100", gpu_ms=3_600_000, micro=2_000_000)
    book = TenantBook(tenant="acme", day="2026-11-01", settled=(line,), ended={"SUCCEEDED": 1})
    had = {"gold": PoolDay(gpu_ms=4 * 3_600_000, micro=8_000_000)}
    whole, mine = CostTables("c"), CostTables("c")
    for sums in (whole, mine):
        sums.add(book)
    total, *_ = whole.tables([PoolDays("2026-11-01", "", had)])
    found = dict(zip(total.columns, total.rows[0], strict=True))
    assert (found["cost"], found["idle cost"], found["capacity cost"]) == (2.0, 6.0, 8.0)
    own, *_ = mine.tables(None)
    assert "idle cost" not in own.columns
