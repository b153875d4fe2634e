"""Why jobs were left out: a closed list of codes, and who can do something about each."""

from typing import Literal

from ares.model.base import Record

ReasonCode = Literal[
    "NO_NODES", "NO_READY_NODES", "SELECTOR_MISMATCH", "AFFINITY_UNMET", "JOB_AFFINITY_UNMET", "RESIDENCY_UNMET",
    "TAINTED", "ISOLATION_UNMET", "SPOT_ONLY", "HARD_LIMIT", "ARRAY_THROTTLE", "POWER_CAP", "REFUSED_BY_PLUGIN",
    "INFEASIBLE_CPU", "INFEASIBLE_MEMORY", "INFEASIBLE_GPU", "INFEASIBLE_GPU_MODEL", "INFEASIBLE_DEVICE",
    "INFEASIBLE_LICENCE", "INFEASIBLE_NUMA", "INFEASIBLE_TOPOLOGY", "INFEASIBLE_GANG", "INFEASIBLE_LIMIT",
    "INFEASIBLE_POWER",
    "INSUFFICIENT_CPU", "INSUFFICIENT_MEMORY", "INSUFFICIENT_GPU", "INSUFFICIENT_DEVICE", "INSUFFICIENT_LICENCE",
    "INSUFFICIENT_NUMA", "INSUFFICIENT_TOPOLOGY", "INSUFFICIENT_GANG",
    "HELD_BACK", "RESERVED", "RESERVATION_PLANNED", "RESERVATION_FULL", "RESERVATION_ENDING",
    "WAITING_FOR_EVICTION", "WAITING_FOR_FASTER", "NEXT_CYCLE",
    "RETRIES_PAUSED",
    "HELD", "BEGIN_AT", "WAITING_FOR_JOB", "WAITING_FOR_FLOW", "WAITING_FOR_DATA", "STORAGE_PAUSED",
    "IN_CLUSTER", "NO_CLUSTER",
]  # fmt: skip
# "yours": change the job. "wait": it will fit when others end. "operator": the cluster needs attention.
Remedy = Literal["yours", "wait", "operator"]

REMEDIES: dict[ReasonCode, Remedy] = {
    "NO_NODES": "operator",
    "NO_READY_NODES": "operator",
    "SELECTOR_MISMATCH": "yours",
    "AFFINITY_UNMET": "yours",
    "JOB_AFFINITY_UNMET": "wait",
    "RESIDENCY_UNMET": "yours",
    "TAINTED": "yours",
    "ISOLATION_UNMET": "operator",
    "SPOT_ONLY": "yours",
    "HARD_LIMIT": "wait",
    "ARRAY_THROTTLE": "wait",
    "POWER_CAP": "wait",
    "REFUSED_BY_PLUGIN": "operator",
    "INFEASIBLE_CPU": "yours",
    "INFEASIBLE_MEMORY": "yours",
    "INFEASIBLE_GPU": "yours",
    "INFEASIBLE_GPU_MODEL": "yours",
    "INFEASIBLE_DEVICE": "yours",
    "INFEASIBLE_LICENCE": "yours",
    "INFEASIBLE_NUMA": "yours",
    "INFEASIBLE_TOPOLOGY": "yours",
    "INFEASIBLE_GANG": "yours",
    "INFEASIBLE_LIMIT": "yours",
    "INFEASIBLE_POWER": "yours",
    "INSUFFICIENT_CPU": "wait",
    "INSUFFICIENT_MEMORY": "wait",
    "INSUFFICIENT_GPU": "wait",
    "INSUFFICIENT_DEVICE": "wait",
    "INSUFFICIENT_LICENCE": "wait",
    "INSUFFICIENT_NUMA": "wait",
    "INSUFFICIENT_TOPOLOGY": "wait",
    "INSUFFICIENT_GANG": "wait",
    "HELD_BACK": "wait",
    "RESERVED": "wait",
    "RESERVATION_PLANNED": "wait",
    "RESERVATION_FULL": "wait",
    "RESERVATION_ENDING": "wait",
    "WAITING_FOR_EVICTION": "wait",
    "WAITING_FOR_FASTER": "wait",
    "NEXT_CYCLE": "wait",
    "RETRIES_PAUSED": "yours",
    "HELD": "yours",
    "BEGIN_AT": "wait",
    "WAITING_FOR_JOB": "wait",
    "WAITING_FOR_FLOW": "wait",
    "STORAGE_PAUSED": "operator",
    "WAITING_FOR_DATA": "wait",
    "IN_CLUSTER": "wait",
    "NO_CLUSTER": "operator",
}


class Reason(Record, frozen=True):
    """`numbers` hold the nearest miss: what is asked for, what the best node has, how many nodes came that far."""

    code: ReasonCode
    message: str
    numbers: dict[str, int] = {}

    @property
    def remedy(self) -> Remedy:
        return REMEDIES[self.code]
