"""Checks of the daily books: written once, and each day takes back what the day before had accrued."""

from datetime import date, timedelta

from ares.check.store import kinds
from ares.check.store.findings import Findings
from ares.check.store.reading import Reader
from ares.model.books.book import ClosingRecord, PlatformBook, TenantBook


def check_books(reader: Reader, findings: Findings) -> None:
    closing: ClosingRecord | None = next((kept.record for _, kept in reader.all(kinds.CLOSINGS)), None)
    listed: dict[str, set[str]] = {}
    for day, kept in reader.all(kinds.PLATFORM_BOOKS):
        book: PlatformBook = kept.record
        listed[day] = set(book.tenants)
        _once(findings, f"the platform on {day}", kept.version)
        if closing is None or day > closing.day:
            findings.wrong("books", f"the platform has a book of {day}, which is not closed")
    before: TenantBook | None = None
    for tail, kept in reader.all(kinds.BOOKS):
        mine: TenantBook = kept.record
        _once(findings, tail, kept.version)
        if mine.day in listed and mine.tenant not in listed[mine.day]:
            findings.wrong("books", f"{tail}: the platform's book of the day does not name the tenant")
        listed.get(mine.day, set()).discard(mine.tenant)
        follows = before is not None and before.tenant == mine.tenant and _next(before.day) == mine.day
        if before is not None and follows and before.incarnation == mine.incarnation:
            if mine.opening != before.accrued:
                findings.wrong("books", f"{tail} does not take back what {before.day} has accrued")
        elif before is not None and before.tenant == mine.tenant and before.accrued and not follows:
            findings.wrong("books", f"what {before.tenant}/{before.day} has accrued is taken back on no day")
        before = mine
    for day, missing in sorted(listed.items()):
        for tenant in sorted(missing):
            findings.wrong("books", f"the book of {tenant} on {day} is missing")
    for _ in reader.all(kinds.CAPACITY):
        pass
    _check_told(reader, findings)


def _check_told(reader: Reader, findings: Findings) -> None:
    """Of a global plane: a cluster's day is there with the book of each tenant that it names."""
    tellings = {name: kept.record for name, kept in reader.all(kinds.TELLINGS)}
    there = {tail for tail, _ in reader.all(kinds.TOLD_BOOKS)}
    for tail, kept in reader.all(kinds.TOLD_DAYS):
        findings.looked("books")
        day: PlatformBook = kept.record
        if day.cluster not in tellings:
            findings.wrong("books", f"cluster {day.cluster} has told {day.day}, and there is no record how far it came")
        for tenant in day.tenants:
            if f"{day.cluster}/{tenant}/{day.day}/{day.incarnation:010d}" not in there:
                findings.wrong("books", f"{tail}: the book of {tenant} was not told")


def _once(findings: Findings, what: str, version: int) -> None:
    findings.looked("books")
    if version != 1:
        findings.wrong("books", f"{what}: the book was written {version} times")


def _next(day: str) -> str:
    return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
