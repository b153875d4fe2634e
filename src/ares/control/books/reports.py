"""Reports over a period: promises, cost, and evidence of who may do what and did what."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ares.api.books.reports import PeriodReport, ReportCell, ReportHead, ReportKind, ReportTable
from ares.control.books.costs import Costs, is_wide
from ares.control.books.shelf import BookShelf
from ares.control.governance.audit_heads import AuditHeads
from ares.control.governance.audit_search import AuditSearch
from ares.control.state.view import View
from ares.core.audit.search import AuditQuery
from ares.core.books.costs import PoolDays
from ares.core.books.days import day_end, day_start
from ares.core.books.pages import sealed
from ares.core.books.tables import CostTables, PromiseTables, rounded
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.audit import AuditHead
from ares.model.profile import Profile, ProfileRecord

_TITLES: Final[Mapping[ReportKind, str]] = {
    "sla": "Promises kept", "cost": "Cost and energy", "compliance": "Compliance evidence",
}  # fmt: skip
_ROWS_MAX: Final = 5000


class ReportMaker:
    def __init__(
        self, view: View, shelf: BookShelf, costs: Costs, search: AuditSearch, heads: AuditHeads | None
    ) -> None:
        self._view = view
        self._shelf = shelf
        self._costs = costs
        self._search = search
        self._heads = heads

    async def make(
        self, who: Principal, kind: ReportKind, first: str | None, last: str | None
    ) -> PeriodReport | Refusal:
        """Of these days; without them, of the last seven."""
        await self._view.catch_up()
        period = self._costs.period(first, last)
        if isinstance(period, Refusal):
            return period
        first, last = period
        remarks: list[str] = []
        # As of before: a day that is closed while the report is made may still be told by a draft.
        complete = self._costs.is_complete(first, last)
        if kind == "compliance":
            tables = tuple(_bounded(table) for table in await self._compliance(who, first, last, remarks))
            whole = not self._search.only(who)
        else:
            tables = await self._figures(who, kind, first, last, remarks)
            whole = is_wide(who)
        return sealed(
            PeriodReport(
                kind=kind,
                title=_TITLES[kind],
                cluster=self._shelf.cluster,
                incarnation=self._shelf.incarnation,
                tenant="" if whole else who.tenant,
                first_day=first,
                last_day=last,
                complete=complete,
                currency=self._profile_at(day_end(last)).currency,
                tables=tables,
                remarks=tuple(remarks),
                heads=self._heads_at(day_end(last)),
            )
        )

    # ---- promises and cost

    async def _figures(
        self, who: Principal, kind: ReportKind, first: str, last: str, remarks: list[str]
    ) -> tuple[ReportTable, ...]:
        sums = PromiseTables() if kind == "sla" else CostTables(self._shelf.cluster)
        incarnations: dict[str, set[int]] = {}
        # Promises of all jobs, wherever they ran, are judged here; what they used is in the books of their cluster.
        async for book in self._costs.books(who, first, last, told=kind != "sla"):
            sums.add(book)
            incarnations.setdefault(book.cluster, set()).add(book.incarnation)
        for age in self._costs.told.ages():
            if age.closed_day < last:
                up_to = f"up to {age.closed_day}" if age.closed_day else "not at all"
                remarks.append(f"Days of cluster {age.cluster} are closed and known {up_to}: figures still change.")
        closing = self._shelf.closing
        if closing is not None and first < closing.first_day:
            remarks.append(f"Books begin on {closing.first_day}: nothing is known of the days before.")
        for cluster, seen in sorted(incarnations.items()):
            if len(seen) > 1:
                store = f"The store of {cluster}" if len(incarnations) > 1 else "The store"
                remarks.append(f"{store} was restored from a backup within the period: days may be missing.")
        if isinstance(sums, PromiseTables):
            return sums.tables(self._profile_at(day_end(last)).slas)
        had: list[PoolDays] | None = None
        if is_wide(who):
            had, assumed_s = await self._costs.capacities(first, last)
            if assumed_s >= 1.0:
                remarks.append(f"For {assumed_s:,.0f} s no replica looked: pools are taken to have had what they had.")
        return sums.tables(had)

    def _profile_at(self, moment: float) -> Profile:
        """The one in force then, so that a report of a time that is over does not change."""
        known = [record for record in self._view.profiles.values() if record.at <= moment]
        return max(known, key=lambda record: record.version).profile if known else Profile()

    def _heads_at(self, moment: float) -> tuple[ReportHead, ...]:
        newest: dict[str, AuditHead] = {}
        for head in self._search.heads():
            if head.at <= moment:
                newest[head.chain] = head
        return tuple(
            ReportHead(chain=head.chain, seq=head.seq, hash=head.hash, at=head.at, key=head.key)
            for _, head in sorted(newest.items())
        )

    # ---- evidence

    async def _compliance(self, who: Principal, first: str, last: str, remarks: list[str]) -> tuple[ReportTable, ...]:
        since, until = day_start(first), day_end(last)
        only = self._search.only(who)
        found = await self._search.month(who, AuditQuery(tenant=only, since=since, until=until), "")
        summary = found.summary
        if elsewhere := [chain.chain for chain in found.chains if not chain.here]:
            remarks.append(f"Audit chains on other replicas are not in it: {', '.join(elsewhere)}. Make it there too.")
        if summary.left_out:
            remarks.append(f"{summary.left_out:,} more changes and looks are not listed: make it of fewer days.")
        remarks.append("This is evidence, not a certificate: users and chains are told as of its making.")
        counts = (
            ("audit entries", summary.entries), ("denials", sum(summary.denials.values())),
            ("looks at other tenants' contents (broken glass)", len(summary.break_glass)),
            ("policy violations", summary.policy_violations), ("quota rejections", summary.quota_rejections),
        )  # fmt: skip
        population = ReportTable(
            title="Population",
            columns=("what", "how many"),
            rows=tuple((what, int(number)) for what, number in counts),
            note="Requests that changed something or were denied in the period, by the audit chains of this replica.",
        )
        operations = tuple(
            (name, *(outcomes.get(outcome, 0) for outcome in ("ALLOW", "DENY", "ERROR")))
            for name, outcomes in sorted(summary.operations.items())
        )
        happened = ("when", "who", "operation", "object", "reason")
        return (
            population,
            ReportTable(title="Operations", columns=("operation", "allowed", "denied", "failed"), rows=operations),
            ReportTable(title="Denials", columns=("reason", "how many"), rows=tuple(sorted(summary.denials.items()))),
            ReportTable(title="Broken glass", columns=happened, rows=_happened(summary.break_glass)),
            ReportTable(title="Changes of rules and access", columns=happened, rows=_happened(summary.changes)),
            *self._records(only, since, until),
            self._users(only, until),
            await self._chains(only),
        )

    def _records(self, only: str, since: float, until: float) -> Iterable[ReportTable]:
        kept = self._view.kept
        yield ReportTable(
            title="Alerts",
            columns=("tenant", "kind", "subject", "severity", "first s", "last s", "times", "state", "by", "note"),
            rows=tuple(
                (alert.tenant or "(platform)", alert.kind, alert.subject, alert.severity, rounded(alert.first_at),
                 rounded(alert.last_at), alert.count, alert.state, alert.by, alert.note)
                for alert in sorted(kept.alerts.values(), key=lambda alert: (alert.first_at, alert.id))
                if alert.first_at < until and alert.last_at >= since and only in ("", alert.tenant)
            ),
            note="Alerts that began before the end of the period and were raised within it, and what became of them.",
        )  # fmt: skip
        if not only:
            yield ReportTable(
                title="Profile",
                columns=("version", "at s", "by", "note", "what changed"),
                rows=tuple(self._profiles(since, until)),
            )
        policies = (record for record in kept.policies.values() if since <= record.at < until)
        yield ReportTable(
            title="Policies in force that were changed",
            columns=("tenant", "name", "version", "at s", "by", "note"),
            rows=tuple(
                (record.tenant or "(platform)", record.name, record.version, rounded(record.at), record.by, record.note)
                for record in sorted(policies, key=lambda record: (record.at, record.name))
                if only in ("", record.tenant)
            ),
        )
        quotas = (record for record in kept.quotas.values() if since <= record.at < until)
        yield ReportTable(
            title="Quotas in force that were changed",
            columns=("tenant", "at s", "by", "note"),
            rows=tuple(
                (record.tenant, rounded(record.at), record.by, record.note)
                for record in sorted(quotas, key=lambda record: (record.at, record.tenant))
                if only in ("", record.tenant)
            ),
        )

    def _profiles(self, since: float, until: float) -> Iterable[tuple[ReportCell, ...]]:
        before: ProfileRecord | None = None
        for _, record in sorted(self._view.profiles.items()):
            if since <= record.at < until:
                changed = ", ".join(_changed(Profile() if before is None else before.profile, record.profile))
                yield record.version, rounded(record.at), record.by, record.note, changed
            before = record

    def _users(self, only: str, until: float) -> ReportTable:
        users = sorted(self._view.kept.users.values(), key=lambda user: (user.tenant, user.name))
        return ReportTable(
            title="Users and roles",
            columns=("tenant", "user", "role", "team", "a program", "disabled", "made by"),
            rows=tuple(
                (user.tenant, user.name, user.role, user.team or "", "yes" if user.service else "no",
                 "yes" if user.disabled else "no", user.created_by)
                for user in users
                if user.created_at < until and only in ("", user.tenant)
            ),
            note="Users that were made before the end of the period, as they are now.",
        )  # fmt: skip

    async def _chains(self, only: str) -> ReportTable:
        reports = () if self._heads is None else await self._heads.verify_all(fresh=not only)
        return ReportTable(
            title="Audit chains",
            columns=("chain", "whole", "first broken link", "why"),
            rows=tuple((seen.chain, "yes" if seen.whole else "no", seen.broken or None, seen.why) for seen in reports),
            note="Every entry names the hash of the one before; heads are signed. Verified when this was made.",
        )


def _bounded(table: ReportTable) -> ReportTable:
    """The first rows of a table that is too long for a report, which says so."""
    left_out = len(table.rows) - _ROWS_MAX
    if left_out <= 0:
        return table
    note = f"{table.note} {left_out:,} more rows are left out: make it of fewer days, or of one tenant.".lstrip()
    return replace(table, rows=table.rows[:_ROWS_MAX], note=note)


def _happened(entries: Iterable[Any]) -> tuple[tuple[ReportCell, ...], ...]:
    return tuple((rounded(entry.at), entry.who, entry.operation, entry.object, entry.reason) for entry in entries)


def _changed(before: Profile, now: Profile) -> list[str]:
    """Settings that differ, by their dotted names."""
    one, other = _flat(msgspec.to_builtins(before)), _flat(msgspec.to_builtins(now))
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    found: dict[str, Any] = {}
    items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    for key, inner in items.items():
        found |= _flat(inner, f"{name}.{key}" if name else key)
    return found
