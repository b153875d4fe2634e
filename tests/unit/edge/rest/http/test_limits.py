"""Turns when those who wait give up, and refusals that are held back."""

import asyncio

import pytest

from ares.core.limits import ServerLimits
from ares.edge.rest.http.limits import Meter, address, payer
from ares.edge.rest.http.problems import Problem
from ares.model.access import Principal
from tests.clocks import ManualClock, settle


class Counted:
    """A telemetry that only counts."""

    def count(self, name: str, by: float = 1, label: str = "") -> None:
        pass


def caller(tenant: str, home: str = "") -> Principal:
    return Principal(token_id="t", tenant=tenant, role="submitter", home=home)


def meter(clock: ManualClock | None = None, **limits: float) -> Meter:
    return Meter(ServerLimits(**limits), clock or ManualClock(), Counted())  # type: ignore[arg-type]


async def test_a_turn_that_comes_to_one_who_just_gave_up_goes_to_the_next() -> None:
    """However cancellations and turns fall together, no place is lost and none is given twice."""
    for moment in ("before", "same", "after"):
        lane = meter(served_at_once=1).lane("write")
        await lane.begin(caller("first"))
        gone = asyncio.create_task(lane.begin(caller("gone")))
        stays = asyncio.create_task(lane.begin(caller("stays")))
        await settle()
        if moment == "before":
            gone.cancel()
            await settle()
            lane.end(caller("first"))
        elif moment == "same":
            gone.cancel()
            lane.end(caller("first"))
        else:
            lane.end(caller("first"))
            gone.cancel()
        await settle()
        assert gone.cancelled()
        assert stays.done()
        assert lane.waiting == 0
        follows = asyncio.create_task(lane.begin(caller("follows")))
        await settle()
        assert not follows.done()
        lane.end(caller("stays"))
        await follows
        lane.end(caller("follows"))
        await lane.begin(caller("alone"))


async def test_refusals_are_at_once_while_they_are_few() -> None:
    clock = ManualClock()
    limits = meter(clock, refusals_per_s=1.0, refusals_burst=2.0, refusal_hold_s=3.0)
    await limits.hold("a")
    await limits.hold("a")
    held = asyncio.create_task(limits.hold("a"))
    await limits.hold("b")
    await settle()
    assert not held.done()
    await clock.advance(3.0)
    await asyncio.wait_for(held, 10)


def test_a_delegate_pays_for_itself() -> None:
    assert payer(caller("other", home="own")) == "own"
    limits = meter(tenant_requests_per_s=0.1, tenant_requests_burst=1.0)
    limits.admit(caller("other", home="own"), "read")
    limits.admit(caller("other"), "read")
    with pytest.raises(Problem) as over:
        limits.admit(caller("own"), "read")
    assert (over.value.code, over.value.reason) == ("rate-limited", "rate")


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
    ],
)
def test_an_address(host: str, key: str) -> None:
    assert address({"client": (host, 1)}) == key  # type: ignore[arg-type, typeddict-item]
