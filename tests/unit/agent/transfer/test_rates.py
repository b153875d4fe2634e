"""Rates as the control plane leases them, and what it is told for that."""

import asyncio

import pytest

from ares.agent.link.mailbox import Mailbox
from ares.agent.transfer.move_reports import MoveReports
from ares.agent.transfer.rates import LeasedRates
from ares.agent.transfer.transfers import Transfers
from ares.model.link import Moving, TransferRates
from ares.model.quota import NodeMoves
from tests.clocks import ManualClock

MIB = 1 << 20


async def test_a_lease_that_is_not_renewed_ends_by_itself() -> None:
    transfers = Transfers(ManualClock())
    rates = LeasedRates(transfers)
    rates.take(TransferRates(floors={"a": 10.0}))
    assert transfers.rate("a") == 10.0
    rates.take(TransferRates(leases={"a": 500.0, "unlimited": 1.0}, lasts_s=0.01))
    assert transfers.rate("a") == 500.0
    assert not transfers.limited("unlimited")
    while transfers.rate("a") == 500.0:
        await asyncio.sleep(0.005)
    assert transfers.rate("a") == 10.0


async def test_floors_keep_a_lease_and_end_with_the_limit() -> None:
    transfers = Transfers(ManualClock())
    rates = LeasedRates(transfers)
    rates.take(TransferRates(floors={"a": 10.0, "b": 10.0}))
    rates.take(TransferRates(leases={"a": 500.0}, lasts_s=60.0))
    rates.take(TransferRates(floors={"a": 20.0}, weights={"c": 3}))
    assert transfers.rate("a") == 500.0
    assert not transfers.limited("b")
    rates.take(TransferRates(floors={}))
    assert not transfers.limited("a")


def told(mailbox: Mailbox) -> list[NodeMoves]:
    frame = mailbox.frame()
    return [] if frame is None else [message.moves for message in frame.messages if isinstance(message, Moving)]


async def test_what_waits_is_told_at_once_what_moves_each_second_and_the_end_once() -> None:
    clock, mailbox = ManualClock(), Mailbox()
    mailbox.tells_moves = True
    transfers = Transfers(clock)
    transfers.set_rate("a", MIB)
    telling = asyncio.create_task(MoveReports(transfers, mailbox, clock).run())
    taking = asyncio.create_task(transfers.take("a", "output", 3 * MIB))
    try:
        await clock.advance(0.1)
        (first,) = told(mailbox)
        assert [(flow.tenant, flow.kind) for flow in first.flows] == [("a", "output")]
        assert first.flows[0].waiting > 2 * MIB
        await clock.advance(1.0)
        (second,) = told(mailbox)
        assert second.flows[0].moved == pytest.approx(MIB, rel=0.4)
        await clock.advance(5.0)
        assert taking.done()
        assert told(mailbox) == [NodeMoves()]
        await clock.advance(60.0)
        assert told(mailbox) == []
    finally:
        telling.cancel()
        taking.cancel()
        await asyncio.gather(telling, taking, return_exceptions=True)


async def test_little_is_not_worth_a_message_and_an_older_control_plane_gets_none() -> None:
    clock, mailbox = ManualClock(), Mailbox()
    mailbox.tells_moves = True
    transfers = Transfers(clock)
    telling = asyncio.create_task(MoveReports(transfers, mailbox, clock).run())
    try:
        await transfers.take("a", "fetch", MIB // 2)
        await clock.advance(5.0)
        assert mailbox.news == 0
        mailbox.tells_moves = False
        await transfers.take("a", "fetch", 50 * MIB)
        await clock.advance(5.0)
        assert told(mailbox) == []
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
