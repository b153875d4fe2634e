"""The jobs that a new job waits for: known to the tenant, and kept until the job exists."""

from collections.abc import Iterable
from typing import Protocol

from ares.control.state.view import View
from ares.core import keys
from ares.core.admit.arrays import indices
from ares.core.refusal import Refusal
from ares.model.job import JobSpec, Need
from ares.model.state import ChildOf
from ares.ports.store import Compare


class MadeByAttempt(Protocol):
    """A submission that an attempt may have made, and by which record of its job."""

    @property
    def child_of(self) -> ChildOf | None: ...

    @property
    def parent_revision(self) -> int: ...


class ParentChecks:
    """A job of another tenant and one that does not exist are the same answer."""

    def __init__(self, view: View) -> None:
        self._view = view

    def known(self, tenant: str, spec: JobSpec) -> bool:
        return all(self._compare(tenant, name) is not None for need in spec.needs for name in need.parents)

    def of_all(self, tenant: str, parents: Iterable[str]) -> tuple[Compare, ...] | Refusal:
        """Of the jobs outside that a workflow waits for."""
        found: list[Compare] = []
        for name in parents:
            compare = self._compare(tenant, name)
            if compare is None:
                return _unknown(name)
            found.append(compare)
        return tuple(found)

    def compares(self, tenant: str, spec: JobSpec) -> tuple[Compare, ...] | Refusal:
        """Hold as long as each of them is kept: a job that is forgotten meanwhile is not waited for."""
        found: dict[str, Compare] = {}
        for need in spec.needs:
            for name in need.parents:
                compare = self._compare(tenant, name)
                if compare is None:
                    return _unknown(name)
                found[name] = compare
            if (no := self._unfit(need, spec)) is not None:
                return no
        return tuple(found.values())

    def gone(self, tenant: str, request: "MadeByAttempt", spec: JobSpec) -> Refusal | None:
        """Why what was not written by these compares never will be."""
        maker = request.child_of
        if maker is not None:
            entry = self._view.entries.get(maker.job)
            if entry is None or entry.mod_revision != request.parent_revision:
                return Refusal(code="stale-fence", message=f"job {maker.job} changed while it submitted another")
        found = self.compares(tenant, spec) if spec.needs else ()
        return found if isinstance(found, Refusal) else None

    def _compare(self, tenant: str, name: str) -> Compare | None:
        entry = self._view.entries.get(name)
        if entry is not None:
            mine = entry.state.tenant == tenant
            return Compare(keys.state(tenant, name), "create_revision", entry.create_revision) if mine else None
        array = self._view.arrays.get(name)
        if array is None or array.tenant != tenant:
            return None
        if array.expanded and len(self._view.by_array.get(name, ())) < array.tasks:
            # Some of its tasks are forgotten already.
            return None
        # Its specification is written once.
        return Compare(keys.job(tenant, name), "version", 1)

    def _unfit(self, need: Need, spec: JobSpec) -> Refusal | None:
        for name in need.parents:
            no = self._each(name, spec) if need.each else self._never(name, need)
            if no is not None:
                return no
        return None

    def _each(self, name: str, spec: JobSpec) -> Refusal | None:
        array = self._view.arrays.get(name)
        theirs = None if array is None else indices(array.indices)
        mine = indices(spec.array or "")
        if not isinstance(theirs, tuple):
            message = f"{name} is no array: no task of it belongs to a task of this one"
            return Refusal(code="need-invalid", message=message, fix="name an array, or leave each out")
        missing = set(mine) - set(theirs) if isinstance(mine, tuple) else set[int]()
        if not missing:
            return None
        message = f"array {name} has no task {min(missing)}, which a task of this one would wait for"
        return Refusal(code="need-invalid", message=message, fix=f"use indices of {name} only")

    def _never(self, name: str, need: Need) -> Refusal | None:
        """A job that is always started again never succeeds."""
        raw = self._view.specs.get(name.partition("_")[0]) if need.on == "success" else None
        if raw is None or self._view.decode_spec(raw).restart != "always":
            return None
        message = f"job {name} is always started again (restart: always), so it never succeeds"
        return Refusal(code="need-invalid", message=message, fix="wait for its start, or for its end in any way")


def _unknown(name: str) -> Refusal:
    message = f"job {name}, which it waits for, is not found"
    return Refusal(code="need-unknown", message=message, fix="name a job of yours that is still kept: `ares jobs`")
