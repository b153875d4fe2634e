"""A whole configuration on its way to another process of ours: what was given to one is used by all of them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from ares.app import connection_file
from ares.app.config import MAPS, Config, ConfigError, NodeConfig
from ares.core.net.addresses import is_loopback
from ares.model.node import Taint

# What a supervisor was started with, for `ares up` to compare with.
_FILE = "up.json"
_ANY = ("0.0.0.0", "::", "")


def settled(config: Config) -> Config:
    """With what follows from the agent being beside its server. What was given stays as it was given."""
    node, agents = config.node, config.agents
    if node.servers == NodeConfig().servers:
        if not agents.port:
            raise ConfigError(
                "agents.port is 0, a port nobody knows, and the agent beside the server has to find it",
                "choose one, as in --set agents.port=8643",
            )
        host = "127.0.0.1" if agents.host in _ANY else agents.host
        shown = f"[{host}]" if ":" in host else host
        node = msgspec.structs.replace(node, servers=(f"{shown}:{agents.port}",))
    if agents.tls == "auto" and not is_loopback(agents.host):
        # The server has TLS there; the agent, which comes by loopback, could not tell.
        agents = msgspec.structs.replace(agents, tls="on")
    node = msgspec.structs.replace(node, name=node.name or "local", mock_gpu=node.mock_gpu or "auto")
    return msgspec.structs.replace(config, node=node, agents=agents)


def text(config: Config) -> bytes:
    """As a configuration file has it."""
    tree = cast("dict[str, Any]", msgspec.to_builtins(config))
    tree["node"]["taints"] = [_taint(one) for one in config.node.taints]
    return msgspec.json.encode(tree)


def _taint(one: Taint) -> str:
    return f"{one.key}={one.value}:{one.effect}"


def environment(config: Config, more: Mapping[str, str] = {}) -> dict[str, str]:
    """For a process that is given the whole configuration: nothing in its surroundings adds to it."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith("ARES_") and "__" in name) and name != "ARES_MOCK_GPU"
    }
    return {**own, "ARES_HOME": config.home, **more}


def leave(config: Config) -> None:
    """Writes the configuration for commands that start while the platform runs."""
    connection_file.replace(config.home_path / _FILE, text(config))


def differences(home: Path, wanted: Config, keys: frozenset[str] | None) -> list[str]:
    """Of what runs there, the values that are not as wanted: all of them, or of these keys."""
    try:
        running = dict(_leaves(msgspec.json.decode((home / _FILE).read_bytes())))
    except (OSError, msgspec.DecodeError):
        return []
    asked = dict(_leaves(msgspec.json.decode(text(settled(wanted)))))
    return [
        f"{key} is {running.get(key)!r}, not {value!r}"
        for key, value in asked.items()
        if running.get(key) != value and (keys is None or any(key == one or one.startswith(f"{key}.") for one in keys))
    ]


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in MAPS:
            yield from _leaves(cast("dict[str, Any]", value), f"{key}.")
        else:
            yield key, value
