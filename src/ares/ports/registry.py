"""Registries of container images, which nodes fetch from."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class RegistryRefused(Exception):
    """The registry does not have it, or does not give it, in words. Asking again would not help."""


class RegistryUnreachable(Exception):
    """It cannot be had now, in words."""


class Registry(Protocol):
    """Blocking: called in threads. Raises RegistryRefused and RegistryUnreachable."""

    def manifest(self, host: str, name: str, version: str) -> bytes:
        """The manifest or index of that tag or digest, as it came."""
        ...

    def save(self, host: str, name: str, digest: str, size: int, path: Path, wanted: Callable[[], bool]) -> None:
        """A blob as a new file, of exactly that size. It ends early when it is not wanted any more."""
        ...
