"""What waits to be admitted of a tenant that has a quota, and whether it fits: by the tenant's own limits, and in a
cluster of a federation by what the cluster was lent of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ares.control.state.commit import WriteDraft
from ares.control.submit.draft import Draft
from ares.core.access.table import scope_of
from ares.core.quota.asked import asked_by
from ares.core.quota.counts import TENANT, QuotaLevel, counted_for, levels_of, place_of, to_come
from ares.core.quota.judge import OverQuota, Used, WithinQuota, above_ceiling, judge
from ares.core.quota.lending import over_allowance
from ares.core.quota.measures import Amounts, add, times
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.cluster import Allowance
from ares.model.job import Priority
from ares.model.quota import Quota, QuotaRecord
from ares.ports.store import KV


class CreatedJob(NamedTuple):
    """Written."""

    soft_limits: tuple[str, ...] = ()


class SeenRequest(NamedTuple):
    """Its request id, or the job itself, was there already."""

    kv: KV


Outcome = CreatedJob | SeenRequest | Refusal
LevelSums = dict[QuotaLevel, dict[str, int]]


class AdmissionBasis(NamedTuple):
    """What a decision was made from; it holds as long as the two revisions do, for the allowance changes with the
    second."""

    record: QuotaRecord | None
    quota: int
    admission: int
    allowance: Allowance | None = None
    # A cluster that may have been lent something that a restored store has forgotten.
    unhealed: str = ""

    @property
    def limited(self) -> bool:
        return self.record is not None or self.allowance is not None


class LiveChange(WriteDraft, frozen=True, gc=False):
    """A live job that is to ask for something else: its first compare is that of its record.

    `before` and `after` are all it counts with; `priority` is set when it is to have another one."""

    who: Principal
    levels: tuple[QuotaLevel, ...]
    # The levels, and the place that it counts for.
    counted: tuple[QuotaLevel, ...]
    before: Amounts
    after: Amounts
    priority: Priority | None

    @property
    def grown(self) -> dict[str, int]:
        """What it asks for more of. What it asks for less of is taken whatever the limits are by now."""
        return {measure: units for measure, units in self.after.items() if units > self.before.get(measure, 0)}


@dataclass(slots=True, eq=False)
class PendingAdmission:
    draft: Draft | LiveChange
    # What is asked for, and what of it the job has already.
    asked: dict[str, int]
    levels: tuple[QuotaLevel, ...]
    counted: tuple[QuotaLevel, ...]
    until: float
    has: Amounts = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()
    outcome: Outcome | None = None


def waiting(draft: Draft | LiveChange, until: float) -> PendingAdmission:
    if isinstance(draft, LiveChange):
        return PendingAdmission(draft, dict(draft.after), draft.levels, draft.counted, until, draft.before)
    seconds, cost = draft.estimated
    asked = draft.asked
    if asked is None:
        asked = times(to_come(asked_by(draft.spec), seconds, cost), draft.checked.tasks)
    team, user = draft.spec.team, draft.checked.who.subject
    return PendingAdmission(draft, asked, levels_of(team, user), counted_for(draft.job, team, user), until)


def judged(
    basis: AdmissionBasis, pending: PendingAdmission, used: Used, in_doubt: bool, now: float
) -> WithinQuota | OverQuota:
    """By the tenant's own limits, and by what the global plane has lent this cluster of them. `now` by wall clock."""
    found = _by_limits(basis, pending, used, in_doubt)
    code = next((level.name for level in pending.counted if level.kind == "tenant" and level.name), "")
    if isinstance(found, OverQuota) or basis.allowance is None or not code:
        return found
    held = dict(used(place_of(code)))
    add(held, pending.has, -1)
    change = pending.draft.grown if isinstance(pending.draft, LiveChange) else pending.asked
    return over_allowance(basis.allowance, held, change, now) or found


def _by_limits(basis: AdmissionBasis, pending: PendingAdmission, used: Used, in_doubt: bool) -> WithinQuota | OverQuota:
    if basis.record is None:
        return WithinQuota()
    quota, draft = basis.record.quota, pending.draft
    if basis.unhealed:
        return _forgotten(basis.unhealed)
    if isinstance(draft, LiveChange):
        return _judged_change(quota, draft, used, in_doubt)
    no = above_ceiling(quota, pending.levels, draft.spec.priority)
    if no is not None and scope_of(draft.checked.who, "priority:exceed") is None:
        return no
    return judge(quota, pending.levels, used, pending.asked, in_doubt=in_doubt)


def _forgotten(cluster: str) -> OverQuota:
    message = (
        f"this store was restored, and cluster {cluster} may have been lent a part of the tenant's quota that the "
        "backup does not know of"
    )
    fix = f"wait until cluster {cluster} is back, or declare it dead: `ares cluster declare-dead {cluster}`"
    return OverQuota(code="quota-exceeded", message=message, fix=fix, reason="quota", worst=(TENANT, "jobs"))


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


def sums_of(pack: Sequence[PendingAdmission]) -> LevelSums:
    sums: LevelSums = {}
    for pending in pack:
        for level in pending.counted:
            add(sums.setdefault(level, {}), pending.asked)
            add(sums[level], pending.has, -1)
    return sums
