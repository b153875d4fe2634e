"""Admission within quotas, through two replicas with views of their own."""

import asyncio
from typing import Any

import msgspec
import pytest

from ares.core import keys
from ares.core.quota.counts import TENANT
from ares.model.access import Principal
from ares.model.quota import Limit, Limits, Quota, QuotaRecord
from ares.ports.store import Put
from ares.services.submit import Rejected, SubmitRequest, Submitted
from tests.world import ADMIN, ALICE, BOB, World, spec


def quota(threshold: float = 1.0, **hard: float) -> Quota:
    """`cpu=10`, `gpu_hours=5`."""
    amounts = {name.replace("_", "-"): Limit(hard=most) for name, most in hard.items()}
    return Quota(own=Limits(amounts=amounts), threshold=threshold)


async def give(world: World, what: Quota, tenant: str = "alpha") -> None:
    record = QuotaRecord(tenant=tenant, quota=what)
    await world.store.txn([], [Put(keys.quota(tenant), msgspec.json.encode(record))])
    await world.settle()


async def ask(world: World, count: int, who: Principal = ALICE, **changes: Any) -> list[Submitted | Rejected]:
    """As many single submissions at once, through the replicas in turn."""
    replicas = world.replicas
    requests = [SubmitRequest(spec=spec(**changes), request_id=f"{who.token_id}-{n}") for n in range(count)]
    answers = await asyncio.gather(
        *(replicas[n % len(replicas)].submit.submit(who, [one]) for n, one in enumerate(requests))
    )
    return [answer for (answer,) in answers]


def admitted(answers: list[Submitted | Rejected]) -> int:
    return sum(isinstance(one, Submitted) for one in answers)


@pytest.mark.parametrize(("threshold", "fits"), [(1.0, 11), (0.99, 9)])
async def test_of_fifty_at_once_through_two_replicas_those_that_fit_are_admitted(threshold: float, fits: int) -> None:
    async with World(replicas=2, scheduling=False) as world:
        await give(world, quota(threshold, cpu=100))
        await world.submit_many(89)
        answers = await ask(world, 50)
        assert admitted(answers) == fits
        await world.settle()
        assert sum(one.phase == "PENDING" for one in world.audit.states.values()) == 89 + fits
        for no in (one for one in answers if isinstance(one, Rejected)):
            assert no.code == "quota-exceeded"
            tenant = next(one for one in no.levels if one.level == "tenant")
            assert (tenant.measure, tenant.asked, tenant.used, tenant.limit) == ("cpu", 1.0, 89.0 + fits, 100.0)
            assert tenant.exceeded
            assert tenant.free is not None
            assert tenant.free < 1.0
            assert no.retry_after_s is not None
