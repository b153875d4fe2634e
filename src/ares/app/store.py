"""`ares store`: backup and restore of the embedded store."""

from pathlib import Path

from ares.adapters.store import sqlite
from ares.adapters.store.sqlite import Copy
from ares.app.config import Config, ConfigError


def backup(config: Config, file: str) -> Copy:
    """Works while the server runs."""
    return sqlite.backup(str(_database(config)), file)


def restore(config: Config, file: str) -> Copy:
    """The server must be stopped. The store begins a new epoch, so older fences stay behind."""
    return sqlite.restore(file, str(_database(config)))


def _database(config: Config) -> Path:
    if not config.store_url.startswith("sqlite://"):
        raise ConfigError(f"{config.store_url} is not an embedded store: back up etcd with `etcdctl snapshot save`")
    return Path(config.store_url.removeprefix("sqlite://"))
