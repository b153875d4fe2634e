"""An index of a tenant's jobs by name and by label, so that a list need not read all of them."""

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ares.control.state.pacing import LOOKED_AT, WORKED_ON, breathe
from ares.control.state.view import Delta, StateEntry, View
from ares.core import keys
from ares.model.state import JobState
from ares.ports.store import Store

Place = tuple[int, str]


class _Label(NamedTuple):
    """A label of a tenant's jobs: what it says, and where its jobs stand. Like jobs share it."""

    key: str
    value: str
    places: list[Place]


class _Labels(msgspec.Struct, frozen=True, gc=False):
    """The part of a specification that the index reads."""

    labels: dict[str, str] = {}


_decode = msgspec.json.Decoder(_Labels).decode


class JobIndex:
    """Follows the view. Places are as in its order; those of jobs that are gone are left out when they are met."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view
        # By tenant and name.
        self._named: dict[str, dict[str, list[Place]]] = {}
        self._labelled: dict[tuple[str, str, str], _Label] = {}
        # Of jobs that have some.
        self._labels: dict[str, tuple[_Label, ...]] = {}
        # Jobs that had ended before this process began: their specifications are read from the store on demand.
        self._unread: dict[str, dict[str, int]] = {}
        # By tenant and user. Made when a tenant first asks for it, and kept from then on.
        self._by_user: dict[str, dict[str, list[Place]]] = {}
        self._relists = 0
        view.subscribe(self._on_delta)

    def named(self, tenant: str, name: str) -> Sequence[Place]:
        return self._named.get(tenant, {}).get(name, ())

    async def labelled(self, tenant: str, labels: dict[str, str]) -> Sequence[Place]:
        """Jobs with the rarest of these labels."""
        await self._read(tenant)
        found = (self._labelled.get((tenant, key, value)) for key, value in labels.items())
        return min(([] if label is None else label.places for label in found), key=len)

    async def submitted_by(self, tenant: str, user: str) -> Sequence[Place]:
        while tenant not in self._by_user:
            relists, users, begin = self._relists, dict[str, list[Place]](), 0
            # No other task runs between the look that finds nothing more and the moment the index is kept.
            while stride := self._view.order.get(tenant, [])[begin : begin + LOOKED_AT]:
                for place in stride:
                    if (entry := self._view.entries.get(place[1])) is not None:
                        users.setdefault(entry.state.submitted_by, []).append(place)
                await breathe()
                # Jobs may have gone meanwhile: the place itself says where to go on.
                begin = bisect_right(self._view.order.get(tenant, []), stride[-1])
            if relists == self._relists:
                self._by_user[tenant] = users
        return self._by_user[tenant].get(user, ())

    def has(self, state: JobState, labels: dict[str, str]) -> bool:
        return labels.items() <= {(label.key, label.value) for label in self._labels.get(state.id, ())}

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._named.clear()
            self._labelled.clear()
            self._labels.clear()
            self._unread.clear()
            self._by_user.clear()
            self._relists += 1
        for before, entry in delta.states:
            if before is None:
                self._put(entry)
        for state in delta.removed:
            self._drop(state)

    def _put(self, entry: StateEntry) -> None:
        state = entry.state
        place = (entry.create_revision, state.id)
        # Most often it is the last of the view's own order, and shared with it.
        if (last := self._view.order[state.tenant][-1]) == place:
            place = last
        named = self._named.setdefault(state.tenant, {})
        if (places := named.get(state.name)) is None:
            named[state.name] = [place]
        else:
            insort(places, place)
        if (users := self._by_user.get(state.tenant)) is not None:
            insort(users.setdefault(state.submitted_by, []), place)
        raw = self._view.specs.get(state.array or state.id)
        if raw is None:
            self._unread.setdefault(state.tenant, {})[state.id] = entry.create_revision
        else:
            self._label(state, place, raw)

    def _label(self, state: JobState, place: Place, raw: bytes) -> None:
        # Most jobs have no labels, which shows without decoding the specification.
        if b'"labels"' not in raw or not (labels := _decode(raw).labels):
            return
        found: list[_Label] = []
        for key, value in labels.items():
            name = (state.tenant, key, value)
            if (label := self._labelled.get(name)) is None:
                label = self._labelled[name] = _Label(key, value, [])
            insort(label.places, place)
            found.append(label)
        self._labels[state.id] = tuple(found)

    def _drop(self, state: JobState) -> None:
        named = self._named.get(state.tenant, {})
        if not self._swept(named.get(state.name, [])):
            named.pop(state.name, None)
        for label in self._labels.pop(state.id, ()):
            if not self._swept(label.places):
                self._labelled.pop((state.tenant, label.key, label.value), None)
        self._unread.get(state.tenant, {}).pop(state.id, None)
        if (users := self._by_user.get(state.tenant)) is not None and not self._swept(
            users.get(state.submitted_by, [])
        ):
            users.pop(state.submitted_by, None)

    def _swept(self, places: list[Place]) -> bool:
        """Without the oldest that are gone: those go first. Whether any is left."""
        gone = 0
        while gone < len(places) and places[gone][1] not in self._view.entries:
            gone += 1
        del places[:gone]
        return bool(places)

    async def _read(self, tenant: str) -> None:
        unread = self._unread.get(tenant, {})
        while unread:
            for job in list(unread)[:WORKED_ON]:
                entry = self._view.entries.get(job)
                kv = None if entry is None else await self._store.get(keys.job(tenant, entry.state.array or job))
                if unread.pop(job, None) is not None and entry is not None and kv is not None:
                    self._label(entry.state, (entry.create_revision, job), kv.value)
            await breathe()
