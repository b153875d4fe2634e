"""Which shapes jobs with GPUs often have here: idle GPUs should stay good for such jobs."""

from typing import NamedTuple

from ares.core.ask import Ask
from ares.core.capacity.node_slice import Typical, Wish

_TOP_MAX = 64
# So many wishes tell kinds of nodes apart.
_WISHES_MAX = 32
# So many shapes are counted; beyond, the lighter half is forgotten.
_SHAPES_MAX = 4096
# After this long a job counts half.
_HALF_LIFE_S = 7 * 86_400.0
# The shapes are renewed when this part of all that counts is new: a renewal makes everything be computed anew.
_GROWTH = 0.5
_FIRST = 8.0
# Weights grow by this much at most before all are brought back to 1.
_SCALE_MAX = 2.0**40

_Shape = tuple[int, int, int, Wish]


class TypicalData(NamedTuple):
    """The whole state, as plain data."""

    since: float
    weights: tuple[tuple[_Shape, float], ...]


class Typicals:
    """Counts that fade with time: of a job a week older half as much is left."""

    def __init__(self) -> None:
        # A job's weight is 1 at this time, and grows from then on; only the relation of weights matters.
        self._since = 0.0
        self._weights: dict[_Shape, float] = {}
        self._total = self._new = 0.0
        self._unit = 1.0

    def count(self, ask: Ask, at: float = 0.0) -> bool:
        """Counts the ranks of one job, submitted at that time; whether the shapes should be renewed."""
        if ask.gpus == 0:
            return False
        if not self._weights:
            self._since = at
        unit = 2.0 ** min((at - self._since) / _HALF_LIFE_S, 1000.0)
        if unit > _SCALE_MAX:
            self._scale(1.0 / unit)
            self._since, unit = at, 1.0
        self._unit = max(self._unit, unit)
        shape = (ask.cpu_milli, ask.gpus, ask.gpu_milli, _wish(ask))
        weight = unit * ask.ranks
        self._weights[shape] = self._weights.get(shape, 0.0) + weight
        self._total += weight
        self._new += weight
        if len(self._weights) > _SHAPES_MAX:
            self._forget_lightest()
        return self._new >= _GROWTH * (self._total - self._new) + _FIRST * self._unit

    def top(self) -> tuple[Typical, ...]:
        """Shapes that ask for most GPU in all come first: few large jobs matter as much as many small ones.

        Shares are of ranks, and add up to 1.
        """
        self._new = 0.0
        # By weight, then by shape: never by the order of arrival.
        ordered = sorted(self._weights.items(), key=lambda item: (-item[1] * item[0][1] * item[0][2], str(item[0])))
        chosen = ordered[:_TOP_MAX]
        total = sum(weight for _, weight in chosen)
        return tuple(Typical(*shape, weight / total) for shape, weight in chosen)

    def named(self) -> tuple[tuple[Wish, float], ...]:
        """What is asked for by name, as parts of all GPU asked for: the most first."""
        asked: dict[Wish, float] = {}
        for (_, gpus, milli, wish), weight in self._weights.items():
            asked[wish] = asked.get(wish, 0.0) + weight * gpus * milli
        total = sum(asked.values())
        ordered = sorted(asked.items(), key=lambda item: (-item[1], str(item[0])))
        return tuple((wish, part / total) for wish, part in ordered if wish != _ANY)[:_WISHES_MAX]

    @property
    def data(self) -> TypicalData:
        return TypicalData(self._since, tuple(self._weights.items()))

    def restore(self, data: TypicalData) -> None:
        """Goes on from the state of another instance."""
        self._since, self._weights = data.since, dict(data.weights)
        self._total, self._new, self._unit = sum(self._weights.values()), 0.0, 1.0

    def _scale(self, by: float) -> None:
        self._weights = {shape: weight * by for shape, weight in self._weights.items()}
        self._total, self._new, self._unit = self._total * by, self._new * by, 1.0

    def _forget_lightest(self) -> None:
        ordered = sorted(self._weights.items(), key=lambda item: (-item[1], str(item[0])))
        self._weights = dict(ordered[: _SHAPES_MAX // 2])
        self._total = sum(self._weights.values())
        self._new = min(self._new, self._total)


def _wish(ask: Ask) -> Wish:
    """Few jobs wish for anything: the common case costs a comparison."""
    if ask.gpu_model is None and not (ask.gpu_memory_mib or ask.selector or ask.terms):
        return _ANY
    return Wish(ask.gpu_model, ask.gpu_memory_mib, ask.selector, tuple(term for term in ask.terms if term.required))


_ANY = Wish()
