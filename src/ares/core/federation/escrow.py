"""Quota that is lent to clusters, so that they can admit jobs while they are cut off.

`granted` is written by the global plane alone and `released` by the cluster alone; both only grow. The global plane
counts what it granted less what it has heard to be released, the cluster spends what it has heard to be granted less
what it released: a message that is lost, repeated or late makes either side see too little room, never too much. Time
returns nothing: past `until` the cluster starts nothing new, and what it was lent stays spoken for until it is
released, or the cluster is declared dead.
"""

from collections.abc import Iterable, Mapping

from ares.model.cluster import EscrowRecord

Units = Mapping[str, int]


def lent(escrow: EscrowRecord) -> dict[str, int]:
    """What counts as used in the tenant's admission, whatever the cluster has made of it."""
    return {
        measure: units - escrow.released.get(measure, 0)
        for measure, units in escrow.granted.items()
        if units > escrow.released.get(measure, 0)
    }


def grant(escrow: EscrowRecord, more: Units, until: float) -> EscrowRecord:
    """Lends more, or the same for longer. The caller has found room for it by `room`, in the same transaction."""
    granted = {measure: escrow.granted.get(measure, 0) + more.get(measure, 0) for measure in {**escrow.granted, **more}}
    return EscrowRecord(granted=granted, released=escrow.released, until=max(escrow.until, until))


def room(limits: Units, used: Units, escrows: Iterable[EscrowRecord]) -> dict[str, int]:
    """What of the quota is neither used by jobs of the global plane nor lent: by measure, never below zero."""
    free = {measure: limit - used.get(measure, 0) for measure, limit in limits.items()}
    for escrow in escrows:
        for measure, units in lent(escrow).items():
            if measure in free:
                free[measure] -= units
    return {measure: max(0, units) for measure, units in free.items()}


def heard(mine: EscrowRecord, granted: Units, released: Units, until: float) -> EscrowRecord:
    """Either side, with what the other side said: the greater of each amount. The order of messages does not matter."""
    return EscrowRecord(
        granted=_greater(mine.granted, granted),
        released=_greater(mine.released, released),
        until=max(mine.until, until),
    )


# ---- the cluster


def admits(allowance: EscrowRecord, used: Units, asked: Units, now: float) -> bool:
    """Whether a local job fits beside the local jobs that live. `now` by wall clock: it only ever refuses."""
    left = lent(allowance)
    return now < allowance.until and all(
        used.get(measure, 0) + units <= left.get(measure, 0) for measure, units in asked.items()
    )


def give_back(allowance: EscrowRecord, used: Units) -> EscrowRecord:
    """Everything that no local job uses. It is durable here before the global plane hears of it."""
    released = {
        measure: granted - min(used.get(measure, 0), granted - allowance.released.get(measure, 0))
        for measure, granted in allowance.granted.items()
    }
    return EscrowRecord(
        granted=allowance.granted, released=_greater(allowance.released, released), until=allowance.until
    )


def _greater(left: Units, right: Units) -> dict[str, int]:
    return {measure: max(left.get(measure, 0), right.get(measure, 0)) for measure in sorted({*left, *right})}
