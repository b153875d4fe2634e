"""A Unix user for every tenant on this node. A tenant keeps its user for as long as the state directory exists."""

from pathlib import Path

import msgspec

from ares.agent.files.job_files import write_whole


class NoUidLeft(Exception):
    """There are more tenants than users for them. The attempt must not start as another tenant's user."""


class Owners:
    def __init__(self, state_dir: Path, first: int, last: int) -> None:
        self._path = state_dir / "uids.json"
        self._first, self._last = first, last
        self._uids = self._read()

    def _read(self) -> dict[str, int]:
        """Raises msgspec.ValidationError for a damaged file: a user id given out twice opens another tenant's files."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        except FileNotFoundError:
            return {}

    def of(self, tenant: str) -> int:
        """The user id of a tenant. Raises NoUidLeft, or OSError when a new one cannot be stored."""
        uid = self._uids.get(tenant)
        if uid is not None and self._first <= uid <= self._last:
            return uid
        taken = set(self._uids.values())
        uid = next((free for free in range(self._first, self._last + 1) if free not in taken), None)
        if uid is None:
            count = self._last - self._first + 1
            raise NoUidLeft(f"all {count:,} users that this node has for tenants are taken: widen node.sandbox.uids")
        known = {**self._uids, tenant: uid}
        write_whole(str(self._path), msgspec.json.encode(known))
        self._uids = known
        return uid
