"""A report as a page that prints well, and as CSV. The same report is the same to the byte."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import Final

import msgspec
from msgspec.structs import replace

from ares.api.books.reports import PeriodReport, ReportCell, ReportTable
from ares.core.audit.search import cell

_STYLE: Final = """
:root { color-scheme: light; }
body { font: 11pt/1.45 system-ui, sans-serif; color: #1a1d21; background: #fff; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; }
p { margin: .25rem 0; } .note { color: #565d66; max-width: 60rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 9.5pt; margin-top: .5rem; }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid #d5d9de; vertical-align: top; overflow-wrap: anywhere; }
th { border-bottom: 2px solid #6b7280; } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
footer { margin-top: 2.5rem; border-top: 1px solid #6b7280; padding-top: .5rem; font-size: 8.5pt; color: #565d66; overflow-wrap: anywhere; }
@page { size: A4 landscape; margin: 14mm; }
@media print { body { margin: 0; max-width: none; padding: 0; } h2, .note { break-after: avoid; } tr { break-inside: avoid; }
  thead { display: table-header-group; } .wide { overflow: visible; } }
""".strip()  # noqa: E501


def sealed(report: PeriodReport) -> PeriodReport:
    """With its digest."""
    return replace(report, digest=digest_of(report))


def digest_of(report: PeriodReport) -> str:
    return hashlib.sha256(msgspec.json.encode(replace(report, digest=""))).hexdigest()


def html_of(report: PeriodReport) -> str:
    whose = report.tenant or "all tenants"
    state = "all days are closed" if report.complete else "not all days are closed: figures still change"
    amounts = f"; amounts in {escape(report.currency)}" if report.currency else ""
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head><body>",
        f"<header><h1>{escape(report.title)}</h1>",
        f"<p>{escape(report.first_day)} to {escape(report.last_day)}, by UTC; {state}.</p>",
        f"<p>Cluster {escape(report.cluster)}, incarnation {report.incarnation}; {escape(whose)}{amounts}.</p>",
        "</header><main>",
        *(_table(table) for table in report.tables),
        "</main><footer>",
        *(f"<p>{escape(remark)}</p>" for remark in report.remarks),
        f"<p>SHA-256 {escape(report.digest)}</p>",
        *(f"<p>Audit head {escape(line)}</p>" for line in _heads(report)),
        "</footer></body></html>",
    ]
    return "\n".join(lines) + "\n"


def _heads(report: PeriodReport) -> list[str]:
    found = [
        f"{head.chain} {head.seq} {head.hash}, signed by {head.key} at {_instant(head.at)}" for head in report.heads
    ]
    return found or ["none was signed by the end of the period"]


def _table(table: ReportTable) -> str:
    numeric = [all(not isinstance(row[place], str) for row in table.rows) for place in range(len(table.columns))]
    marks = [' class="number"' if is_number and table.rows else "" for is_number in numeric]
    head = "".join(
        f'<th scope="col"{mark}>{escape(name)}</th>' for name, mark in zip(table.columns, marks, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{mark}>{escape(_shown(value))}</td>" for value, mark in zip(row, marks, strict=True))
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    filled = body or f'<tr><td colspan="{len(table.columns)}">None in this period.</td></tr>'
    return (
        f'<section><h2>{escape(table.title)}</h2>{note}<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{filled}\n</tbody></table></div></section>"
    )


def _shown(value: ReportCell) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else value


def csv_of(report: PeriodReport) -> str:
    """Table after table, with an empty line between them; then the digest and the heads."""
    about = (report.title, report.first_day, report.last_day, report.cluster, report.tenant, report.currency)
    lines = [_line(about)]
    for table in report.tables:
        lines += ["", _line([table.title]), _line(table.columns), *(_line(row) for row in table.rows)]
    lines += ["", _line(["sha256", report.digest])]
    lines += [_line(["audit head", head.chain, head.seq, head.hash, head.key]) for head in report.heads]
    return "\n".join(lines) + "\n"


def _line(values: Iterable[ReportCell]) -> str:
    return ",".join(_field(value) for value in values)


def _field(value: ReportCell) -> str:
    if isinstance(value, str):
        return cell(value)
    return "" if value is None else str(value)


def _instant(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
