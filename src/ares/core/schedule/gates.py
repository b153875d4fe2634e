"""What stands in a job's way whatever the nodes are like: licences that are out, limits that are reached."""

from ares.core.queue.limits import BrokenLimit
from ares.core.reasons import Reason

_UNITS = {"cpu": ("CPUs", 1000), "gpu": ("GPUs", 1000), "memory": ("MiB of memory", 1)}


def no_licence(name: str, count: int, used: int, total: int) -> Reason:
    numbers = {"asked": count, "free": max(0, total - used), "total": total}
    if count > total:
        message = f"needs {count} of licence {name}; the cluster has {total}"
        return Reason(code="INFEASIBLE_LICENCE", message=message, numbers=numbers)
    message = f"needs {count} of licence {name}; {max(0, total - used)} of {total} are free"
    return Reason(code="INSUFFICIENT_LICENCE", message=message, numbers=numbers)


def over_limit(limit: BrokenLimit) -> Reason:
    unit, parts = _UNITS[limit.resource]
    numbers = {"asked": limit.asked, "free": max(0, limit.free), "total": limit.limit}
    asked, used, total = (f"{value / parts:,g}" for value in (limit.asked, limit.used, limit.limit))
    if limit.asked > limit.limit:
        message = f"needs {asked} {unit}; {limit.path} may never have more than {total}"
        return Reason(code="INFEASIBLE_LIMIT", message=message, numbers=numbers)
    message = f"needs {asked} {unit}; {limit.path} has {used} of the {total} it may have"
    return Reason(code="HARD_LIMIT", message=message, numbers=numbers)
