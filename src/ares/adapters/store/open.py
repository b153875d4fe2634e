"""Opens the store a URL names. Each adapter is imported only when it is used."""

from urllib.parse import urlsplit

from ares.ports.clock import Clock
from ares.ports.snapshot import Progress, Snapshot
from ares.ports.store import Store, StoreError

FORMS = "memory: | sqlite:///absolute/path | etcd://host:port[,host:port...][?ca=FILE&cert=FILE&key=FILE]"


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
        from ares.adapters.store.etcd.tls import credentials_of

        return await EtcdStore.open(parts.netloc.split(","), clock, credentials=credentials_of(parts.query))
    raise ValueError(f"{url!r} names no store: use {FORMS}")


def take_snapshot(url: str, clock: Clock, progress: Progress) -> Snapshot:
    """The store as it is now, to look at only; also beside a server that uses it."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        from ares.adapters.store.sqlite.snapshot import SqliteSnapshot

        return SqliteSnapshot.take(parts.path, progress)
    if parts.scheme == "etcd" and parts.netloc and parts.path in ("", "/"):
        from ares.adapters.store.etcd.snapshot import EtcdSnapshot
        from ares.adapters.store.etcd.tls import credentials_of

        return EtcdSnapshot.take(parts.netloc.split(","), clock, credentials_of(parts.query))
    raise StoreError(f"{url} cannot be looked at from outside: use sqlite:///absolute/path or etcd://host:port")
