"""Ares: a job platform for GPU and batch work. Start reading at ARCHITECTURE.md."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ares import job
    from ares.edge.client.aio import AsyncClient
    from ares.edge.client.sync import Client

from ares.version import __version__

__all__ = ["AsyncClient", "Client", "__version__", "job"]


def __getattr__(name: str) -> Any:
    """Loads the client when it is asked for: jobs that import `ares.job` need the standard library only."""
    from importlib import import_module

    if name in {"Client", "AsyncClient"}:
        return getattr(import_module("ares.edge.client"), name)
    if name == "job":
        return import_module("ares.job")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
