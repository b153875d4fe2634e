"""Tells the control plane what moves here, once a second and only while much does."""

import asyncio
from collections import defaultdict
from typing import Final

from ares.agent.link.mailbox import Mailbox
from ares.agent.transfer.transfers import WORTH_BYTES, Transfers
from ares.core.transfer.leases import LEASE_EVERY_S
from ares.model.quota import NodeMoves, TenantMoves
from ares.ports.clock import Clock

_FLOWS_MAX: Final = 1000


class MoveReports:
    def __init__(self, transfers: Transfers, mailbox: Mailbox, clock: Clock) -> None:
        self._transfers = transfers
        self._mailbox = mailbox
        self._clock = clock
        self._stirred = asyncio.Event()
        transfers.heed = self._stirred.set

    async def run(self) -> None:
        told, last = False, self._clock.monotonic() - LEASE_EVERY_S
        while True:
            await self._stirred.wait()
            # What waits for its rate is told at once, the rest when it lasts.
            rests_s = last + LEASE_EVERY_S - self._clock.monotonic() if self._transfers.waiting() else LEASE_EVERY_S
            if rests_s > 0:
                await self._clock.sleep(rests_s)
            self._stirred.clear()
            now = self._clock.monotonic()
            moves, last = self._moves(max(now - last, LEASE_EVERY_S)), now
            if moves != NodeMoves() or told:
                self._mailbox.moving(moves)
            if told := moves != NodeMoves():
                self._stirred.set()

    def _moves(self, over_s: float) -> NodeMoves:
        waiting = defaultdict(int, self._transfers.waiting())
        moved = self._transfers.moved()
        flows = [
            TenantMoves(tenant=tenant, kind=kind, moved=int(size / over_s), waiting=waiting[tenant, kind])
            for tenant, kind in dict.fromkeys((*moved, *waiting))
            if (size := moved.get((tenant, kind), 0)) >= WORTH_BYTES * over_s or waiting[tenant, kind]
        ]
        flows.sort(key=lambda flow: -flow.moved - flow.waiting)
        breakers = self._transfers.breakers()[:_FLOWS_MAX]
        paused = dict(list(self._transfers.paused().items())[:_FLOWS_MAX])
        return NodeMoves(flows=tuple(flows[:_FLOWS_MAX]), breakers=breakers, paused=paused)
