"""What each filter may say, in the order in which nodes are asked."""

from ares.api.reasons import ReasonCode

CODES: dict[str, set[ReasonCode]] = {
    "selector": {"SELECTOR_MISMATCH"},
    "affinity": {"AFFINITY_UNMET"},
    "residency": {"RESIDENCY_UNMET"},
    "taints": {"TAINTED"},
    "gpus-declared": {"INFEASIBLE_GPU", "INFEASIBLE_GPU_MODEL"},
    "devices-declared": {"INFEASIBLE_DEVICE"},
    "health": {"NO_READY_NODES"},
    "job-affinity": {"JOB_AFFINITY_UNMET"},
    "gpus": {"INSUFFICIENT_GPU", "INFEASIBLE_GPU", "INSUFFICIENT_TOPOLOGY", "INFEASIBLE_TOPOLOGY"},
    "devices": {"INSUFFICIENT_DEVICE", "INFEASIBLE_DEVICE"},
    "cpu": {"INSUFFICIENT_CPU", "INFEASIBLE_CPU"},
    "memory": {"INSUFFICIENT_MEMORY", "INFEASIBLE_MEMORY"},
    "numa": {"INSUFFICIENT_NUMA", "INFEASIBLE_NUMA"},
}
