"""What of a tenant's quota the clusters of a federation are lent, so that they can admit jobs by themselves.

A cluster has a part of every limit beyond what its own jobs use, as long as the tenant's quota has room for it. What is
lent and not used counts as used wherever else the tenant submits. What is limited by the month is not lent: it would
never come back.
"""

from typing import Final

from msgspec.structs import replace

from ares.core.federation import escrow as rules
from ares.core.quota.asked import units_of
from ares.core.quota.counts import TENANT
from ares.core.quota.judge import OverQuota, bound, judge
from ares.core.quota.measures import AT_USE, Amounts, from_units, kind_of
from ares.model.cluster import Allowance, EscrowRecord
from ares.model.quota import Limit, Limits, Quota

# How long a cluster that is cut off may admit jobs against what it was lent, and when that is said anew.
LENT_S: Final = 24 * 3600.0
_RENEW_S: Final = LENT_S / 2
# At most this part of a limit is lent and not used, over all clusters: the global plane keeps the rest for itself.
_UNSPENT_PART: Final = 2


# ---- the global plane


def lendable(quota: Quota) -> dict[str, int]:
    """By measure that clusters are lent of, how much of it may be in use."""
    return {
        measure: bound(measure, limit.hard, quota.threshold)
        for measure, limit in quota.own.amounts.items()
        if limit.hard is not None and measure not in AT_USE and kind_of(measure).frees == "jobs"
    }


def kept_free(quota: Quota) -> dict[str, int]:
    """What a cluster is to have beyond what its jobs use: of what is counted in pieces, whole ones."""
    return {measure: _whole(measure, int(quota.lend * most)) for measure, most in lendable(quota).items()}


def unspent(escrow: EscrowRecord, spent: Amounts) -> dict[str, int]:
    """What is lent beyond what the cluster's own jobs are known to use: spoken for, whatever becomes of it."""
    return {
        measure: units - units_of(spent, measure)
        for measure, units in rules.lent(escrow).items()
        if units > units_of(spent, measure)
    }


def granted(
    quota: Quota, escrow: EscrowRecord, spent: Amounts, used: Amounts, idle: Amounts, now: float
) -> EscrowRecord:
    """With more where the cluster has little left. `spent`: what its own jobs use; `used`: all that counts as used by
    the tenant; `idle`: what is lent and not spent, over all clusters."""
    keep, more = kept_free(quota), dict[str, int]()
    left = unspent(escrow, spent)
    for measure, most in lendable(quota).items():
        has = left.get(measure, 0)
        # Not for every job that begins: only when half of it is gone.
        wants = keep[measure] - has if 2 * has < keep[measure] else 0
        room = min(most - units_of(used, measure), most // _UNSPENT_PART - units_of(idle, measure))
        more[measure] = _whole(measure, max(0, min(wants, room)))
    late = escrow.until - now < _RENEW_S
    if not late and not any(more.values()) and more.keys() <= escrow.granted.keys():
        return escrow
    return rules.grant(escrow, more, now + LENT_S if late else escrow.until)


def told(quota: Quota | None, escrow: EscrowRecord, said: EscrowRecord, *, rebuilds: bool) -> EscrowRecord:
    """With what the cluster says. More than it was granted it can only have of a store that was forgotten since, and
    never more than the tenant's limits; it cannot give back what it was not granted."""
    grants = dict(escrow.granted)
    if rebuilds and quota is not None:
        most = lendable(quota)
        for measure, units in said.granted.items():
            lost = min(units, said.released.get(measure, 0) + most.get(measure, 0))
            grants[measure] = max(grants.get(measure, 0), lost)
    released = {
        measure: min(max(escrow.released.get(measure, 0), said.released.get(measure, 0)), units)
        for measure, units in grants.items()
    }
    if grants == escrow.granted and all(units == escrow.released.get(m, 0) for m, units in released.items()):
        return escrow
    return replace(escrow, granted=grants, released=released)


# ---- a cluster


def surplus_returned(allowance: Allowance, used: Amounts) -> Allowance:
    """Without what its jobs do not use and it need not keep. It is durable here before the global plane hears of it."""
    keep = {measure: allowance.keep.get(measure, 0) for measure in allowance.escrow.granted}
    idle = unspent(allowance.escrow, used)
    if not any(units > 2 * keep[measure] for measure, units in idle.items()):
        return allowance
    stays = {measure: units_of(used, measure) + keep[measure] for measure in keep}
    return replace(allowance, escrow=rules.give_back(allowance.escrow, stays))


def over_allowance(allowance: Allowance, used: Amounts, asked: Amounts, now: float) -> OverQuota | None:
    """Why the cluster cannot admit this by itself; None when it can. `used` by what it has admitted itself; `now` by
    wall clock: it only ever refuses."""
    if not any(units_of(asked, measure) for measure in allowance.measures):
        return None
    fix = f"submit it at the global plane, or have more lent there: `ares quota set {allowance.tenant} lend=PART`"
    if now >= allowance.escrow.until:
        message = "what the global plane has lent this cluster of the tenant's quota is not good any more"
        return OverQuota(code="quota-exceeded", message=message, fix=fix, reason="quota", worst=(TENANT, "jobs"))
    lent = rules.lent(allowance.escrow)
    limits = {measure: Limit(hard=from_units(measure, lent.get(measure, 0))) for measure in allowance.measures}
    found = judge(Quota(own=Limits(amounts=limits), threshold=1.0), (TENANT,), lambda _: used, asked)
    if not isinstance(found, OverQuota):
        return None
    message = f"by what the global plane has lent this cluster, {found.message}"
    # More may be lent at any time.
    return replace(found, code="quota-exceeded", message=message, fix=f"wait until jobs end here, {fix}")


def _whole(measure: str, units: int) -> int:
    kind = kind_of(measure)
    return units - units % kind.units if kind.whole else units
