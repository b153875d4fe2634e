"""Hard limits, beyond which an account cannot go."""

from typing import NamedTuple

from ares.core.queue.drf import RESOURCES, AccountHolding, Amounts
from ares.model.profile import ShareResource


class BrokenLimit(NamedTuple):
    """A hard limit that would be broken, and by how much. Units: thousandths of CPUs and GPUs, MiB of memory."""

    path: str
    resource: ShareResource
    asked: int
    used: int
    limit: int
    free: int


def hard(one: AccountHolding, asked: Amounts) -> BrokenLimit | None:
    """The first resource of which `one` would hold more than it may ever."""
    if not one.share.hard:
        return None
    for index, resource in enumerate(RESOURCES):
        limit = one.share.hard.get(resource)
        used, more = one.used[index], asked[index]
        if limit is not None and more > 0 and used + more > limit:
            return BrokenLimit(one.path, resource, more, used, limit, max(0, limit - used))
    return None
