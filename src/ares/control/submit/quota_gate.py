"""Admits jobs of tenants that have a quota: decided in the transaction that creates them.

What a tenant uses is what the view has, and what this replica admitted that the view has not shown yet. Every such
transaction writes the tenant's key under `/admissions/` and compares the revision it was decided from, and so knows all
admissions before it, through whichever replica they came. Jobs that have ended unseen only make it more careful, and
before anything is refused the view catches up.

A tenant has a few transactions under way at a time, each valid only after the one before it. Jobs submitted meanwhile
go together in the next one.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ares.control.governance.quota_usage import Counting
from ares.control.state.commit import Full, Pack, Writer, together
from ares.control.state.view import View
from ares.control.submit.draft import FULL, Draft, unwritten
from ares.control.submit.parents import ParentChecks
from ares.control.submit.pending_admissions import (
    AdmissionBasis,
    CreatedJob,
    LevelSums,
    LiveChange,
    Outcome,
    PendingAdmission,
    SeenRequest,
    judged,
    sums_of,
    waiting,
)
from ares.core import keys
from ares.core.federation.clusters import OVER
from ares.core.quota.counts import QuotaLevel
from ares.core.quota.judge import OverQuota
from ares.core.quota.measures import add, kind_of
from ares.core.refusal import Refusal
from ares.model.quota import AdmissionRecord
from ares.ports.clock import Clock, Rng
from ares.ports.store import Committed, Compare, Get, Op, Put, Unknown
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
_AMID_TRIES = 5

InUse = Callable[[QuotaLevel], dict[str, int]]


class AmidWrite(NamedTuple):
    """What is written between a tenant's admissions."""

    compares: tuple[Compare, ...]
    ops: tuple[Op, ...]


@dataclass(slots=True)
class _Lane:
    """Of one tenant."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: dict[PendingAdmission, None] = field(default_factory=dict["PendingAdmission", None])
    # Admitted here at a revision that the view has not reached.
    ahead: list[tuple[int, LevelSums]] = field(default_factory=list[tuple[int, "LevelSums"]])
    caught_up_at: float = float("-inf")
    # Transactions that may be under way at once: more while no other replica writes in between.
    depth: int = 1


class Admissions:
    def __init__(
        self, writer: Writer, view: View, counting: Counting, clock: Clock, rng: Rng, telemetry: Telemetry, epoch: int
    ) -> None:
        self._epoch = epoch
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
        return tenant in self._view.kept.quotas or tenant in self._view.kept.allowances

    @staticmethod
    def unlimited(tenant: str) -> Compare:
        """Holds as long as the tenant has no quota."""
        return Compare(keys.quota(tenant), "mod_revision", 0)

    # ---- tenants with one

    async def admit(self, tenant: str, drafts: Sequence[Draft | LiveChange]) -> list[Outcome]:
        """One outcome per draft, in order. Drafts were not written yet, or by this very call only."""
        lane, until = self._lanes.setdefault(tenant, _Lane()), self._clock.monotonic() + _RACING_S
        mine = [waiting(draft, until) for draft in drafts]
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
        self, tenant: str, lane: _Lane, packs: Sequence[list[PendingAdmission]], basis: AdmissionBasis
    ) -> bool:
        """Whether all were written: then those behind them were rightly refused."""
        # One transaction is only carried out if the one before it was, so they need not wait for each other's answer.
        self._made += len(packs)
        values = [self._value(self._made - len(packs) + n) for n in range(len(packs))]
        written = await together(
            [self._write(tenant, pack, basis, values[n], values[n - 1] if n else None) for n, pack in enumerate(packs)]
        )
        landed_at, whole = 0, True
        ahead: list[tuple[int, LevelSums]] = []
        for pack, outcome in zip(reversed(packs), reversed(written), strict=True):
            if isinstance(outcome, Committed) and outcome.succeeded:
                landed_at = landed_at or outcome.revision
            if landed_at and (isinstance(outcome, Unknown) or (isinstance(outcome, Committed) and outcome.succeeded)):
                ahead.append((landed_at if isinstance(outcome, Unknown) else outcome.revision, sums_of(pack)))
                _settle((each, CreatedJob(each.warnings)) for each in pack)
                continue
            whole = False
            if isinstance(outcome, Committed):
                await self._lost(lane, pack, outcome)
            else:
                _settle((each, _unwritten(outcome, each.draft)) for each in pack)
        if basis.limited:
            lane.ahead += reversed(ahead)
        lane.depth = min(_DEPTH_MAX, 2 * lane.depth) if whole else 1
        return whole

    async def _catch_up(self, lane: _Lane) -> None:
        at = self._clock.monotonic()
        await self._view.catch_up()
        lane.caught_up_at = at

    async def _basis(self, tenant: str, lane: _Lane) -> AdmissionBasis:
        admissions, quotas = self._view.kept.admissions, self._view.kept.quotas
        # After a listing the view may know of an admission and not of its job.
        while (seen := admissions.revisions.get(tenant, 0)) > self._view.revision:
            await self._view.reach(seen)
        lane.ahead = [sums for sums in lane.ahead if sums[0] > self._view.revision]
        own = lane.ahead[-1][0] if lane.ahead else 0
        record = quotas.get(tenant)
        unhealed = "" if record is None or not record.quota.lend else self._unhealed()
        allowance = self._view.kept.allowances.get(tenant)
        return AdmissionBasis(record, quotas.revisions.get(tenant, 0), max(seen, own), allowance, unhealed)

    def _unhealed(self) -> str:
        """A cluster that has not told yet what it was lent before this store was restored."""
        clusters = self._view.kept.clusters.values()
        return next((c.name for c in clusters if 0 < c.healed_in < self._epoch and c.state not in OVER), "")

    def _take(
        self, tenant: str, lane: _Lane, basis: AdmissionBasis
    ) -> tuple[list[list[PendingAdmission]], list[tuple[PendingAdmission, OverQuota]]]:
        """The first that fit, by transactions, and those refused on the way."""
        in_use, now = self._in_use(tenant, lane), self._clock.wall()
        packs, refused = list[list[PendingAdmission]](), list[tuple[PendingAdmission, OverQuota]]()
        pack: Pack[Draft | LiveChange] | None = None
        for pending in lane.waiting:
            if pending.outcome is not None:
                continue
            found = judged(basis, pending, in_use, tenant in self._counting.doubted, now)
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
            for level in pending.counted:
                add(in_use(level), pending.asked)
                add(in_use(level), pending.has, -1)
        return packs, refused

    def _in_use(self, tenant: str, lane: _Lane) -> InUse:
        """With what was admitted here and the view does not show yet. The sums may be added to."""
        used, held = self._counting.used(tenant), LevelSums()

        def in_use(level: QuotaLevel) -> dict[str, int]:
            if level not in held:
                held[level] = used(level)
                for _, sums in lane.ahead:
                    add(held[level], sums.get(level, {}))
            return held[level]

        return in_use

    async def amid(self, tenant: str, decide: Callable[[InUse], AmidWrite | None]) -> bool:
        """Writes what is no job and changes the tenant's room, decided from what all admissions before it have left.
        False when it is not certain to be written, or other admissions were quicker all the time."""
        lane = self._lanes.setdefault(tenant, _Lane())
        async with lane.lock:
            for _ in range(_AMID_TRIES):
                await self._catch_up(lane)
                basis = await self._basis(tenant, lane)
                wanted = decide(self._in_use(tenant, lane))
                if wanted is None:
                    return True
                self._made += 1
                admission = keys.admission(tenant)
                compares = [
                    Compare(keys.quota(tenant), "mod_revision", basis.quota),
                    Compare(admission, "mod_revision", basis.admission),
                    *wanted.compares,
                ]
                ops = [Put(admission, self._value(self._made)), *wanted.ops]
                written = await self._writer.until_known(compares, ops)
                if not isinstance(written, Committed):
                    return False
                await self._view.reach(written.revision)
                if written.succeeded:
                    return True
        return False

    def _surely(self, lane: _Lane, no: OverQuota) -> bool:
        """Whether no end of a job that the view has not shown yet can make room: by far too much is in use."""
        if no.code == "priority-ceiling" or self._clock.monotonic() - lane.caught_up_at > _STALE_S:
            return no.code == "priority-ceiling"
        return any(
            level.exceeded and level.limit is not None and 1000 * (level.used + level.asked) > _FAR_MILLI * level.limit
            for level in no.levels
        )

    def _refuse(self, tenant: str, refused: Sequence[tuple[PendingAdmission, OverQuota]]) -> None:
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
        self, tenant: str, pack: Sequence[PendingAdmission], basis: AdmissionBasis, value: bytes, after: bytes | None
    ) -> Committed | Unknown | Full:
        admission, drafts = keys.admission(tenant), [pending.draft for pending in pack]
        compares = [Compare(keys.quota(tenant), "mod_revision", basis.quota)]
        ops: list[Op] = []
        if basis.limited:
            first = Compare(admission, "mod_revision", basis.admission)
            compares.append(first if after is None else Compare(admission, "value", after))
            ops.append(Put(admission, value))
        compares += [compare for draft in drafts for compare in draft.compares]
        ops += [op for draft in drafts for op in draft.ops]
        return await self._writer.until_known(compares, ops, [Get(draft.compares[0].key) for draft in drafts])

    async def _lost(self, lane: _Lane, pack: Sequence[PendingAdmission], written: Committed) -> None:
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


def _settle(outcomes: Iterable[tuple[PendingAdmission, Outcome]]) -> None:
    for pending, outcome in outcomes:
        pending.outcome = outcome
