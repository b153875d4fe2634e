"""Random histories give the same outcomes, keys and watched changes on all three stores."""

import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ares.ports.store import KV, Committed, Compare, Delete, Get, Op, Put, StoreChange, StoreError
from tests.contract.store.conftest import Subject
from tests.contract.store.watching import changes_until

NAMES = ("a", "a/1", "a/2", "b", "b/1")
_examples = itertools.count()

names = st.sampled_from(NAMES)
values = st.sampled_from((b"", b"1", b"2"))
# An amount back from the newest revision that the history has reached, or "does not exist".
ages = st.integers(0, 3) | st.none()

compares = st.one_of(
    st.tuples(names, st.sampled_from(("mod_revision", "create_revision")), ages),
    st.tuples(names, st.just("version"), st.integers(0, 3)),
    st.tuples(names, st.just("value"), values),
)
ops = st.one_of(
    st.builds(Put, names, values),
    st.builds(Get, names),
    st.builds(Delete, names, st.booleans()),
)
branches = st.lists(ops, max_size=4)
txns = st.tuples(st.lists(compares, max_size=2), branches, branches)


class Run:
    """One history on one store, told without the store's own numbers."""

    def __init__(self, subject: Subject, folder: str) -> None:
        self.store = subject.store
        self.folder = folder
        self.revisions: list[int] = []

    def _rank(self, revision: int) -> int:
        """Revisions are compared by their order only: a shared server counts other things as well."""
        return sorted(set(self.revisions)).index(revision)

    def _compare(self, compare: tuple[str, Any, Any]) -> Compare:
        name, target, wanted = compare
        if target in ("mod_revision", "create_revision"):
            known = sorted(set(self.revisions))
            wanted = 0 if wanted is None or wanted >= len(known) else known[-1 - wanted]
        return Compare(self.folder + name, target, wanted)

    def _op(self, op: Op) -> Op:
        if isinstance(op, Put):
            return Put(self.folder + op.key, op.value)
        return Get(self.folder + op.key) if isinstance(op, Get) else Delete(self.folder + op.key, op.prefix)

    def told(self, kv: KV | None, *, deleted: bool = False) -> object:
        if kv is None:
            return None
        created = 0 if deleted else self._rank(kv.create_revision)
        return (kv.key, kv.value, created, self._rank(kv.mod_revision), kv.version, deleted)

    async def step(self, txn: tuple[Any, list[Op], list[Op]]) -> object:
        compares, then, otherwise = txn
        try:
            outcome = await self.store.txn(
                [self._compare(c) for c in compares], [self._op(op) for op in then], [self._op(op) for op in otherwise]
            )
        except StoreError as refused:
            return str(refused)
        assert isinstance(outcome, Committed)
        self.revisions.append(outcome.revision)
        return (outcome.succeeded, self._rank(outcome.revision), [self.told(kv) for kv in outcome.gets])

    async def state(self) -> object:
        return [self.told(kv) for kv in (await self.store.range(self.folder)).kvs]

    async def watched(self, start: int) -> object:
        last = await self.store.txn([], [Put(f"{self.folder}~", b"")])
        assert isinstance(last, Committed)
        self.revisions.append(last.revision)

        def enough(seen: list[StoreChange]) -> bool:
            return seen[-1].kv.mod_revision == last.revision

        seen = await changes_until(self.store, self.folder, start, enough)
        return [self.told(change.kv, deleted=change.deleted) for change in seen]


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(st.lists(txns, min_size=1, max_size=12))
async def test_random_histories_agree(
    everyone: tuple[Subject, ...], history: list[tuple[Any, list[Op], list[Op]]]
) -> None:
    folder = f"{everyone[0].prefix}{next(_examples)}/"
    runs = [Run(subject, folder) for subject in everyone]
    starts = [await run.store.revision() + 1 for run in runs]
    for run, start in zip(runs, starts, strict=True):
        run.revisions.append(start - 1)
    for txn in history:
        first, *others = [await run.step(txn) for run in runs]
        assert others == [first] * len(others)
    first, *others = [await run.state() for run in runs]
    assert others == [first] * len(others)
    first, *others = [await run.watched(start) for run, start in zip(runs, starts, strict=True)]
    assert others == [first] * len(others)
