"""Quotas as people set and see them: a tenant's limits, and how much of them is in use."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.json import encode
from msgspec.structs import replace

from ares.api.quotas import LevelUse, QuotaView
from ares.control.governance.download_meter import Meters
from ares.control.governance.lent_quotas import LentQuotas
from ares.control.governance.quota_usage import Counting
from ares.control.state.records import Records, absent, same
from ares.control.state.view import View
from ares.core import keys
from ares.core.quota.counts import TENANT, QuotaLevel
from ares.core.quota.judge import limits_of, use_at
from ares.core.quota.measures import AT_USE, from_units
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.base import Note, Record
from ares.model.job import Priority
from ares.model.quota import LevelName, Limit, Limits, Measure, OverBudget, Quota, QuotaRecord, Subject
from ares.ports.clock import Clock
from ares.ports.store import Delete, Put, Store

# Teams and users shown in one answer.
_LEVELS_SHOWN = 200
_SHOWN = ("cpu", "memory", "gpus", "gpu-hours", "jobs", "jobs-queued", "storage", "egress", "transfer", "budget")

# With less, a large file would take days, and what waits for it with it.
RATE_MIN = 0.01

# By measure, what policies call it and its limit.
_NUMBERS = {
    "jobs": ("jobs", "jobs_quota"),
    "cpu": ("cores", "cores_quota"),
    "memory": ("memory_gib", "memory_gib_quota"),
    "gpus": ("gpus", "gpus_quota"),
    "gpu-hours": ("gpu_hours", "gpu_hours_quota"),
    "budget": ("spent", "budget"),
}


class Usage(Record, frozen=True):
    """What one level uses, in the units people use; the budget is None without one."""

    gpus: float = 0.0
    cores: float = 0.0
    memory_gib: float = 0.0
    gpu_hours: float = 0.0
    spent: float = 0.0
    budget: float | None = None
    jobs: int = 0


class QuotaChange(Record, frozen=True):
    """Of one level; a team or user without a name is every one that has no limits of its own. What `amounts` leaves out
    stays as it is, be it a measure or its soft or hard limit; null takes a measure's limits away."""

    level: LevelName = "tenant"
    name: Subject | UnsetType = UNSET
    amounts: Annotated[dict[Measure, Limit | None], Meta(max_length=64)] = {}
    priority: Priority | UnsetType | None = UNSET
    threshold: Annotated[float, Meta(ge=0.1, le=1.0)] | UnsetType = UNSET
    over_budget: OverBudget | UnsetType = UNSET
    lend: Annotated[float, Meta(ge=0.0, le=1.0)] | UnsetType = UNSET
    note: Note = ""


class Quotas:
    def __init__(
        self,
        store: Store,
        view: View,
        counting: Counting,
        meters: Meters,
        moved: Callable[[str], int],
        clock: Clock,
    ) -> None:
        """`moved`: bytes per second that a tenant moves now."""
        self._moved = moved
        self.lent = LentQuotas(view, counting)
        self._records = Records(store, view)
        self._view = view
        self._counting = counting
        self._meters = meters
        self._clock = clock

    # ---- reading

    async def show(self, tenant: str) -> QuotaView:
        await self._view.catch_up()
        return self._shown(tenant, every=True)

    async def list(self) -> tuple[QuotaView, ...]:
        """Tenants that have a quota, with their own use."""
        await self._view.catch_up()
        return tuple(self._shown(tenant, every=False) for tenant in sorted(self._view.kept.quotas))

    async def knows(self, who: Principal, tenant: str) -> bool:
        """Whether there is such a tenant: with a record, a quota, jobs or tokens, or the caller's own."""
        await self._view.catch_up()
        kept = self._view.kept
        known = tenant == who.tenant or tenant in kept.tenants or tenant in kept.quotas or tenant in self._view.order
        return known or any(token.tenant == tenant for token in kept.tokens.values())

    def usage(self, tenant: str, team: str | None = None, user: str | None = None) -> Usage:
        """Of a user, a team, or the tenant, as this replica sees it."""
        level = QuotaLevel("user", user) if user else QuotaLevel("team", team) if team else TENANT
        used, record = self._counting.used(tenant)(level), self._view.kept.quotas.get(tenant)
        budget = None if record is None else limits_of(record.quota, level).amounts.get("budget")

        def of(measure: str) -> float:
            return from_units(measure, used.get(measure, 0))

        return Usage(
            gpus=of("gpus"),
            cores=of("cpu"),
            memory_gib=of("memory"),
            gpu_hours=of("gpu-hours"),
            spent=of("budget"),
            budget=None if budget is None else budget.hard,
            jobs=used.get("jobs", 0),
        )

    def numbers(self, tenant: str) -> dict[str, float]:
        """What policies may ask about the tenant; what is not limited is left out."""
        used, record = self._counting.used(tenant)(TENANT), self._view.kept.quotas.get(tenant)
        found = {f"tenant.{name}": from_units(measure, used.get(measure, 0)) for measure, (name, _) in _NUMBERS.items()}
        limits = {} if record is None else record.quota.own.amounts
        for measure, (_, name) in _NUMBERS.items():
            if measure in limits and (hard := limits[measure].hard) is not None:
                found[f"tenant.{name}"] = hard
        return found

    def _shown(self, tenant: str, *, every: bool) -> QuotaView:
        record = self._view.kept.quotas.get(tenant)
        quota = Quota() if record is None else record.quota
        used = self._counting.used(tenant)
        named = [
            *(QuotaLevel("team", name) for name in quota.teams),
            *(QuotaLevel("user", name) for name in quota.users),
        ]
        others = dict.fromkeys((*named, *self._counting.counts(tenant).levels)) if every else {}
        single = [level for level in others if level.kind != "tenant"]
        uses: list[LevelUse] = []
        for level in (TENANT, *single[:_LEVELS_SHOWN]):
            held, limits = used(level), limits_of(quota, level).amounts
            if level == TENANT:
                held["egress"] = self._meters.served(tenant)
                held["transfer"] = self._moved(tenant)
            shown = (
                resource for resource in dict.fromkeys((*_SHOWN, *limits)) if resource in limits or held.get(resource)
            )
            uses += [use_at(quota, level, measure, held, {}) for measure in shown]
        return QuotaView(
            tenant=tenant,
            quota=None if record is None else quota,
            by="" if record is None else record.by,
            at=0.0 if record is None else record.at,
            note="" if record is None else record.note,
            uses=tuple(uses),
            in_doubt=tenant in self._counting.doubted,
            lent=self.lent.of_tenant(tenant),
        )

    # ---- changing

    async def put(self, who: Principal, tenant: str, quota: Quota, note: str = "") -> QuotaView | Refusal:
        """All limits of the tenant. What is in use beyond them stays; nothing is admitted on top."""
        why = wrong(quota)
        if why:
            return Refusal(code="quota-invalid", message=why)

        async def attempt() -> bool | None:
            return await self._write(who, tenant, quota, note)

        await self._records.settle(f"the quota of {tenant}", attempt)
        return await self.show(tenant)

    async def change(self, who: Principal, tenant: str, what: QuotaChange) -> QuotaView | Refusal:
        """Single limits, on top of those there are."""
        refused: list[str] = []

        async def attempt() -> bool | None:
            found = await self._records.read(keys.quota(tenant), QuotaRecord)
            quota = changed(Quota() if found is None else found[1].quota, what)
            if why := wrong(quota):
                refused.append(why)
                return False
            compare = absent(keys.quota(tenant)) if found is None else same(found[0])
            record = self._record(who, tenant, quota, what.note)
            return await self._records.write([compare], [Put(keys.quota(tenant), encode(record))]) or None

        await self._records.settle(f"the quota of {tenant}", attempt)
        return Refusal(code="quota-invalid", message=refused[0]) if refused else await self.show(tenant)

    async def remove(self, tenant: str) -> bool:
        """Nothing is limited any more. Whether anything was."""

        async def attempt() -> bool | None:
            found = await self._records.read(keys.quota(tenant), QuotaRecord)
            if found is None:
                return False
            return await self._records.write([same(found[0])], [Delete(keys.quota(tenant))]) or None

        return await self._records.settle(f"the end of {tenant}'s quota", attempt)

    async def _write(self, who: Principal, tenant: str, quota: Quota, note: str) -> bool | None:
        record = self._record(who, tenant, quota, note)
        return await self._records.write([], [Put(keys.quota(tenant), encode(record))]) or None

    def _record(self, who: Principal, tenant: str, quota: Quota, note: str) -> QuotaRecord:
        return QuotaRecord(tenant=tenant, quota=quota, by=who.author, at=self._clock.wall(), note=note)


def wrong(quota: Quota) -> str:
    """Why these limits make no sense, or nothing."""
    try:
        # What is put together from parts must be readable as a whole.
        msgspec.convert(msgspec.to_builtins(quota), Quota)
    except msgspec.ValidationError as error:
        return str(error)
    levels = [("the tenant", quota.own), ("every team", quota.team_default), ("every user", quota.user_default)]
    levels += [(f"team {name}", limits) for name, limits in quota.teams.items()]
    levels += [(f"user {name}", limits) for name, limits in quota.users.items()]
    for whose, limits in levels:
        for measure, limit in limits.amounts.items():
            if limit.hard is None and limit.soft is None:
                return f"{whose}: {measure} has neither a hard nor a soft limit; leave it out instead"
            if limit.hard is not None and limit.soft is not None and limit.soft > limit.hard:
                return f"{whose}: the soft limit of {measure} ({limit.soft:g}) is above the hard one ({limit.hard:g})"
            if measure in AT_USE and whose != "the tenant":
                return f"{whose}: {measure} is counted for whole tenants only"
            if measure == "transfer" and (limit.hard is None or limit.hard < RATE_MIN):
                return f"{whose}: transfer needs a hard limit of at least {RATE_MIN:g} MB/s"
    return ""


def changed(quota: Quota, what: QuotaChange) -> Quota:
    level = QuotaLevel(what.level, "" if isinstance(what.name, UnsetType) else what.name)
    if isinstance(what.threshold, float):
        quota = replace(quota, threshold=what.threshold)
    if not isinstance(what.over_budget, UnsetType):
        quota = replace(quota, over_budget=what.over_budget)
    if isinstance(what.lend, float):
        quota = replace(quota, lend=what.lend)
    before = limits_of(quota, level) if level.kind == "tenant" or level.name else _default(quota, level.kind)
    amounts = dict(before.amounts)
    for measure, limit in what.amounts.items():
        known = amounts.pop(measure, Limit())
        if limit is not None:
            amounts[measure] = Limit(
                hard=known.hard if limit.hard is None else limit.hard,
                soft=known.soft if limit.soft is None else limit.soft,
            )
    priority = before.priority if isinstance(what.priority, UnsetType) else what.priority
    return _with(quota, level, Limits(amounts=amounts, priority=priority))


def _default(quota: Quota, kind: LevelName) -> Limits:
    return quota.team_default if kind == "team" else quota.user_default


def _with(quota: Quota, level: QuotaLevel, limits: Limits) -> Quota:
    if level.kind == "tenant":
        return replace(quota, own=limits)
    if not level.name:
        return replace(quota, team_default=limits) if level.kind == "team" else replace(quota, user_default=limits)
    named = dict(quota.teams if level.kind == "team" else quota.users)
    named[level.name] = limits
    if limits == Limits():
        # Back to what holds for every one.
        del named[level.name]
    return replace(quota, teams=named) if level.kind == "team" else replace(quota, users=named)
