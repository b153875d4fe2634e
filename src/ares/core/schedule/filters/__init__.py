"""Filters: which nodes can take a job of a class at all. One file each, named in a profile."""

from ares.core.schedule.filters import cpu, gpus, health, memory, selector
from ares.core.schedule.filters.filter import Filter

FILTERS: dict[str, Filter] = {
    "cpu": cpu.FILTER,
    "gpus": gpus.FILTER,
    "health": health.FILTER,
    "memory": memory.FILTER,
    "selector": selector.FILTER,
}
