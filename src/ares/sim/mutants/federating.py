"""Bugs of a federation: each is one that a reader could have written, and that a shipped one has had."""

from ares.core.federation import healing, owners, possession
from ares.model.cluster import EscrowRecord, Owner, Possession
from ares.sim.federation.letters import ReportLetter
from ares.sim.federation.plane import SimulatedPlane
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import entry, replace


def _start_on_accept(held: Possession) -> bool:
    return held.taken is not None and held.taken.stage != "STOPPING"


def _any_epoch(owner: Owner, cluster: str, epoch: int) -> bool:
    return bool(cluster) and epoch > 0 and owner.stage == "CONFIRMED"


def _by_wall_clock(_self: SimulatedPlane, letter: ReportLetter, known: ReportLetter | None) -> bool:
    return known is None or letter.wall > known.wall


def _expired(self: SimulatedPlane, tenant: str) -> list[EscrowRecord]:
    records = (record for place, record in self.store.escrow.items() if place[0] == tenant)
    return [record for record in records if record.until > self.clock.now]


def _never_fences(renewal_sent_at: float, now: float, lease_s: float) -> bool:
    # When the global plane gives the job away, instead of before.
    return now - renewal_sent_at >= 1.5 * lease_s


MUTANTS: dict[str, Mutant] = {
    "start-on-accept": Mutant(
        "a cluster starts a job when it has accepted it, without the confirmation",
        ("F2", "F3"), replace(possession, "startable", _start_on_accept), seeds=50, federation=True,
    ),
    "epoch-not-compared": Mutant(
        "the result of a cluster counts, whichever epoch it carries",
        ("F5",), replace(owners, "carries", _any_epoch), seeds=200, federation=True,
        case="a late result of another owner",
    ),
    "report-by-wall-clock": Mutant(
        "of two reports of a cluster the one with the later time of day is kept",
        ("F11",), replace(SimulatedPlane, "_supersedes", _by_wall_clock), seeds=50, federation=True,
    ),
    "not-found-is-gone": Mutant(
        "a job that its cluster does not list is taken for lost, and given to another",
        ("F6",), entry(healing.HEALING, ("owner", "nothing"), "lost"), seeds=200, federation=True,
    ),
    "escrow-expires": Mutant(
        "what a cluster has not spent of its allowance comes back when its time is over",
        ("F7",), replace(SimulatedPlane, "_lent", _expired), seeds=200, federation=True,
    ),
    "fence-when-it-moves": Mutant(
        "a cluster ends a job that moves only when its lease is over, and not before",
        ("F3",), replace(owners, "must_fence", _never_fences), seeds=200, federation=True,
    ),
}  # fmt: skip
