"""The rates of tenants on this node, as the control plane leases them: without a lease a limited tenant has little."""

import asyncio

from ares.agent.transfer.transfers import Transfers
from ares.model.link import TransferRates


class LeasedRates:
    """A lease that is not renewed ends by itself: a control plane that is gone may give the tenant's rate to others."""

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers
        self._floors: dict[str, float] = {}
        self._weights: dict[str, int] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def take(self, message: TransferRates) -> None:
        if message.floors is not None:
            self._limit(message.floors, message.weights)
        loop = asyncio.get_running_loop()
        for tenant, rate in message.leases.items():
            # A tenant that is not limited any more has no lease either.
            if tenant in self._floors:
                self._end(tenant)
                self._ends[tenant] = loop.call_later(message.lasts_s, self._back, tenant)
                self._set(tenant, rate)

    def _limit(self, floors: dict[str, float], weights: dict[str, int]) -> None:
        gone = (self._floors.keys() | self._weights.keys()) - floors.keys() - weights.keys()
        self._floors, self._weights = dict(floors), dict(weights)
        for tenant in gone:
            self._end(tenant)
            self._set(tenant, None)
        for tenant in floors.keys() | weights.keys():
            if tenant not in self._ends:
                self._set(tenant, floors.get(tenant))

    def _back(self, tenant: str) -> None:
        self._ends.pop(tenant, None)
        self._set(tenant, self._floors.get(tenant))

    def _end(self, tenant: str) -> None:
        if (timer := self._ends.pop(tenant, None)) is not None:
            timer.cancel()

    def _set(self, tenant: str, rate: float | None) -> None:
        self._transfers.set_rate(tenant, rate, self._weights.get(tenant, 1))
