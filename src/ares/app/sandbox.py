"""How this node keeps jobs apart, from its configuration."""

import os
import sys
from pathlib import Path
from typing import Final

import msgspec
import structlog

import ares
from ares.adapters.executors.local import LocalExecutor
from ares.adapters.executors.terms import SandboxTerms
from ares.agent.attempts.environment import inherited
from ares.agent.attempts.owners import Owners
from ares.agent.settings import AgentSettings
from ares.app.config import Config, ConfigError, default_home

log = structlog.get_logger()

# Beyond what systems give to people, services, containers and their parts.
_AUTO: Final = (0x7000_0000, 0x7000_FFFF)
_NO_USERS: Final = ("", "none")
# To become another user, with no other groups, and to give files to it: CAP_CHOWN, SETGID and SETUID.
_CAPABILITIES: Final = 1 << 0 | 1 << 6 | 1 << 7


def executor_of(config: Config, state_dir: Path) -> LocalExecutor:
    said, uids = config.node.sandbox, _uids(config)
    if said.level != "sandbox":
        log.warning("agent.sandbox_is_not_the_default", level=said.level, set_by="node.sandbox.level")
    terms = SandboxTerms(
        level=said.level,
        own=tuple(dict.fromkeys(str(path) for path in own_paths(config))),
        hidden=said.hidden,
        writable=said.writable,
        devices=said.devices,
        shown=tuple(dict.fromkeys((sys.base_prefix, sys.prefix, *(str(Path(path).parent) for path in ares.__path__)))),
        uid=None if uids is None else uids[0],
    )
    return LocalExecutor(state_dir, terms=terms)


def own_paths(config: Config) -> tuple[Path, ...]:
    """Also what is where it is when nothing is said: of others that run here, and of people's logins."""
    usual = (default_home({}), default_home(os.environ))
    return (*config.own_paths, *(path.absolute() for path in usual))


def settings_of(config: Config, state_dir: Path) -> AgentSettings:
    uids = _uids(config)
    try:
        owners = None if uids is None else Owners(state_dir, *uids)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{state_dir / 'uids.json'} cannot be read: {error}", "restore it from a backup") from error
    return AgentSettings(
        environment=inherited(os.environ),
        drain_s=config.node.drain_s,
        log_bytes_per_s=config.node.sandbox.log_kib_per_s << 10,
        workspace_bytes_max=config.node.sandbox.workspace_mib << 20,
        owners=owners,
    )


def _uids(config: Config) -> tuple[int, int] | None:
    text = config.node.sandbox.uids
    if text in _NO_USERS:
        return None
    if text == "auto":
        return _AUTO if _can_become(*_AUTO) else None
    first, last = (int(number) for number in text.split("-"))
    if not 1000 <= first <= last < 1 << 32:
        raise ConfigError(
            f"node.sandbox.uids: {text} is no range of users for jobs", "write the first and the last, from 1000 on"
        )
    return first, last


def _can_become(first: int, last: int) -> bool:
    """Whether this process may become each of these users. In containers there may be fewer than elsewhere."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text().splitlines()
    held = next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)
    known = [_mapped(Path(f"/proc/self/{kind}_map"), first, last) for kind in ("uid", "gid")]
    return held & _CAPABILITIES == _CAPABILITIES and all(known)


def _mapped(path: Path, first: int, last: int) -> bool:
    ranges = ([int(number) for number in line.split()] for line in path.read_text().splitlines())
    return any(inside <= first and last < inside + count for inside, _, count in ranges)
