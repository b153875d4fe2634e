"""Why jobs were left out: a closed list of codes, and who can do something about each."""

from typing import Literal

from ares.model.base import Record

ReasonCode = Literal[
    "NO_NODES", "NO_READY_NODES", "SELECTOR_MISMATCH",
    "INFEASIBLE_CPU", "INFEASIBLE_MEMORY", "INFEASIBLE_GPU", "INFEASIBLE_GPU_MODEL",
    "INSUFFICIENT_CPU", "INSUFFICIENT_MEMORY", "INSUFFICIENT_GPU",
]  # fmt: skip
# "yours": change the job. "wait": it will fit when others end. "operator": the cluster needs attention.
Remedy = Literal["yours", "wait", "operator"]

REMEDIES: dict[ReasonCode, Remedy] = {
    "NO_NODES": "operator",
    "NO_READY_NODES": "operator",
    "SELECTOR_MISMATCH": "yours",
    "INFEASIBLE_CPU": "yours",
    "INFEASIBLE_MEMORY": "yours",
    "INFEASIBLE_GPU": "yours",
    "INFEASIBLE_GPU_MODEL": "yours",
    "INSUFFICIENT_CPU": "wait",
    "INSUFFICIENT_MEMORY": "wait",
    "INSUFFICIENT_GPU": "wait",
}


class Reason(Record, frozen=True):
    """`numbers` hold the nearest miss: what is asked for, what the best node has, how many nodes came that far."""

    code: ReasonCode
    message: str
    numbers: dict[str, int] = {}

    @property
    def remedy(self) -> Remedy:
        return REMEDIES[self.code]
