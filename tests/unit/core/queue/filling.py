"""Progressive filling: again and again a task for whoever has the least, by nothing but `Shares`."""

from collections.abc import Mapping

from ares.core.queue.drf import Amounts
from ares.core.queue.shares import Shares
from ares.core.queue.usage import DecayedUsage
from ares.model.profile import OrderPolicy, Share

ORDER = OrderPolicy()


def shares(capacity: Amounts, tree: Mapping[str, Share] | None = None) -> Shares:
    return Shares(capacity, tree or {}, DecayedUsage(ORDER.half_life_s), now=0.0)


def times(held: Amounts, count: int) -> Amounts:
    return Amounts(*(count * amount for amount in held))


def fill(
    capacity: Amounts,
    tasks: Mapping[str, Amounts],
    tree: Mapping[str, Share] | None = None,
    wanted: Mapping[str, int] | None = None,
) -> list[str]:
    """Who got a task, in order, until no task fits. Ties go to the account named first; `wanted` bounds the tasks."""
    tally = shares(capacity, tree)
    free = list(capacity)
    left = dict.fromkeys(tasks, 1_000_000) | dict(wanted or {})
    order: list[str] = []
    # What does not fit now never will: nothing is given back.
    waiting = list(tasks)
    while waiting:
        account = min(waiting, key=tally.dominant)
        task = tasks[account]
        if not left[account] or any(asked > some for asked, some in zip(task, free, strict=True)):
            waiting.remove(account)
            continue
        tally.take(account, task)
        free = [some - asked for asked, some in zip(task, free, strict=True)]
        left[account] -= 1
        order.append(account)
    return order
