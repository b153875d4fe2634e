"""A witness can tell that no control plane is there, other than by its silence."""

from typing import Protocol

from ares.model.link import StoreLock


class Witness(Protocol):
    async def free(self, lock: StoreLock) -> bool:
        """True only if no process held the lock at some moment during this call. When in doubt: False."""
        ...
