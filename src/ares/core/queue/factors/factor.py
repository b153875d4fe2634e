"""What an order factor is: one reason why a job should come sooner."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
    # What its service counts, where it saves its work.
    served_s: float = 0.0

    @property
    def width(self) -> float:
        """How many GPUs the job asks for in all, or CPUs where it asks for none."""
        return (self.ask.gpus_milli or self.ask.cpu_milli) * self.ask.ranks / 1000


# The last argument is the time. About 0 to 1, larger is sooner; placing a job must never raise it.
Factor = Callable[[JobFacts, Shares, OrderPolicy, float], float]


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class ClassFacts(NamedTuple):
    """The same of the first job of many classes, as columns."""

    level: Ints
    submitted_at: Floats
    # Not a number: it has no deadline.
    latest_start: Floats
    # Places in `accounts`.
    account: Ints
    accounts: list[str]
    # CPU and GPU thousandths and MiB of one rank: a row for each. And how many ranks.
    amounts: Floats
    ranks: Floats
    served_s: Floats

    def by_account(self, of: Callable[[str], float]) -> Floats:
        return np.array([of(account) for account in self.accounts])[self.account]


# What a factor says of many jobs at once, but for rounding.
FactorEach = Callable[[ClassFacts, Shares, OrderPolicy, float], Floats | float]
