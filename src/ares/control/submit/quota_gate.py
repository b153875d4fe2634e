"""Admits jobs of tenants that have a quota: decided in the transaction that creates them.

What a tenant uses is what the view has, and what this replica admitted that the view has not shown yet. Every such
transaction writes the tenant's key under `/admissions/` and compares the revision it was decided from, and so knows all
admissions before it, through whichever replica they came. Jobs that have ended unseen only make it more careful, and
before anything is refused the view catches up.

A tenant has a few transactions under way at a time, each valid only after the one before it. Jobs submitted meanwhile
go together in the next one.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ares.control.governance.quota_usage import Counting
from ares.control.state.commit import Full, Pack, WriteDraft, Writer, together
from ares.control.state.view import View
from ares.control.submit.draft import FULL, Draft, unwritten
from ares.control.submit.parents import ParentChecks
from ares.core import keys
from ares.core.access.table import scope_of
from ares.core.quota.asked import asked_by
from ares.core.quota.counts import QuotaLevel, levels_of, to_come
from ares.core.quota.judge import OverQuota, Used, WithinQuota, above_ceiling, judge
from ares.core.quota.measures import Amounts, add, kind_of, times
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import Priority
from ares.model.quota import AdmissionRecord, Quota, QuotaRecord
from ares.ports.clock import Clock, Rng
from ares.ports.store import KV, Committed, Compare, Get, Op, Put, Unknown
from ares.ports.telemetry import Telemetry

# A submission that loses every race for so long is refused with a time to try again.
_RACING_S = 8.0
# Refusals in one go: others get their turn on the loop.
_REFUSED_AT_ONCE = 250
# How old what the view was compared with may be to refuse by it, and how far beyond its limit the tenant must be.
_STALE_S = 5.0
_FAR_MILLI = 1100

_SPARE_OPS = 2
# Transactions of one tenant under way at once.
_DEPTH_MAX = 8


class CreatedJob(NamedTuple):
    """Written."""

    soft_limits: tuple[str, ...] = ()


class SeenRequest(NamedTuple):
    """Its request id, or the job itself, was there already."""

    kv: KV


Outcome = CreatedJob | SeenRequest | Refusal
_Sums = dict[QuotaLevel, dict[str, int]]


class _Basis(NamedTuple):
    """What a decision was made from; it holds as long as the two revisions do."""

    record: QuotaRecord | None
    quota: int
    admission: int


class LiveChange(WriteDraft, frozen=True, gc=False):
    """A live job that is to ask for something else: its first compare is that of its record.

    `before` and `after` are all it counts with; `priority` is set when it is to have another one."""

    who: Principal
    levels: tuple[QuotaLevel, ...]
    before: Amounts
    after: Amounts
    priority: Priority | None

    @property
    def grown(self) -> dict[str, int]:
        """What it asks for more of. What it asks for less of is taken whatever the limits are by now."""
        return {measure: units for measure, units in self.after.items() if units > self.before.get(measure, 0)}


@dataclass(slots=True, eq=False)
class _PendingAdmission:
    draft: Draft | LiveChange
    # What is asked for, and what of it the job has already.
    asked: dict[str, int]
    levels: tuple[QuotaLevel, ...]
    until: float
    has: Amounts = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()
    outcome: Outcome | None = None


@dataclass(slots=True)
class _Lane:
    """Of one tenant."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: dict[_PendingAdmission, None] = field(default_factory=dict["_PendingAdmission", None])
    # Admitted here at a revision that the view has not reached.
    ahead: list[tuple[int, _Sums]] = field(default_factory=list[tuple[int, "_Sums"]])
    caught_up_at: float = float("-inf")
    # Transactions that may be under way at once: more while no other replica writes in between.
    depth: int = 1


class Admissions:
    def __init__(
        self, writer: Writer, view: View, counting: Counting, clock: Clock, rng: Rng, telemetry: Telemetry
    ) -> None:
        self._writer = writer
        self._view = view
        self._counting = counting
        self._clock = clock
        self._telemetry = telemetry
        self._parents = ParentChecks(view)
        self._lanes: dict[str, _Lane] = {}
        # No two admissions of all processes ever write the same value.
        self._name, self._made = rng.token(8).hex(), 0

    # ---- tenants without a quota

    def limited(self, tenant: str) -> bool:
        return tenant in self._view.kept.quotas

    @staticmethod
    def unlimited(tenant: str) -> Compare:
        """Holds as long as the tenant has no quota."""
        return Compare(keys.quota(tenant), "mod_revision", 0)

    # ---- tenants with one

    async def admit(self, tenant: str, drafts: Sequence[Draft | LiveChange]) -> list[Outcome]:
        """One outcome per draft, in order. Drafts were not written yet, or by this very call only."""
        lane, until = self._lanes.setdefault(tenant, _Lane()), self._clock.monotonic() + _RACING_S
        mine = [_waiting(draft, until) for draft in drafts]
        lane.waiting.update(dict.fromkeys(mine))
        try:
            for pending in mine:
                while pending.outcome is None:
                    async with lane.lock:
                        if pending.outcome is None:
                            await self._round(tenant, lane)
            return [pending.outcome for pending in mine if pending.outcome is not None]
        finally:
            for pending in mine:
                lane.waiting.pop(pending, None)

    async def _round(self, tenant: str, lane: _Lane) -> None:
        """A few transactions for the submissions that came first, or none if all of them are refused."""
        fresh = False
        if tenant in self._counting.doubted:
            await self._catch_up(lane)
            fresh = True
        basis = await self._basis(tenant, lane)
        packs, refused = self._take(tenant, lane, basis)
        if not fresh and any(not self._surely(lane, no) for _, no in refused):
            await self._catch_up(lane)
            basis = await self._basis(tenant, lane)
            packs, refused = self._take(tenant, lane, basis)
        if await self._write_all(tenant, lane, packs, basis):
            self._refuse(tenant, refused)

    async def _write_all(
        self, tenant: str, lane: _Lane, packs: Sequence[list[_PendingAdmission]], basis: _Basis
    ) -> bool:
        """Whether all were written: then those behind them were rightly refused."""
        # One transaction is only carried out if the one before it was, so they need not wait for each other's answer.
        self._made += len(packs)
        values = [self._value(self._made - len(packs) + n) for n in range(len(packs))]
        written = await together(
            [self._write(tenant, pack, basis, values[n], values[n - 1] if n else None) for n, pack in enumerate(packs)]
        )
        landed_at, whole = 0, True
        ahead: list[tuple[int, _Sums]] = []
        for pack, outcome in zip(reversed(packs), reversed(written), strict=True):
            if isinstance(outcome, Committed) and outcome.succeeded:
                landed_at = landed_at or outcome.revision
            if landed_at and (isinstance(outcome, Unknown) or (isinstance(outcome, Committed) and outcome.succeeded)):
                ahead.append((landed_at if isinstance(outcome, Unknown) else outcome.revision, _sums(pack)))
                _settle((each, CreatedJob(each.warnings)) for each in pack)
                continue
            whole = False
            if isinstance(outcome, Committed):
                await self._lost(lane, pack, outcome)
            else:
                _settle((each, _unwritten(outcome, each.draft)) for each in pack)
        if basis.record is not None:
            lane.ahead += reversed(ahead)
        lane.depth = min(_DEPTH_MAX, 2 * lane.depth) if whole else 1
        return whole

    async def _catch_up(self, lane: _Lane) -> None:
        at = self._clock.monotonic()
        await self._view.catch_up()
        lane.caught_up_at = at

    async def _basis(self, tenant: str, lane: _Lane) -> _Basis:
        admissions, quotas = self._view.kept.admissions, self._view.kept.quotas
        # After a listing the view may know of an admission and not of its job.
        while (seen := admissions.revisions.get(tenant, 0)) > self._view.revision:
            await self._view.reach(seen)
        lane.ahead = [sums for sums in lane.ahead if sums[0] > self._view.revision]
        own = lane.ahead[-1][0] if lane.ahead else 0
        return _Basis(quotas.get(tenant), quotas.revisions.get(tenant, 0), max(seen, own))

    def _take(
        self, tenant: str, lane: _Lane, basis: _Basis
    ) -> tuple[list[list[_PendingAdmission]], list[tuple[_PendingAdmission, OverQuota]]]:
        """The first that fit, by transactions, and those refused on the way."""
        used, held = self._counting.used(tenant), dict[QuotaLevel, dict[str, int]]()

        def in_use(level: QuotaLevel) -> dict[str, int]:
            if level not in held:
                held[level] = used(level)
                for _, sums in lane.ahead:
                    add(held[level], sums.get(level, {}))
            return held[level]

        packs, refused = list[list[_PendingAdmission]](), list[tuple[_PendingAdmission, OverQuota]]()
        pack: Pack[Draft | LiveChange] | None = None
        for pending in lane.waiting:
            if pending.outcome is not None:
                continue
            found = _judged(basis, pending, in_use, tenant in self._counting.doubted)
            if isinstance(found, OverQuota):
                refused.append((pending, found))
                if len(refused) >= _REFUSED_AT_ONCE:
                    break
                continue
            if pack is None or not pack.add(pending.draft):
                if len(packs) >= lane.depth:
                    break
                pack = Pack(spare=_SPARE_OPS)
                pack.add(pending.draft)
                packs.append([])
            pending.warnings = found.warnings
            packs[-1].append(pending)
            for level in pending.levels:
                add(in_use(level), pending.asked)
                add(in_use(level), pending.has, -1)
        return packs, refused

    def _surely(self, lane: _Lane, no: OverQuota) -> bool:
        """Whether no end of a job that the view has not shown yet can make room: by far too much is in use."""
        if no.code == "priority-ceiling" or self._clock.monotonic() - lane.caught_up_at > _STALE_S:
            return no.code == "priority-ceiling"
        return any(
            level.exceeded and level.limit is not None and 1000 * (level.used + level.asked) > _FAR_MILLI * level.limit
            for level in no.levels
        )

    def _refuse(self, tenant: str, refused: Sequence[tuple[_PendingAdmission, OverQuota]]) -> None:
        waits: dict[tuple[QuotaLevel, str, int], float | None] = {}
        for pending, no in refused:
            level, measure = no.worst
            after: float | None = None
            if no.code not in ("priority-ceiling", "quota-too-small"):
                key = (level, measure, no.needs)
                if key not in waits:
                    frees = kind_of(measure).frees
                    waits[key] = self._counting.frees_in_s(tenant, level, measure, no.needs, frees)
                after = waits[key]
            self._telemetry.count("ares_quota_refusals_total", 1, no.code)
            pending.outcome = replace(no, retry_after_s=after)

    # ---- writing

    def _value(self, number: int) -> bytes:
        return msgspec.json.encode(AdmissionRecord(by=f"{self._name}-{number}"))

    async def _write(
        self, tenant: str, pack: Sequence[_PendingAdmission], basis: _Basis, value: bytes, after: bytes | None
    ) -> Committed | Unknown | Full:
        admission, drafts = keys.admission(tenant), [pending.draft for pending in pack]
        compares = [Compare(keys.quota(tenant), "mod_revision", basis.quota)]
        ops: list[Op] = []
        if basis.record is not None:
            first = Compare(admission, "mod_revision", basis.admission)
            compares.append(first if after is None else Compare(admission, "value", after))
            ops.append(Put(admission, value))
        compares += [compare for draft in drafts for compare in draft.compares]
        ops += [op for draft in drafts for op in draft.ops]
        return await self._writer.until_known(compares, ops, [Get(draft.compares[0].key) for draft in drafts])

    async def _lost(self, lane: _Lane, pack: Sequence[_PendingAdmission], written: Committed) -> None:
        """Some were there already, or another replica admitted jobs of the tenant: look again from there."""
        for pending, kv in zip(pack, written.gets, strict=True):
            if kv is not None:
                pending.outcome = SeenRequest(kv)
        await self._view.reach(written.revision)
        lane.caught_up_at = self._clock.monotonic()
        for pending in pack:
            draft = pending.draft
            if pending.outcome is None and isinstance(draft, Draft):
                pending.outcome = self._parents.gone(draft.checked.who.tenant, draft.request, draft.spec)
        late = [pending for pending in pack if pending.outcome is None and self._clock.monotonic() >= pending.until]
        _settle((pending, _BUSY) for pending in late)


_BUSY = Refusal(
    code="store-unavailable",
    message="other jobs of the tenant were admitted all the time; nothing was written",
    fix="send the same request again",
    retry_after_s=1.0,
)


def _unwritten(written: Unknown | Full, draft: Draft | LiveChange) -> Refusal:
    if isinstance(draft, Draft):
        return unwritten(written, draft.request)
    if isinstance(written, Full):
        return FULL
    message = "the store did not answer, so the change was not acknowledged; it may have been made"
    return Refusal(
        code="store-unavailable", message=message, fix="look at the job and send it again", retry_after_s=1.0
    )


def _waiting(draft: Draft | LiveChange, until: float) -> _PendingAdmission:
    if isinstance(draft, LiveChange):
        return _PendingAdmission(draft, dict(draft.after), draft.levels, until, draft.before)
    seconds, cost = draft.estimated
    asked = draft.asked
    if asked is None:
        asked = times(to_come(asked_by(draft.spec), seconds, cost), draft.checked.tasks)
    return _PendingAdmission(draft, asked, levels_of(draft.spec.team, draft.checked.who.subject), until)


def _judged(basis: _Basis, pending: _PendingAdmission, used: Used, in_doubt: bool) -> WithinQuota | OverQuota:
    if basis.record is None:
        return WithinQuota()
    quota, draft = basis.record.quota, pending.draft
    if isinstance(draft, LiveChange):
        return _judged_change(quota, draft, used, in_doubt)
    no = above_ceiling(quota, pending.levels, draft.spec.priority)
    if no is not None and scope_of(draft.checked.who, "priority:exceed") is None:
        return no
    return judge(quota, pending.levels, used, pending.asked, in_doubt=in_doubt)


def _judged_change(quota: Quota, change: LiveChange, used: Used, in_doubt: bool) -> WithinQuota | OverQuota:
    if change.priority is not None:
        no = above_ceiling(quota, change.levels, change.priority)
        if no is not None and scope_of(change.who, "priority:exceed") is None:
            return no
    grown = change.grown

    def by_others(level: QuotaLevel) -> dict[str, int]:
        found = dict(used(level))
        add(found, change.before, -1)
        return found

    return judge(quota, change.levels, by_others, grown, in_doubt=in_doubt) if grown else WithinQuota()


def _settle(outcomes: Iterable[tuple[_PendingAdmission, Outcome]]) -> None:
    for pending, outcome in outcomes:
        pending.outcome = outcome


def _sums(pack: Sequence[_PendingAdmission]) -> _Sums:
    sums: _Sums = {}
    for pending in pack:
        for level in pending.levels:
            add(sums.setdefault(level, {}), pending.asked)
            add(sums[level], pending.has, -1)
    return sums
