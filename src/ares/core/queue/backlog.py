"""How much work waits ahead of a job. Every operation costs about the same however many jobs wait."""

from bisect import bisect_left
from itertools import accumulate
from math import inf, log2
from typing import NamedTuple

from ares.core.ask import Ask

# When it is not known how long a job runs.
_UNKNOWN_S = 3600.0
# Jobs of one block: about as many as there are blocks when very many jobs wait.
_BLOCK = 256


class Bottleneck(NamedTuple):
    """Which resource a job waits for: GPUs, of a model or any, or else CPUs."""

    resource: str
    model: str = ""


def kind_of(ask: Ask) -> Bottleneck:
    return Bottleneck("gpu", ask.gpu_model or "") if ask.gpus else Bottleneck("cpu")


def amount_of(ask: Ask) -> int:
    """Thousandths, for the whole gang."""
    return (ask.gpus_milli if ask.gpus else ask.cpu_milli) * ask.ranks


class _Contenders(NamedTuple):
    """Jobs that compete: of one kind and one priority level."""

    kind: Bottleneck
    level: int


class _Works:
    """By the order of arrival, in blocks. When a job comes or leaves, the sums of its own block and the sums over the
    blocks are made anew, when they are next asked for."""

    __slots__ = ("_blocks", "_running", "_starts")

    def __init__(self) -> None:
        # By number, and in each by turn.
        self._blocks: dict[int, dict[int, float]] = {}
        # Within each block its turns and the work before each; and the blocks with the work before each.
        self._running: dict[int, tuple[list[int], list[float]]] = {}
        self._starts: tuple[list[int], list[float]] | None = None

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def put(self, turn: int, work: float) -> None:
        number = turn // _BLOCK
        self._blocks.setdefault(number, {})[turn] = work
        self._changed(number)

    def drop(self, turn: int) -> None:
        number = turn // _BLOCK
        block = self._blocks[number]
        del block[turn]
        if not block:
            del self._blocks[number]
        self._changed(number)

    def _changed(self, number: int) -> None:
        self._running.pop(number, None)
        self._starts = None

    def before(self, turn: int | None) -> float:
        """The work before that turn; None: all of it."""
        if self._starts is None:
            numbers = sorted(self._blocks)
            totals = (self._within(number)[1][-1] for number in numbers)
            self._starts = numbers, list(accumulate(totals, initial=0.0))
        numbers, starts = self._starts
        if turn is None:
            return starts[-1]
        turns, sums = self._within(turn // _BLOCK)
        return starts[bisect_left(numbers, turn // _BLOCK)] + sums[bisect_left(turns, turn)]

    def _within(self, number: int) -> tuple[list[int], list[float]]:
        found = self._running.get(number)
        if found is None:
            block = self._blocks.get(number, {})
            # A job whose run time was renewed may have come to its block later than jobs behind it.
            works = sorted(block.items())
            found = [turn for turn, _ in works], list(accumulate((work for _, work in works), initial=0.0))
            if block:
                self._running[number] = found
        return found


class Backlog:
    """All waiting work. The work of a job is the amount it asks for times its run time."""

    def __init__(self) -> None:
        # In each line, by about how long its jobs run.
        self._lines: dict[_Contenders, dict[int, _Works]] = {}
        self._turns: dict[str, tuple[int, _Contenders, int]] = {}
        # Jobs of a line share its name.
        self._shared: dict[_Contenders, _Contenders] = {}
        # Of the job that was added last: of many that come together, most are in the same.
        self._latest: tuple[Ask, int, _Contenders] | None = None
        self._next = 0

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, job_id: str, ask: Ask, level: int, runs_s: float) -> None:
        """Puts the job at the end, once: a job that is already there is put there anew."""
        self.remove(job_id)
        runs_s = _UNKNOWN_S if runs_s == inf else runs_s
        line, length = self._line(ask, level), _length(runs_s)
        self._lines.setdefault(line, {}).setdefault(length, _Works()).put(self._next, amount_of(ask) * runs_s)
        self._turns[job_id] = self._next, line, length
        self._next += 1

    def _line(self, ask: Ask, level: int) -> _Contenders:
        if self._latest is not None and self._latest[0] is ask and self._latest[1] == level:
            return self._latest[2]
        line = _Contenders(kind_of(ask), level)
        line = self._shared.setdefault(line, line)
        self._latest = ask, level, line
        return line

    def renew(self, job_id: str, ask: Ask, runs_s: float) -> None:
        """The job runs for another time than was thought, and keeps its turn."""
        if (found := self._turns.get(job_id)) is None:
            return
        turn, line, before = found
        lengths, length = self._lines[line], _length(runs_s)
        lengths[before].drop(turn)
        if not lengths[before]:
            del lengths[before]
        lengths.setdefault(length, _Works()).put(turn, amount_of(ask) * runs_s)
        self._turns[job_id] = turn, line, length

    def remove(self, job_id: str) -> None:
        found = self._turns.pop(job_id, None)
        if found is None:
            return
        turn, line, length = found
        lengths = self._lines[line]
        lengths[length].drop(turn)
        if not lengths[length]:
            del lengths[length]
        if not lengths:
            del self._lines[line], self._shared[line]
            self._latest = None

    def ahead(self, job_id: str) -> float:
        """Work of jobs that compete for the same, are about as long or shorter, and came before or matter more.

        Longer jobs ahead seldom hold up a short one where backfill fills gaps, and it does."""
        found = self._turns.get(job_id)
        return 0.0 if found is None else self._ahead(*found)

    def ahead_of_new(self, ask: Ask, level: int, runs_s: float) -> float:
        """The work ahead of a job that would come now."""
        line = _Contenders(kind_of(ask), level)
        return self._ahead(self._next, line, _length(_UNKNOWN_S if runs_s == inf else runs_s))

    def _ahead(self, turn: int, mine: _Contenders, longest: int) -> float:
        rivals = _rivals(mine.kind)
        return sum(
            works.before(turn if line.level == mine.level else None)
            for line, lengths in self._lines.items()
            if line.level <= mine.level and line.kind in rivals
            for length, works in lengths.items()
            if length <= longest
        )


def _rivals(kind: Bottleneck) -> tuple[Bottleneck, ...]:
    return (kind, Bottleneck(kind.resource)) if kind.model else (kind,)


def _length(runs_s: float) -> int:
    """Run times by powers of two."""
    return int(log2(1.0 + runs_s))
