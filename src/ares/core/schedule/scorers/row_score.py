"""What filters and scorers say of a single row, as plain numbers: where few rows changed, the number of NumPy's steps
counts and not their length.

The same to the last bit as over columns, for asks that counts alone decide about. Any other ask, and rules of
plugins, go the way of columns.
"""

from collections.abc import Callable

from ares.core.ask import Ask
from ares.core.capacity.fit import NO, RowScore
from ares.core.capacity.node_slice import ClusterFacts
from ares.core.capacity.node_table import WHOLE, NodeTable
from ares.core.capacity.rule import Filter, Scorer, SingleRow
from ares.core.capacity.transaction import alike
from ares.core.schedule.filters import cpu, devices, gpus, health, job_affinity, memory, numa
from ares.core.schedule.scorers import affinity, balance, bandwidth, cost, energy, fit, fragmentation, locality, speed

RowScorer = Callable[[NodeTable, ClusterFacts, Ask, SingleRow], float | None]
# Whether a scorer makes no difference between any rows.
Silent = Callable[[NodeTable, ClusterFacts, Ask], bool]

_COUNTED = frozenset({health.FILTER, gpus.FILTER, cpu.FILTER, memory.FILTER})
# Filters that say nothing about asks that counts alone decide about.
_SILENT_FILTERS = frozenset({job_affinity.FILTER, devices.FILTER, numa.FILTER})
_BY_ROW: dict[Scorer, RowScorer] = {
    fit.score: fit.of_row,
    balance.score: balance.of_row,
    fragmentation.score: fragmentation.of_row,
}
_SILENT: dict[Scorer, Silent] = {
    affinity.score: lambda _table, _facts, ask: not (ask.terms or ask.near or ask.avoid),
    locality.score: lambda _table, _facts, ask: not ask.inputs,
    cost.score: lambda _table, facts, _ask: not (facts.gpu_hour_max or facts.cpu_hour_max or facts.memory_gib_hour_max),
    bandwidth.score: lambda table, _facts, ask: ask.gpus < 2 or all(shape.graph.uniform for shape in table.machines),
    energy.score: lambda _table, facts, ask: not ask.gpus or facts.gpu_watts_max <= 0.0,
    speed.score: lambda _table, _facts, ask: not ask.runs,
}


class RowScores:
    """By the filters and scorers of one profile."""

    def __init__(self, filters: list[Filter], scorers: list[tuple[float, Scorer]]) -> None:
        changing = {filter_ for filter_ in filters if not filter_.lasting}
        self._known = _COUNTED <= changing <= _COUNTED | _SILENT_FILTERS and all(
            scorer in _BY_ROW or scorer in _SILENT for _, scorer in scorers
        )
        self._heard = [(weight, _BY_ROW[scorer]) for weight, scorer in scorers if scorer in _BY_ROW]
        self._silent = [_SILENT[scorer] for _, scorer in scorers if scorer in _SILENT]

    def of(self, table: NodeTable, facts: ClusterFacts, ask: Ask) -> RowScore | None:
        """None where columns have to be looked at. It holds as long as no row with a node is tainted."""
        plain = ask.ranks == 1 and ask.qos == "guaranteed" and not ask.near and (alike(ask) or _one_share(ask))
        if not (self._known and plain and all(silent(table, facts, ask) for silent in self._silent)):
            return None
        heard, answers, asked = self._heard, table.answer_masks, ask.gpus_milli

        def score(row: int) -> float:
            cpu_free, memory_free, idle = (
                table.cpu_free.item(row),
                table.memory_free.item(row),
                table.gpu_idle.item(row),
            )
            whole, tightest = table.gpu_whole.item(row), WHOLE
            if cpu_free < ask.cpu_milli or memory_free < ask.memory_mib or not table.healthy.item(row):
                return NO
            if ask.gpus:
                mask = answers(ask.gpu_model, ask.gpu_memory_mib).item(row)
                if ask.gpu_milli < WHOLE:
                    tightest = _tightest(table.gpu_left[row].tolist(), mask, asked)
                    if tightest > WHOLE:
                        return NO
                elif (mask & whole).bit_count() < ask.gpus:
                    return NO
            count = table.gpu_count.item(row)
            seen = SingleRow(
                row,
                cpu_free,
                idle,
                whole.bit_count(),
                count,
                (cpu_free - ask.cpu_milli) / table.cpu.item(row),
                (memory_free - ask.memory_mib) / table.memory.item(row),
                (idle - asked) / (WHOLE * max(count, 1)),
                tightest,
            )
            total = 0.0
            for weight, of_row in heard:
                said = of_row(table, facts, ask, seen)
                if said is not None:
                    total += weight * said
            return total

        return score


def _one_share(ask: Ask) -> bool:
    """A share of one GPU, and nothing that ties it to a part of the node."""
    return ask.gpus == 1 and ask.gpu_milli < WHOLE and alike(ask._replace(gpu_milli=WHOLE))


def _tightest(left: list[int], mask: int, milli: int) -> int:
    """The least that is left of a GPU of the mask and is enough; more than a whole one where there is none."""
    return min(
        (here for gpu, here in enumerate(left) if here >= milli and mask >> gpu & 1),
        default=WHOLE + 1,
    )
