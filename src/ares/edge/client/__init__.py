"""The Python client: `Client` blocks, `AsyncClient` awaits. Names are loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ares.edge.client.aio import AsyncClient
    from ares.edge.client.ask import job_spec
    from ares.edge.client.errors import AresError
    from ares.edge.client.sync import Client

__all__ = ["AresError", "AsyncClient", "Client", "job_spec"]

_HOME = {"Client": "sync", "AsyncClient": "aio", "job_spec": "ask", "AresError": "errors"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
