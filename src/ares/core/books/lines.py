"""Lines of a book: what jobs held, in whole numbers, by team, pool, GPU model and what came of it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ares.core.energy import Fate
from ares.model.books.book import BookLine
from ares.model.state import Spent

# Lines of one book. Teams beyond share one.
LINES_MAX: Final = 2000
OTHER_TEAMS: Final = "(others)"
_MILLI: Final = 1000
_MICRO: Final = 1_000_000


class LineKey(NamedTuple):
    team: str
    pool: str
    gpu_model: str
    fate: Fate


class BookSum:
    """The order in which parts are added changes nothing."""

    def __init__(self) -> None:
        self._sums: dict[LineKey, list[int]] = {}

    def add(self, team: str, parts: Iterable[Spent]) -> None:
        for part in parts:
            sums = self._of(LineKey(team, part.pool, part.gpu_model, part.fate))
            sums[0] += round(part.gpu_s * _MILLI)
            sums[1] += round(part.cpu_s * _MILLI)
            sums[2] += round(part.energy_j)
            sums[3] += round(part.cost * _MICRO)

    def add_lines(self, lines: Iterable[BookLine], times: int = 1) -> None:
        for line in lines:
            sums = self._of(LineKey(line.team, line.pool, line.gpu_model, line.fate))
            for place, amount in enumerate((line.gpu_ms, line.cpu_ms, line.joules, line.micro)):
                sums[place] += times * amount

    def _of(self, key: LineKey) -> list[int]:
        sums = self._sums.get(key)
        if sums is None and len(self._sums) >= LINES_MAX:
            key = key._replace(team=OTHER_TEAMS)
            sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = [0, 0, 0, 0]
        return sums

    def lines(self) -> tuple[BookLine, ...]:
        return tuple(
            BookLine(
                team=key.team, pool=key.pool, gpu_model=key.gpu_model, fate=key.fate,
                gpu_ms=sums[0], cpu_ms=sums[1], joules=sums[2], micro=sums[3],
            )
            for key, sums in sorted(self._sums.items())
            if any(sums)
        )  # fmt: skip
