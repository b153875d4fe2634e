"""Opens the store a URL names. Each adapter is imported only when it is used."""

from urllib.parse import urlsplit

from ares.ports.clock import Clock
from ares.ports.store import Store

FORMS = "memory: | sqlite:///absolute/path | etcd://host:port[,host:port...]"


async def open_store(url: str, clock: Clock) -> Store:
    """Raises ValueError for a URL of no known form, StoreError when the store cannot be used."""
    parts = urlsplit(url)
    if url == "memory:":
        from ares.adapters.store.memory import MemoryStore

        return MemoryStore(clock)
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        from ares.adapters.store.sqlite import SqliteStore

        return await SqliteStore.open(parts.path, clock)
    if parts.scheme == "etcd" and parts.netloc and parts.path in ("", "/"):
        from ares.adapters.store.etcd import EtcdStore

        return await EtcdStore.open(parts.netloc.split(","), clock)
    raise ValueError(f"{url!r} names no store: use {FORMS}")
