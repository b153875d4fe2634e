"""An index of a tenant's jobs by name and by label, so that a list need not read all of them."""

from bisect import insort
from collections.abc import Sequence

import msgspec

from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import Delta, StateEntry, View
from ares.core import keys
from ares.model.state import JobState
from ares.ports.store import Store

Place = tuple[int, str]


class _Labels(msgspec.Struct, frozen=True, gc=False):
    """The part of a specification that the index reads."""

    labels: dict[str, str] = {}


_decode = msgspec.json.Decoder(_Labels).decode


class JobIndex:
    """Follows the view. Places are as in its order; those of jobs that are gone are left out when they are met."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view
        self._named: dict[tuple[str, str], list[Place]] = {}
        self._labelled: dict[tuple[str, str, str], list[Place]] = {}
        # Of jobs that have some.
        self._labels: dict[str, dict[str, str]] = {}
        # Jobs that had ended before this process began: their specifications are read from the store on demand.
        self._unread: dict[str, dict[str, int]] = {}
        view.subscribe(self._on_delta)

    def named(self, tenant: str, name: str) -> Sequence[Place]:
        return self._named.get((tenant, name), ())

    async def labelled(self, tenant: str, labels: dict[str, str]) -> Sequence[Place]:
        """Jobs with the rarest of these labels."""
        await self._read(tenant)
        return min((self._labelled.get((tenant, key, value), []) for key, value in labels.items()), key=len)

    def has(self, state: JobState, labels: dict[str, str]) -> bool:
        return labels.items() <= self._labels.get(state.id, {}).items()

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._named.clear()
            self._labelled.clear()
            self._labels.clear()
            self._unread.clear()
        for before, entry in delta.states:
            if before is None:
                self._put(entry)
        for state in delta.removed:
            self._drop(state)

    def _put(self, entry: StateEntry) -> None:
        state = entry.state
        insort(self._named.setdefault((state.tenant, state.name), []), (entry.create_revision, state.id))
        raw = self._view.specs.get(state.array or state.id)
        if raw is None:
            self._unread.setdefault(state.tenant, {})[state.id] = entry.create_revision
        else:
            self._label(state, entry.create_revision, raw)

    def _label(self, state: JobState, create_revision: int, raw: bytes) -> None:
        # Most jobs have no labels, which shows without decoding the specification.
        if b'"labels"' not in raw or not (labels := _decode(raw).labels):
            return
        self._labels[state.id] = labels
        for key, value in labels.items():
            insort(self._labelled.setdefault((state.tenant, key, value), []), (create_revision, state.id))

    def _drop(self, state: JobState) -> None:
        self._sweep(self._named, (state.tenant, state.name))
        for key, value in self._labels.pop(state.id, {}).items():
            self._sweep(self._labelled, (state.tenant, key, value))
        self._unread.get(state.tenant, {}).pop(state.id, None)

    def _sweep(self, index: "dict[tuple[str, ...], list[Place]]", key: tuple[str, ...]) -> None:
        """Without the oldest that are gone: those go first."""
        places, gone = index.get(key, []), 0
        while gone < len(places) and places[gone][1] not in self._view.entries:
            gone += 1
        del places[:gone]
        if not places:
            index.pop(key, None)

    async def _read(self, tenant: str) -> None:
        unread = self._unread.get(tenant, {})
        while unread:
            for job in list(unread)[:WORKED_ON]:
                entry = self._view.entries.get(job)
                kv = None if entry is None else await self._store.get(keys.job(tenant, entry.state.array or job))
                if unread.pop(job, None) is not None and entry is not None and kv is not None:
                    self._label(entry.state, entry.create_revision, kv.value)
            await breathe()
