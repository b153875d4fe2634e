"""Bugs in how a replica follows the store and answers from what it saw."""
# pyright: reportPrivateUsage=false

import contextlib

from ares.control.state import view
from ares.control.state.view import View
from ares.core import keys
from ares.ports.store import Compacted
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace


async def _skip_the_gap(self: View) -> None:
    while True:
        stream = self._store.watch(keys.ROOT, self.revision + 1)
        async with contextlib.aclosing(stream):  # pyright: ignore[reportArgumentType]
            async for item in stream:
                if isinstance(item, Compacted):
                    self.revision = item.revision
                    break
                self._apply(item)


async def _as_it_is(self: View) -> None:
    """What is seen now is good enough."""


MUTANTS = {
    "unusable-record-ends-view": Mutant(
        "a record that cannot be used ends the replica that reads it",
        ("E11",),
        replace(view, "UNUSABLE", ()),
        case="unusable-record",
    ),
    "gap-not-relisted": Mutant(
        "after a compaction the watch goes on where it can",
        ("E11", "E12", "E16", "E8"),
        replace(View, "_watch", _skip_the_gap),
        case="gap",
    ),
    "stale-reads": Mutant(
        "reads do not wait for what was committed before",
        ("E16", "linear"),
        replace(View, "catch_up", _as_it_is),
        case="behind",
    ),
}
