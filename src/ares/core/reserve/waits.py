"""Why a job waits because of booked room: of its own reservation, or of another."""

from math import inf

from ares.api.reasons import Reason
from ares.core.capacity.bookings import claims_of
from ares.core.capacity.claims import Claim
from ares.core.capacity.node_table import WHOLE
from ares.core.explain.why import infeasible
from ares.core.queue.waiting import ClassKey
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.trial import Trial
from ares.core.text import clock, count, span
from ares.model.reservation import Reservation


def waits_within(cluster: Cluster, key: ClassKey, now: float) -> Reason | None:
    """Why a job with a reservation waits: it has not begun, or is full. None without a reservation, or when it fits."""
    own = cluster.booked(key.asks[0].reservation, now)
    if own is None:
        return None
    if own.start > now:
        left_s = own.start - now
        message = f"its reservation {own.name} begins at {clock(own.start, now)}, in {span(left_s)}"
        return Reason(code="RESERVATION_PLANNED", message=message, numbers={"beginsInS": int(left_s)})
    if cluster.closing(key.asks[0], now) is not None:
        left_s = own.until - now
        message = (
            f"its reservation {own.name} ends in {span(left_s)}, too soon to start in it; then it may run anywhere"
        )
        return Reason(code="RESERVATION_ENDING", message=message, numbers={"endsInS": int(left_s)})
    if infeasible(cluster, key, now) or _fits(cluster, key, inf, now, list(claims_of(cluster, now))):
        return None
    return _full(cluster, key, own, now)


def _full(cluster: Cluster, key: ClassKey, own: Reservation, now: float) -> Reason:
    ask = key.asks[0]
    claim = next((claim for claim in claims_of(cluster, now) if claim.owner == own.name), None)
    gpus, cpu = (0, 0) if claim is None else _free(cluster, claim)
    if ask.gpus:
        asked, free, booked, what = ask.min_ranks * ask.gpus, gpus, own.gpus, "GPUs"
    else:
        asked, free, booked, what = ask.min_ranks * ask.cpu_milli / 1000, cpu / 1000, own.cpu_milli / 1000, "CPUs"
    each = f"{ask.min_ranks} x {asked / ask.min_ranks:g}" if ask.ranks > 1 else f"{asked:g}"
    message = f"asks for {each} {what}; of the {booked:g} of its reservation {own.name} {free:g} are free now"
    return Reason(code="RESERVATION_FULL", message=message, numbers={"asked": int(asked), "free": int(free)})


def held_for(cluster: Cluster, key: ClassKey, runs_s: float, now: float) -> Reason | None:
    """Why a job waits for room that is booked by other reservations. None when that is not why it waits."""
    claims = list(claims_of(cluster, now))
    if not claims or cluster.booked(key.asks[0].reservation, now) is not None:
        return None
    if _fits(cluster, key, runs_s, now, claims) or not _fits(cluster, key, runs_s, now, []):
        return None
    # Of several reservations, the first to begin that alone keeps the job out.
    by_start = sorted(claims, key=lambda claim: (claim.start, claim.owner))
    alone = (claim for claim in by_start if not _fits(cluster, key, runs_s, now, [claim]))
    return _reserved(cluster, key, next(alone, by_start[0]), now)


def _reserved(cluster: Cluster, key: ClassKey, claim: Claim, now: float) -> Reason:
    gpus, cpu = _free(cluster, claim)
    free = count(gpus, "GPU") if key.asks[0].gpus else count(cpu // 1000, "CPU")
    verb = "is" if free.startswith("1 ") else "are"
    tenant = key.account.split("/", 1)[0]
    mine = cluster.bookings[claim.owner].tenant == tenant
    whose = f"reservation {claim.owner}" if mine else "a reservation of another tenant"
    numbers = {"free": gpus if key.asks[0].gpus else cpu // 1000}
    if claim.start <= now:
        message = f"{free} {verb} free, held for {whose} until {clock(claim.until, now)}"
        return Reason(code="RESERVED", message=message, numbers=numbers | {"untilS": int(claim.until - now)})
    left_s = claim.start - now
    message = f"{free} {verb} free, held for {whose} from {clock(claim.start, now)}; a job of at most {span(left_s)}"
    return Reason(code="RESERVED", message=f"{message} would fit", numbers=numbers | {"fitsS": int(left_s)})


def _free(cluster: Cluster, claim: Claim) -> tuple[int, int]:
    """Whole GPUs and CPU thousandths that are booked and free."""
    table = cluster.table
    gpus = sum(
        table.gpu_left.item(allocation.row, gpu) == WHOLE for allocation in claim.taken for gpu in allocation.gpus
    )
    return gpus, sum(
        max(0, min(allocation.cpu_milli, table.cpu_free.item(allocation.row))) for allocation in claim.taken
    )


def _fits(cluster: Cluster, key: ClassKey, runs_s: float, now: float, claims: list[Claim]) -> bool:
    """Whether there is a place if only these claims existed."""
    with Trial.what_if(cluster, now) as trial:
        for owner in {claim.owner for claim in trial.claims.of.values()} - {claim.owner for claim in claims}:
            trial.claims.drop(owner)
        return trial.find(key, runs_s) is not None
