"""`ares store`: backup and restore of the embedded store."""

from pathlib import Path

from ares.app.config import Config, ConfigError


def database(config: Config) -> Path:
    """The SQLite file of this installation."""
    if not config.store_url.startswith("sqlite://"):
        raise ConfigError(
            f"{config.store_url} is not an embedded store; for etcd use `etcdctl snapshot save` and "
            "restore with a bumped revision, then run `ares store bump-epoch`"
        )
    return Path(config.store_url.removeprefix("sqlite://"))
