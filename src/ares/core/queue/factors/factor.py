"""What an order factor is: one reason why a job should come sooner."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from ares.core.ask import Ask
from ares.core.queue.drf import Amounts
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy


class JobFacts(NamedTuple):
    """What a factor may look at, of one waiting job."""

    # 0 is CRITICAL, 4 is BEST_EFFORT.
    level: int
    submitted_at: float
    # Started later, it misses its deadline. None: it has none.
    latest_start: float | None
    # "tenant/team/user".
    account: str
    # How long it will run, as far as is known.
    runs_s: float = inf
    ask: Ask = Ask()

    # On demand: every job that is ranked has them, and few factors look.

    @property
    def width(self) -> float:
        """How many GPUs it asks for in all, or CPUs where it asks for none."""
        return (self.ask.gpus_milli or self.ask.cpu_milli) * self.ask.ranks / 1000

    @property
    def asked(self) -> Amounts:
        """What it asks for in all."""
        ask = self.ask
        return Amounts(ask.cpu_milli * ask.ranks, ask.memory_mib * ask.ranks, ask.gpus_milli * ask.ranks)


# The last argument is the time. About 0 to 1, larger is sooner; what is taken must never raise it.
Factor = Callable[[JobFacts, Shares, OrderPolicy, float], float]
