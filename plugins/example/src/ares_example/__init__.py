"""One plugin of each kind. All are pure: what they say depends on what they are given, and on nothing else."""

from typing import TYPE_CHECKING

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.rule import Filter

if TYPE_CHECKING:
    from ares.core.capacity.node_slice import NodeSlice
    from ares.core.capacity.node_table import Bools, Floats
    from ares.core.capacity.rule import Miss
    from ares.core.queue.factors import JobFacts
    from ares.core.queue.shares import Shares
    from ares.core.schedule.trial import Trial
    from ares.model.profile import OrderPolicy

LABEL = "quarantine"


# ---- a filter: which nodes can take a job at all


def passes(rows: "NodeSlice") -> "Bools | None":
    """None: the question does not arise for this job."""
    if any(key == LABEL for key, _ in rows.ask.selector):
        return None
    return ~rows.label_present(LABEL)


def explain(miss: "Miss") -> Reason:
    """Called when no node passed; `miss.reached` are the rows that came as far as this filter."""
    count = len(miss.reached)
    message = f"{count} node{'s' if count > 1 else ''} in quarantine; the first is {miss.name(int(miss.reached[0]))}"
    return Reason(code="REFUSED_BY_PLUGIN", message=message, numbers={"nodes": count})


QUARANTINE = Filter(passes, explain, ("node joins", "node changes"))


# ---- a scorer: which of them is best, about 0 to 1


def even_racks(rows: "NodeSlice") -> "Floats":
    order = np.nan_to_num(rows.label_number("rack-order"), nan=1000.0)
    return 1.0 / (1.0 + np.maximum(order, 0.0))


# ---- an order factor: which job comes sooner, about 0 to 1


def oncall_first(facts: "JobFacts", _shares: "Shares", _order: "OrderPolicy", _now: float) -> float:
    """An account is "tenant/team/user"."""
    return 1.0 if facts.account.split("/")[1] == "oncall" else 0.0


# ---- an action: a step of the cycle, on what was decided so far


def one_at_a_time(trial: "Trial") -> None:
    """After `allocate`: what is left of its proposals is made again in the next cycle."""
    if len(trial.placed) > 1:
        del trial.placed[1:]
        trial.more = True
