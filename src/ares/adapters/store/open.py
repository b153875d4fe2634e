"""Opens the store a URL names, and takes it into use by the format of this version. Each adapter is imported only when
it is used."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from ares.core import store_format as formats
from ares.core.keys import FORMAT
from ares.ports.clock import Clock
from ares.ports.store import Compare, Progress, Put, Snapshot, Store, StoreError, StoreUnavailable, StoreVersionRefused

if TYPE_CHECKING:
    import grpc

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

        return EtcdSnapshot.take(parts.netloc.split(","), clock, credentials_of(parts.query))
    raise StoreError(f"{url} cannot be looked at from outside: use sqlite:///absolute/path or etcd://host:port")


# ---- taking a store into use by the format of this version


_TRIES = 3
_LOOK_S = 5.0


async def ensure_format(store: Store) -> None:
    """Records the format of this version in the store. StoreVersionRefused if the store has a newer one."""
    for _ in range(_TRIES):
        found = await store.get(FORMAT)
        if found is not None:
            if why := formats.newer(found.value):
                raise StoreVersionRefused(why)
            if formats.decode(found.value) == formats.FORMAT:
                return
        guard = Compare(FORMAT, "mod_revision", 0 if found is None else found.mod_revision)
        # The next read tells the outcome, also of an Unknown.
        await store.txn([guard], [Put(FORMAT, formats.encode())])
    raise StoreUnavailable(f"the store's format could not be written in {_TRIES} tries: is the store writable?")


async def keep_to_format(store: Store, clock: Clock) -> None:
    """Ends by StoreVersionRefused when a newer version has begun to write. The view notices at once, unless the store
    forgot that part of its history before the view could follow."""
    while True:
        await clock.sleep(_LOOK_S)
        found = None
        with suppress(StoreError):
            found = await store.get(FORMAT)
        if found is not None and (why := formats.newer(found.value)):
            raise StoreVersionRefused(why)


# ---- TLS to etcd

_NAMES = ("ca", "cert", "key")


def credentials_of(query: str) -> "grpc.ChannelCredentials | None":
    """From the `ca=FILE&cert=FILE&key=FILE` of a store's URL; None when there is nothing of it. Raises ValueError for
    other words, StoreError when a file cannot be read."""
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    files = dict(pairs)
    if not pairs:
        return None
    if len(files) < len(pairs) or "ca" not in files or not files.keys() <= set(_NAMES) or not all(files.values()):
        raise ValueError(f"{query!r}: TLS to etcd is ca=FILE, or ca=FILE&cert=FILE&key=FILE")
    if ("cert" in files) != ("key" in files):
        raise ValueError(f"{query!r}: a client's certificate and its key come together")
    try:
        ca, cert, key = (Path(files[name]).read_bytes() if name in files else None for name in _NAMES)
    except OSError as error:
        raise StoreError(f"TLS to etcd: cannot read {error.filename}: {error.strerror}") from error
    import grpc

    return grpc.ssl_channel_credentials(ca, key, cert)
