"""What this node has of datasets, for other nodes: as far as the control plane sealed a request for it."""

import os
from collections.abc import Callable

from ares.agent.staging.dataset_shelf import DatasetShelf
from ares.agent.staging.stager import in_thread
from ares.agent.transfer.transfers import Transfers
from ares.api.projects import PART_BYTES
from ares.core.project import path_flaw
from ares.core.transfer.peers import PeerAsk, peer_ask
from ares.ports.clock import Clock

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class PeerFiles:
    """`key`: by which the control plane seals requests for this node; empty before it has told."""

    def __init__(self, shelf: DatasetShelf, key: Callable[[], str], transfers: Transfers, clock: Clock) -> None:
        self._shelf = shelf
        self._key = key
        self._transfers = transfers
        self._clock = clock

    async def answer(self, target: str) -> bytes | None:
        """`ports.link.PeerAnswer`."""
        ask = peer_ask(self._key(), target, self._clock.wall())
        if ask is None or ask.at < 0 or not 0 < ask.size <= PART_BYTES or _climbs(ask):
            return None
        await self._transfers.take(ask.tenant, "data", ask.size)
        # It is not removed while it is read.
        with self._shelf.pinned(ask.tenant, ask.version):
            return await in_thread(lambda: self._read(ask))

    def _read(self, ask: PeerAsk) -> bytes | None:
        if self._shelf.find(ask.tenant, ask.version) is None:
            return None
        try:
            fd = os.open(f"{self._shelf.files(ask.tenant, ask.version)}/{ask.path}", _READ)
        except OSError:
            return None
        try:
            return os.pread(fd, ask.size, ask.at)
        except OSError:
            return None
        finally:
            os.close(fd)


def _climbs(ask: PeerAsk) -> bool:
    return bool(path_flaw(ask.path)) or any(
        "/" in name or name in ("", ".", "..") for name in (ask.tenant, ask.version)
    )
