"""Filters: which nodes can take a job at all. One question and one file each, named in a profile."""

from ares.core.capacity.rule import Filter
from ares.core.schedule.filters import (
    affinity,
    cpu,
    devices,
    devices_declared,
    gpus,
    gpus_declared,
    health,
    job_affinity,
    memory,
    numa,
    residency,
    selector,
    taints,
)

FILTERS: dict[str, Filter] = {
    "selector": selector.FILTER,
    "affinity": affinity.FILTER,
    "residency": residency.FILTER,
    "taints": taints.FILTER,
    "gpus-declared": gpus_declared.FILTER,
    "devices-declared": devices_declared.FILTER,
    "health": health.FILTER,
    "job-affinity": job_affinity.FILTER,
    "gpus": gpus.FILTER,
    "devices": devices.FILTER,
    "cpu": cpu.FILTER,
    "memory": memory.FILTER,
    "numa": numa.FILTER,
}
# What they say about a row changes with what is taken from it in no other way than `fit.room` counts.
BUILT_IN = frozenset(FILTERS) | {"isolation", "pods"}
