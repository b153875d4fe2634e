"""What an order factor is: one reason why a job should come sooner."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from ares.core.ask import Ask
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy


class JobFacts(NamedTuple):
    """What a factor may look at, of one waiting job."""

    # 0 is CRITICAL, 4 is BEST_EFFORT.
    level: int
    submitted_at: float
    # Started later, the job misses its deadline. None: it has no deadline.
    latest_start: float | None
    # "tenant/team/user".
    account: str
    # How long the job will run, as far as is known.
    runs_s: float = inf
    ask: Ask = Ask()

    @property
    def width(self) -> float:
        """How many GPUs the job asks for in all, or CPUs where it asks for none."""
        return (self.ask.gpus_milli or self.ask.cpu_milli) * self.ask.ranks / 1000


# The last argument is the time. About 0 to 1, larger is sooner; placing a job must never raise it.
Factor = Callable[[JobFacts, Shares, OrderPolicy, float], float]
