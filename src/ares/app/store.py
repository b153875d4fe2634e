"""`ares store`: backup and restore of the embedded store, a new epoch for any; and a look at it for `ares verify`."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from ares.adapters.blobs.files import flaw
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.projects import project_flaw
from ares.adapters.store import sqlite
from ares.adapters.store.epoch import begin_epoch
from ares.adapters.store.open import open_store, take_snapshot
from ares.adapters.store.sqlite import Copy
from ares.app import audit
from ares.app.config import Config, ConfigError
from ares.app.files import object_flaw, object_project_flaw
from ares.core import keys
from ares.model.access import BootstrapRecord
from ares.model.link import AttemptRef
from ares.model.state import OutputFile
from ares.ports.store import Committed, Delete, Progress, Put, Snapshot, Store, StoreUnavailable


def backup(config: Config, file: str) -> Copy:
    """Works while the server runs."""
    copy = sqlite.backup(str(_database(config)), file)
    # For `ares status`, which tells when backups are old.
    with contextlib.suppress(OSError):
        _last_backup(config).touch()
    return copy


def backed_up(config: Config) -> float | None:
    """When that was last done; None when it never was."""
    try:
        return _last_backup(config).stat().st_mtime
    except OSError:
        return None


def _last_backup(config: Config) -> Path:
    return config.home_path / "last-backup"


def restore(config: Config, file: str) -> Copy:
    """The server must be stopped. The store begins a new epoch, so older fences stay behind."""
    copy = sqlite.restore(file, str(_database(config)))
    audit.note(config, "storeRestore")
    return copy


def look(config: Config, progress: Progress) -> Snapshot:
    """The store as it is now, also while the server runs. Changes nothing."""
    return take_snapshot(config.store_url, SystemClock(), progress)


def output_flaws(config: Config) -> Callable[[AttemptRef, OutputFile], str]:
    """What is wrong with a file that was handed over, in words; nothing when it is as it was committed."""
    return partial(object_flaw, config) if config.objects.endpoint else partial(flaw, config.outputs_path)


def project_flaws(config: Config) -> Callable[[str, str], str]:
    """The same of the files that jobs start with, by tenant and digest."""
    if config.objects.endpoint:
        return partial(object_project_flaw, config)
    return partial(project_flaw, config.outputs_path)


def new_epoch(config: Config, above: int) -> int:
    """For a store that was restored by other means than `restore`. All servers must be stopped."""
    if config.store_url == "memory:":
        raise ConfigError("a store in memory is never restored", "name the store by --set store.url=URL")
    epoch = asyncio.run(_new_epoch(config, above))
    audit.note(config, "storeNewEpoch")
    return epoch


async def _new_epoch(config: Config, above: int) -> int:
    async with _unused(config) as store:
        return await begin_epoch(store, SystemRng(), above)


def forget_authority(config: Config) -> bool:
    """Lets the next server that starts set the authority of machine certificates. All servers must be stopped."""
    return asyncio.run(_forget_authority(config))


async def _forget_authority(config: Config) -> bool:
    async with _unused(config) as store:
        known = await store.get(keys.AUTHORITY) is not None
        if not isinstance(await store.txn([], [Delete(keys.AUTHORITY)]), Committed):
            raise StoreUnavailable("the store did not confirm it; try again")
        return known


def new_admin(config: Config) -> None:
    """The next server that starts leaves an administrator's token again, as the first did. All must be stopped."""
    asyncio.run(_new_admin(config))
    audit.note(config, "storeNewAdmin")


async def _new_admin(config: Config) -> None:
    async with _unused(config) as store:
        wanted = Put(keys.BOOTSTRAP, msgspec.json.encode(BootstrapRecord(again=True)))
        if not isinstance(await store.txn([], [wanted]), Committed):
            raise StoreUnavailable("the store did not confirm it; try again")


@asynccontextmanager
async def _unused(config: Config) -> AsyncGenerator[Store]:
    """The store, if no server has it. What servers read once, when they start, must not change under them."""
    store = await open_store(config.store_url, SystemClock())
    try:
        leaders = (await store.range(keys.LEADER)).kvs
        if leaders and config.store_url.startswith("etcd:"):
            raise ServerRuns(f"a server leads on {config.store_url}, or did until seconds ago")
        yield store
    finally:
        await store.close()


class ServerRuns(Exception):
    """The store is in use."""

    fix = "stop all servers, wait 10 seconds and try again"


def _database(config: Config) -> Path:
    if not config.store_url.startswith("sqlite://"):
        raise ConfigError(f"{config.store_url} is not an embedded store: back up etcd with `etcdctl snapshot save`")
    return Path(config.store_url.removeprefix("sqlite://"))
