"""Bugs in how a replica follows the store and answers from what it saw."""
# pyright: reportPrivateUsage=false

import contextlib
from collections.abc import Sequence

from ares.core import keys
from ares.ports.store import Compacted
from ares.services.transitions import Change, Outcome, Transitions, _Draft
from ares.services.view import LeaseEntry, View
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace

_apply = Transitions.apply


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


async def _no_is_no(self: Transitions, changes: Sequence[Change]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for change in changes:
        drafted = self._draft(change, self._view.entries.get(change.job))
        if drafted is None or isinstance(drafted, _Draft):
            outcomes += await _apply(self, [change])
        else:
            outcomes.append(drafted)
    return outcomes


def _all_fresh(self: View, before: dict[str, LeaseEntry]) -> None:
    """A listing counts as a sign of life."""


MUTANTS = {
    "gap-not-relisted": Mutant(
        "after a compaction the watch goes on where it can",
        ("E11", "E12", "E16", "E8"),
        replace(View, "_watch", _skip_the_gap),
    ),
    "stale-reads": Mutant(
        "reads do not wait for what was committed before", ("E16",), replace(View, "catch_up", _as_it_is)
    ),
    "stale-no-is-final": Mutant(
        "a refusal from what a replica saw is not checked in the store",
        ("E11",),
        replace(Transitions, "apply", _no_is_no),
    ),
    "listing-is-renewal": Mutant(
        "after a new listing every lease looks fresh", ("E12",), replace(View, "_keep_lease_ages", _all_fresh)
    ),
}
