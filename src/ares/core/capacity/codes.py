"""Small numbers for texts that many rows carry, and columns that only some jobs ask about."""

from collections import Counter
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ares.model.node import NodeRecord

if TYPE_CHECKING:
    from ares.core.capacity.node_table import NodeTable

Key = TypeVar("Key")

# Columns of one kind; beyond it all are forgotten and made again when asked for.
ON_DEMAND_MAX = 512


class Codes:
    """Small numbers for texts: equal texts, equal numbers. 0 stands for none. A number that no row carries any more is
    given to another text: nodes may change their labels as often as they like."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._uses: Counter[int] = Counter()
        self._unused: list[int] = []

    def __len__(self) -> int:
        return len(self._of)

    def of(self, text: str | None) -> int:
        """The text's number; one more row carries it."""
        if text is None:
            return 0
        number = self._of.get(text)
        if number is None:
            number = self._of[text] = self._unused.pop() if self._unused else len(self._of) + 1
            self._texts[number] = text
        self._uses[number] += 1
        return number

    def back(self, number: int) -> bool:
        """One row less carries it; whether that was the last one."""
        if not number:
            return False
        self._uses[number] -= 1
        if self._uses[number]:
            return False
        del self._of[self._texts.pop(number)], self._uses[number]
        self._unused.append(number)
        return True

    def known(self, text: str) -> int:
        """The text's number; -1 when no row carries it."""
        return self._of.get(text, -1)


class OnDemand(Generic[Key]):
    """Columns that only some jobs ask about, made when first asked for."""

    def __init__(
        self,
        table: "NodeTable",
        read: Callable[[NodeRecord, Key], Any],
        nothing: Any,
        dtype: Any,
        among: Set[int] | None = None,
    ) -> None:
        self._table = table
        # The only rows that may have anything; all where it is not said.
        self._among = among
        self._read = read
        self._nothing = nothing
        self._dtype = dtype
        self._columns: dict[Key, npt.NDArray[Any]] = {}

    def of(self, key: Key) -> npt.NDArray[Any]:
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= ON_DEMAND_MAX:
                self._columns.clear()
            read, nothing, records = self._read, self._nothing, self._table.records
            column = self._columns[key] = np.full(self._table.rows, nothing, self._dtype)
            if self._among is None:
                used = self._table.used
                column[:used] = [nothing if record is None else read(record, key) for record in records[:used]]
            for row in self._among or ():
                column[row] = nothing if (record := records[row]) is None else read(record, key)
        return column

    def put(self, row: int, record: NodeRecord | None) -> None:
        for key, column in self._columns.items():
            column[row] = self._nothing if record is None else self._read(record, key)

    def clear(self) -> None:
        self._columns.clear()
