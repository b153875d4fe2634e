"""Where the files are kept that jobs start with: parts of files by their SHA-256, each tenant's apart."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class ProjectFiles(Protocol):
    """What is kept never changes: its name is its digest. Calls raise OSError when they cannot be carried out. They may
    be repeated, and made by several replicas at once."""

    async def keep(self, tenant: str, parts: Sequence[memoryview]) -> tuple[str, ...]:
        """Makes parts durable. Returns the digest of each, in order: it is computed, never believed."""
        ...

    async def commit(self, tenant: str, sha256: str, manifest: bytes, parts: Mapping[str, int]) -> tuple[str, ...]:
        """Keeps a manifest if all the parts it names are kept with the sizes it says. Returns those that are not."""
        ...

    async def touch(self, tenant: str, sha256: str) -> bool:
        """Whether the manifest is kept. It then counts as used now."""
        ...

    async def manifest(self, tenant: str, sha256: str) -> bytes:
        """Raises FileNotFoundError when it is not kept."""
        ...

    async def part(self, tenant: str, sha256: str) -> bytes:
        """Raises FileNotFoundError when it is not kept."""
        ...

    async def tenants(self) -> tuple[str, ...]:
        """Those of which anything is kept."""
        ...

    async def unused(self, age_s: float) -> tuple[tuple[str, str], ...]:
        """Tenant and digest of manifests that were last used longer ago than that."""
        ...

    async def forget(self, tenant: str, manifests: Collection[str], age_s: float) -> int:
        """Removes manifests, and then every part of the tenant that is that old and that no manifest names. Returns the
        bytes that were freed."""
        ...
