"""How this node keeps jobs apart, from its configuration."""

import os
from pathlib import Path

import msgspec

from ares.adapters.executors.local import LocalExecutor
from ares.adapters.executors.terms import SandboxTerms
from ares.app.config import Config, ConfigError
from ares.services.agent.environment import inherited
from ares.services.agent.owners import Owners
from ares.services.agent.settings import Settings


def executor_of(config: Config, state_dir: Path) -> LocalExecutor:
    said, uids = config.node.sandbox, _uids(config)
    # Whatever a server and agents of this machine keep, with all their keys.
    keys = (config.http.tls_key, config.secrets.key_file, config.node.tls_ca)
    kept = (config.home_path, config.logs_path, config.outputs_path, *(Path(path) for path in keys if path))
    terms = SandboxTerms(
        level=said.level,
        hidden=(*(os.path.abspath(path) for path in kept), *said.hidden),
        writable=said.writable,
        devices=said.devices,
        uid=None if uids is None else uids[0],
    )
    return LocalExecutor(state_dir, terms=terms)


def settings_of(config: Config, state_dir: Path) -> Settings:
    uids = _uids(config)
    try:
        owners = None if uids is None else Owners(state_dir, *uids)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{state_dir / 'uids.json'} cannot be read: {error}", "restore it from a backup") from error
    return Settings(
        environment=inherited(os.environ),
        drain_s=config.node.drain_s,
        log_bytes_per_s=config.node.sandbox.log_kib_per_s << 10,
        workspace_bytes_max=config.node.sandbox.workspace_mib << 20,
        owners=owners,
    )


def _uids(config: Config) -> tuple[int, int] | None:
    if not (text := config.node.sandbox.uids):
        return None
    first, last = (int(number) for number in text.split("-"))
    if not 1000 <= first <= last < 1 << 32:
        raise ConfigError(
            f"node.sandbox.uids: {text} is no range of users for jobs", "write the first and the last, from 1000 on"
        )
    return first, last
