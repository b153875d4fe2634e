"""What filters and scorers are: which nodes pass, what to say when none does, and which of them is best."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools, Floats, Ints
from ares.model.node import NodeRecord

# What has to happen before a job that was refused can pass.
Wake = Literal["node joins", "node changes", "node ready", "job ends", "job starts", "profile changes"]


class Miss(NamedTuple):
    """No node passed: what the filter saw, and the rows it refused after all filters before it had passed them.

    `ever` is False when the nodes are as they are now, True when even empty and ready they do not pass.
    """

    seen: NodeSlice
    reached: Ints
    ever: bool

    @property
    def near(self) -> NodeSlice:
        """Only the rows that came this far: for questions where all rows would cost too much."""
        seen = self.seen
        return NodeSlice(seen.table, seen.ask, self.reached, seen.facts, seen.matching, seen.emptied)

    def nearest(self, column: Ints) -> int:
        """The row with the most of `column` among the rows that came this far; the lowest of equals."""
        return int(self.reached[int(column[self.reached].argmax())])

    def record(self, row: int) -> NodeRecord:
        record = self.seen.table.records[row]
        assert record is not None, f"row {row} was considered and has no node"
        return record

    def name(self, row: int) -> str:
        return self.record(row).info.name


Explain = Callable[[Miss], Reason]

# About 0..1 for rows that can take the ask, larger is better; None when it makes no difference between any rows.
# What it says about a row must depend on that row, the ask and `NodeSlice.facts` only; `locality` also on what other
# nodes are, and `affinity` of an ask with `near` on which jobs run elsewhere.
Scorer = Callable[[NodeSlice], Floats | None]


class SingleRow(NamedTuple):
    """A row as plain numbers: what is free of it, and the shares of its CPU, memory and GPUs left after one rank."""

    row: int
    cpu_free: int
    gpu_idle_milli: int
    # GPUs that are wholly free, and all of them.
    gpus_whole: int
    gpu_count: int
    cpu_left: float
    memory_left: float
    gpus_left: float
    # What is left of the GPU that a share would go to.
    tightest: int = 1000


class Filter(NamedTuple):
    """`passes` is None when the question does not arise for the ask. It may look at one row at a time only:
    what it says about a row must not depend on other rows, unless the filter is `across`."""

    passes: Callable[[NodeSlice], Bools | None]
    explain: Explain
    wakes: tuple[Wake, ...]
    # Looks beyond the row: evaluated anew every time for asks it applies to.
    across: bool = False
    # Looks at what the node is, never at what is taken of it nor at whether it is ready.
    lasting: bool = False


def of_nodes(explain: Explain) -> Explain:
    """For an `explain` that can only speak of nodes: of a cluster without any there is one thing to say."""

    def explain_or_no_nodes(miss: Miss) -> Reason:
        if len(miss.reached) == 0:
            return Reason(code="NO_NODES", message="no node is registered", numbers={"nodes": 0})
        return explain(miss)

    return explain_or_no_nodes
