"""Jobs that must be kept apart go to nodes that do so: whoever asks, under whatever profile, at whatever time."""

from typing import Any

import msgspec

from ares.core import keys
from ares.core.admit.admission import decide
from ares.core.refusal import Refusal
from ares.core.schedule.plugins import rules_of
from ares.model.access import TenantRecord
from ares.model.isolation import Isolation
from ares.model.job import Gang, JobSpec
from ares.model.node import NodeInfo
from ares.model.profile import Profile
from ares.ports.store import Put
from tests.unit.core.schedule.nodes import node, table
from tests.world import BOB, World

SANDBOX: dict[str, Any] = {"isolation_level": "sandbox", "sandbox": ("pid-namespace", "net-namespace")}


async def asks(world: World, tenant: str, isolation: Isolation) -> None:
    record = TenantRecord(name=tenant, isolation=isolation)
    await world.store.txn((), (Put(keys.tenant(tenant), msgspec.json.encode(record)),))
    await world.settle()


async def test_a_tenant_that_asks_for_sandboxes_gets_nothing_less() -> None:
    """Its jobs wait and say why, others' do not; a node that has them takes them, and its agent is told."""
    async with World() as world:
        await asks(world, "alpha", "sandbox")
        weak = await world.agent("weak", isolation_level="process")
        job, other = await world.submit(), await world.submit(who=BOB)
        await world.settle()
        assert list(weak.starts) == [other]
        assert weak.starts[other].spec.isolation == "any"
        reason = world.one.planner.reason(job)
        assert reason is not None
        assert (reason.code, reason.remedy) == ("ISOLATION_UNMET", "operator")
        assert "the one node offers less than isolation 'sandbox'; the best, weak, offers 'process'" in reason.message
        strong = await world.agent("strong", **SANDBOX)
        await world.settle()
        assert strong.starts[job].spec.isolation == "sandbox"
        assert job not in weak.starts


async def test_what_a_tenant_asks_for_later_holds_for_jobs_that_wait() -> None:
    async with World() as world:
        waits = await world.submit()
        await asks(world, "alpha", "process")
        weak = await world.agent("weak")
        await world.settle()
        assert not weak.starts
        assert world.state(waits).phase == "PENDING"
        await asks(world, "alpha", "any")
        await world.settle()
        assert list(weak.starts) == [waits]


async def test_a_job_asks_for_more_than_its_tenant_and_never_gets_less() -> None:
    async with World() as world:
        await asks(world, "alpha", "sandbox")
        strong = await world.agent("strong", **SANDBOX)
        jobs = [await world.submit(isolation="any"), await world.submit(who=BOB, isolation="process")]
        await world.settle()
        assert [strong.starts[job].spec.isolation for job in jobs] == ["sandbox", "process"]


async def test_a_job_without_a_network_goes_where_that_can_be_had() -> None:
    """N47: a node that cannot make network namespaces is none for it, however well it does otherwise."""
    async with World() as world:
        await world.agent("wired", isolation_level="sandbox", sandbox=("pid-namespace",))
        job = await world.submit(network="none")
        await world.settle()
        reason = world.one.planner.reason(job)
        assert reason is not None
        assert "cannot give a job a network of its own" in reason.message
        able = await world.agent("able", **SANDBOX)
        await world.settle()
        assert list(able.starts) == [job]


def test_no_profile_can_leave_the_filter_out() -> None:
    """Also one that was stored before there was such a filter."""
    names = [name for name, _ in rules_of(Profile(filters=("cpu",))).filters]
    assert names == ["isolation", "pods", "cpu"]


def test_a_node_of_an_older_agent_offers_nothing() -> None:
    old = msgspec.json.decode(b'{"name":"n","cpuMilli":1,"memoryMib":1,"isolation":["pid-namespace"]}', type=NodeInfo)
    assert old.isolation_level == "any"
    columns = table(node("old", info={"isolation": ("pid-namespace",)}), node("new", info=SANDBOX))
    assert columns.isolation[:2].tolist() == [0, 2]
    assert columns.netless[:2].tolist() == [0, 1]
    columns.drop(1)
    assert columns.isolation[1] == 0


def test_a_gang_needs_a_network() -> None:
    found = decide(JobSpec(command=("true",), network="none", gang=Gang(ranks=2)))
    assert isinstance(found, Refusal)
    assert found.code == "gang-without-network"
    assert not isinstance(decide(JobSpec(command=("true",), network="none", gang=Gang(ranks=1))), Refusal)
