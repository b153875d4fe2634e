"""A job before it is submitted: where it would run, which jobs it would displace, and what else could be had."""

from msgspec.structs import replace

from ares.api.decisions import Eta, Offer
from ares.core.energy import price_of
from ares.core.explain.why import infeasible
from ares.core.queue.waiting import ClassKey, JobClass
from ares.core.schedule.actions.evict import prospects
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Eviction
from ares.core.schedule.trial import Trial
from ares.core.starts.starts import SOON_S, Course, Starts, eta_of
from ares.core.steps import Steps, in_steps
from ares.model.job import JobSpec
from ares.model.profile import Pool
from ares.model.state import JobState, Placement

_PLAIN = Pool()


@in_steps
def offers(
    cluster: Cluster, state: JobState, spec: JobSpec, now: float, evicts: Eviction | None = None
) -> Steps[tuple[Offer, ...]]:
    """The job as it is, its alternatives, other GPU models and half the size, by start and then by price.

    The one for which `evicts` makes room does not wait for running jobs to end."""
    variants = _variants(cluster, spec)
    asked = (spec.resources, *spec.alternatives)
    displaces = None if evicts is None else replace(spec, resources=asked[evicts.alternative], alternatives=())
    # Before anything is looked at in steps: the victims are still there.
    made = [
        _displacing(cluster, words, evicts, now) if evicts is not None and variant == displaces else None
        for words, variant in variants
    ]
    starts = yield from Starts(cluster, now).steps(state, [variant for _, variant in variants])
    made = [
        there or _offer(cluster, cluster.waiting.key_of(state, variant), words, found, now)
        for there, (words, variant), found in zip(made, variants, starts, strict=True)
    ]
    ranked = sorted(((_sort_key(n, offer), offer) for n, offer in enumerate(made) if offer is not None), key=_first)
    return tuple(offer for _, offer in ranked)


def _first(ranked: tuple[tuple[bool, float, float, int], Offer]) -> tuple[bool, float, float, int]:
    return ranked[0]


def _sort_key(number: int, offer: Offer) -> tuple[bool, float, float, int]:
    latest = offer.starts.latest
    return latest is None, latest or offer.starts.earliest, offer.price_hour or 0.0, number


def would_evict(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Eviction | str:
    """The victims of the job if it were submitted now, or why there are none."""
    cluster.prepare()
    with Trial.what_if(cluster, now) as trial:
        return prospects(trial, state.id, JobClass(0, cluster.waiting.key_of(state, spec)))


def _variants(cluster: Cluster, spec: JobSpec) -> list[tuple[str, JobSpec]]:
    plain = replace(spec, alternatives=())
    found = [("as asked", plain)]
    others = [replace(plain, resources=wants) for wants in spec.alternatives]
    found += [(_size(other), other) for other in others]
    wants = spec.resources
    if wants.gpus:
        models = sorted(_models(cluster))
        found += [(f"on {model}", replace(plain, resources=replace(wants, gpu_model=model))) for model in models]
    if wants.gpus > 1:
        half = replace(plain, resources=replace(wants, gpus=wants.gpus // 2))
        found.append((f"with {wants.gpus // 2} GPU{'' if wants.gpus // 2 == 1 else 's'}", half))
    if spec.gang is not None and spec.gang.ranks > 1:
        ranks = spec.gang.ranks // 2
        smaller = replace(
            spec.gang, ranks=ranks, min_ranks=None if spec.gang.min_ranks is None else min(spec.gang.min_ranks, ranks)
        )
        found.append((f"with {ranks} rank{'' if ranks == 1 else 's'}", replace(plain, gang=smaller)))
    seen: list[JobSpec] = []
    distinct: list[tuple[str, JobSpec]] = []
    for words, variant in found:
        if variant not in seen:
            seen.append(variant)
            distinct.append((words, variant))
    return distinct


def _size(spec: JobSpec) -> str:
    wants = spec.resources
    gpus = f"{wants.gpus} x {wants.gpu_model or 'GPU'}" if wants.gpus else f"{wants.cpu_milli / 1000:g} CPUs"
    return f"alternative {gpus}"


def _models(cluster: Cluster) -> set[str]:
    records = [record for record in cluster.table.records if record is not None]
    return {gpu.model for record in records for gpu in record.info.gpus if not gpu.mig}


def _offer(cluster: Cluster, key: ClassKey, words: str, found: Course | str, now: float) -> Offer | None:
    """None when the job could never run."""
    if isinstance(found, str) and infeasible(cluster, key, now) is not None:
        return None
    placements = () if isinstance(found, str) else found.placements
    price = _price(cluster, placements) if placements else None
    return Offer(asked=words, starts=eta_of(found, now), price_hour=price, placements=placements)


def _displacing(cluster: Cluster, words: str, evicts: Eviction, now: float) -> Offer:
    """The job starts when the last victim has left, which may take as long as the victims are given."""
    count = len(evicts.victims)
    leave_s = max(cluster.holdings[job].leave_s for job in evicts.victims)
    who = "1 job is" if count == 1 else f"{count} jobs are"
    basis = f"{who} displaced and given up to {leave_s:g} s to save and stop"
    return Offer(
        asked=f"{words}, displacing {count} job{'' if count == 1 else 's'}",
        starts=Eta(earliest=now, latest=now + leave_s + SOON_S, basis=basis, computed_at=now),
        price_hour=_price(cluster, evicts.hold),
        placements=evicts.hold,
    )


def _price(cluster: Cluster, placements: tuple[Placement, ...]) -> float:
    rows = (cluster.rows.get(place.node) for place in placements)
    records = (None if row is None else cluster.table.records[row] for row in rows)
    pools = (_PLAIN if record is None else cluster.profile.pools.get(record.info.pool, _PLAIN) for record in records)
    return round(sum(price_of(place, pool) for place, pool in zip(placements, pools, strict=True)), 6)
