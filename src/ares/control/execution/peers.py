"""Which node another node reads a dataset from, and the URLs by which it may."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ares.control.governance.secrets import Secrets
from ares.control.state.view import View
from ares.core.dataset import cached_name
from ares.core.project import PartPlace
from ares.core.transfer.peers import PEER_URL_S, PeerAsk, peer_target
from ares.model.link import FetchPiece
from ares.model.node import NodeRecord
from ares.ports.clock import Clock

# What a node says of its address becomes part of a URL.
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", re.ASCII)
_LOOK_S: Final = 5.0
_KNOWN_MAX: Final = 256


class PeerAddresses:
    """One for all agents of a replica."""

    def __init__(self, view: View, secrets: Secrets, clock: Clock) -> None:
        self._view = view
        self._secrets = secrets
        self._clock = clock
        self._known: dict[str, tuple[float, tuple[NodeRecord, ...]]] = {}

    def pieces(
        self, node: str, tenant: str, version: str, places: Mapping[str, PartPlace], parts: tuple[str, ...]
    ) -> Iterator[FetchPiece] | None:
        """Where each part is, spread over the nodes that have the version, of the same rack where one has; None when no
        other node has it."""
        holders = [holder for holder in self._holders(cached_name(tenant, version)) if holder.info.name != node]
        own = self._view.nodes.get(node)
        rack = "" if own is None else own.info.rack
        near = [holder for holder in holders if rack and holder.info.rack == rack] or holders
        return self._urls(near, tenant, version, places, parts) if near else None

    def _urls(
        self,
        near: list[NodeRecord],
        tenant: str,
        version: str,
        places: Mapping[str, PartPlace],
        parts: tuple[str, ...],
    ) -> Iterator[FetchPiece]:
        until = int(self._clock.wall()) + PEER_URL_S
        for part in parts:
            holder, place = near[int(part[:8], 16) % len(near)], places[part]
            ask = PeerAsk(tenant, version, place.path, place.at, place.size, until)
            target = peer_target(self._secrets.peer_key(holder.info.name, holder.incarnation), ask)
            yield FetchPiece(sha256=part, data=b"", url=_origin(holder) + target, size=place.size, peer=True)

    def _holders(self, name: str) -> tuple[NodeRecord, ...]:
        """Nodes that are alive, have it, and let others read it; looked up now and then."""
        now = self._clock.monotonic()
        at, found = self._known.get(name, (-_LOOK_S, ()))
        if now - at >= _LOOK_S:
            found = tuple(
                record
                for node, record in self._view.nodes.items()
                if record.info.peer_port and name in record.cached and node in self._view.leases and _host(record)
            )
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[name] = (now, found)
        return found


def _host(record: NodeRecord) -> str:
    return record.info.address if _HOST.fullmatch(record.info.address) else ""


def _origin(record: NodeRecord) -> str:
    host = _host(record)
    return f"http://[{host}]:{record.info.peer_port}" if ":" in host else f"http://{host}:{record.info.peer_port}"
