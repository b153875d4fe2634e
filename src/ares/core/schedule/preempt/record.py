"""What both sides of an eviction are told: the asker, the victims, the rule, and the cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ares.core.capacity.holding import Holding
from ares.core.queue.waiting import ClassKey
from ares.core.schedule.preempt.holders import CPUS_PER_GPU
from ares.core.schedule.preempt.victims import Victims
from ares.model.job import PRIORITIES
from ares.model.state import Placement

if TYPE_CHECKING:
    from ares.core.schedule.trial import Trial

_WHY: dict[str, str] = {
    "shrink": "given up by elastic gangs",
    "priority": "to make room for a more important job",
    "reclaim": "taken back by those who lent it",
    "service": "to let a job run that has had less service",
    "consolidate": "moved so that room lies together",
    "drain": "moved because its node is being emptied",
    "reservation-ends": "ended with the reservation it ran in",
    "reserved": "moved because its place is booked by a reservation",
    "gap": "ended with the gap it ran in",
}


def eviction_reason(rule: str, gone: Sequence[Holding], hold: tuple[Placement, ...], lost_gpu_s: float) -> str:
    nodes = sorted({place.node for place in hold})
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    jobs = f"{len(gone)} job{'' if len(gone) == 1 else 's'}"
    return f"waits for {jobs} to leave {where}, {_WHY[rule]}; {lost_gpu_s:,.0f} GPU-seconds of work are repeated"


def eviction_record(
    rule: str,
    trial: "Trial",
    job: str,
    key: ClassKey,
    gone: Sequence[Holding],
    victims: Victims,
) -> dict[str, Any]:
    asked = key.asks[0]
    return {
        "rule": rule,
        "why": _WHY[rule],
        "for": {
            "job": job,
            "tenant": key.account.split("/")[0],
            "priority": PRIORITIES[key.level],
            "gpus": asked.gpus_milli * asked.min_ranks / 1000,
            "share": trial.shares.dominant(key.account),
        },
        "victims": [
            {
                "job": holding.job,
                "tenant": holding.tenant,
                "priority": PRIORITIES[holding.level],
                "gpus": holding.held.gpu_milli / 1000,
                "ranS": round_s(trial.now - holding.since),
                "lostGpuS": round_s(_lost(holding, trial.now)),
                "share": trial.shares.dominant(holding.account),
            }
            for holding in gone
        ],
        "lostGpuS": victims.lost_gpu_s,
        "evictedGpus": victims.evicted_gpus_milli / 1000,
        "proven": victims.exact,
    }


def moved_record(rule: str, by: str, holding: Holding, now: float, to: tuple[Placement, ...] = ()) -> dict[str, Any]:
    """What a job that an operator moves is told. No other job is in it."""
    record: dict[str, Any] = {
        "rule": rule,
        "why": _WHY[rule],
        "for": {"operator": by},
        "victims": [
            {
                "job": holding.job,
                "tenant": holding.tenant,
                "priority": PRIORITIES[holding.level],
                "gpus": holding.held.gpu_milli / 1000,
                "ranS": round_s(now - holding.since),
                "lostGpuS": round_s(_lost(holding, now)),
            }
        ],
        "lostGpuS": round_s(_lost(holding, now)),
        "evictedGpus": holding.held.gpu_milli / 1000,
    }
    return {**record, "to": sorted({place.node for place in to})} if to else record


def _lost(holding: Holding, now: float) -> float:
    milli = holding.held.gpu_milli or holding.held.cpu_milli / CPUS_PER_GPU
    return milli / 1000 * max(0.0, now - holding.since)


def round_s(seconds: float) -> float:
    return round(seconds, 1)


def seen_by(record: dict[str, Any], tenant: str) -> dict[str, Any]:
    """The record without the names of other tenants and their jobs."""
    mine = [victim for victim in record["victims"] if victim["tenant"] == tenant]
    others = len(record["victims"]) - len(mine)
    asker = record["for"]
    if asker["tenant"] != tenant:
        asker = {key: value for key, value in asker.items() if key not in ("job", "tenant")} | {"tenant": "another"}
    shown = {**record, "for": asker, "victims": mine}
    return {**shown, "victimsOfOthers": others} if others else shown
