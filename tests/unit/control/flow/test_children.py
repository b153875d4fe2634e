"""Jobs that running jobs submit: by the current attempt alone, once for each call, with no more than it was given."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from ares.core import keys
from ares.core.admit.children import adopted
from ares.core.refusal import Refusal
from ares.model.access import Principal, TokenRecord
from ares.model.job import Image, JobSpec
from ares.model.job_session import ChildAnswer, ChildCall
from ares.model.link import AttemptRef
from ares.model.secret import SecretRef
from ares.ports.store import Put
from tests.agents import ScriptedAgent
from tests.world import ALICE, BOB, World, spec

NODE = Principal(token_id="n1", tenant="", role="node", node="n1")
OTHER = Principal(token_id="n2", tenant="", role="node", node="n2")


class Family:
    """A running job that may submit others, and its agent."""

    def __init__(self, world: World, agent: ScriptedAgent, parent: str) -> None:
        self.world, self.agent, self.parent = world, agent, parent
        self.ref = agent.starts[parent].ref

    async def call(
        self, number: int = 1, node: Principal = NODE, ref: AttemptRef | None = None, detached: bool = False, **job: Any
    ) -> ChildAnswer:
        asked = encode(replace(spec(), **{"command": ("part", str(number)), **job}))
        call = ChildCall(ref=ref or self.ref, call=number, spec=asked, detached=detached)
        answer = await self.world.one.children.submit(node, call)
        await self.world.settle()
        return answer


@asynccontextmanager
async def family(children: int = 3, **job: Any) -> AsyncGenerator[Family]:
    async with World() as world:
        token = TokenRecord(id=ALICE.token_id, tenant="alpha", role=ALICE.role, sha256="")
        await world.store.txn([], [Put(keys.token(token.id), encode(token))])
        agent, parent = await world.running(children=children, **job)
        yield Family(world, agent, parent)


async def test_a_repeated_call_is_the_same_job_also_of_the_next_attempt() -> None:
    async with family() as made:
        first = await made.call(1)
        assert (first.code, first.replayed) == ("", False)
        assert (await made.call(1)).job == first.job
        state = made.world.state(first.job)
        assert state.child_of is not None
        assert (state.child_of.job, state.child_of.call, state.child_of.depth) == (made.parent, 1, 1)
        assert (state.submitted_by, state.request_id) == (ALICE.subject, f"child {made.parent}/1")
        made.agent.exited(made.agent.starts[made.parent], 1)
        await made.world.until(lambda: made.agent.starts[made.parent].ref != made.ref)
        late = await made.call(2)
        assert late.code == "stale-fence"
        again = await made.call(1, ref=made.agent.starts[made.parent].ref)
        assert (again.job, again.replayed) == (first.job, True)
        other = await made.call(1, ref=made.agent.starts[made.parent].ref, command=("else",))
        assert (other.code, "call=N" in other.fix) == ("request-conflict", True)


async def test_an_attempt_that_lost_its_fence_makes_no_job_whatever_the_view_says() -> None:
    async with family() as made:
        two = await made.world.add_replica()
        made.world.one.wire.hold_watch()
        # Another replica takes the attempt away; this one has not heard of it.
        await two.jobs.cancel(ALICE, made.parent)
        call = ChildCall(ref=made.ref, call=1, spec=encode(spec()))
        asking = asyncio.create_task(made.world.one.children.submit(NODE, call))
        await made.world.settle()
        made.world.one.wire.release_watch()
        await made.world.until(asking.done)
        assert (await asking).code == "stale-fence"
        assert set(made.world.audit.states) == {made.parent}


async def test_only_the_node_of_the_attempt_and_only_so_many_calls() -> None:
    async with family(children=2) as made:
        assert (await made.call(1, node=OTHER)).code == "stale-fence"
        assert (await made.call(1, ref=replace(made.ref, tenant="beta"))).code == "stale-fence"
        many = await made.call(3)
        assert (many.code, "may submit 2 jobs" in many.message) == ("not-allowed", True)
        assert (await made.call(2)).job
        bad = await made.world.one.children.submit(NODE, ChildCall(ref=made.ref, call=1, spec=b"{"))
        assert bad.code == "invalid"
    async with family(children=0) as made:
        assert (await made.call(1)).code == "not-allowed"


async def test_a_revoked_submitter_submits_nothing_more() -> None:
    async with family() as made:
        kv = await made.world.store.get(keys.token(ALICE.token_id))
        assert kv is not None
        token = TokenRecord(id=ALICE.token_id, tenant="alpha", role=ALICE.role, sha256="", revoked=True)
        await made.world.store.txn([], [Put(kv.key, encode(token))])
        await made.world.settle()
        assert (await made.call(1)).code == "forbidden"


async def test_cancelling_a_job_cancels_what_it_submitted_unless_detached() -> None:
    async with family() as made:
        child, free = await made.call(1), await made.call(2, detached=True)
        await made.world.one.jobs.cancel(ALICE, made.parent)
        await made.world.until(lambda: made.world.state(child.job).phase == "CANCELLED")
        assert f"job {made.parent} was cancelled" in made.world.state(child.job).reason
        assert made.world.state(free.job).phase != "CANCELLED"


async def test_a_new_leader_cancels_what_the_one_before_did_not() -> None:
    async with family() as made:
        child = await made.call(1)
        index, made.world.one.child_index.parents = made.world.one.child_index.parents, {}
        await made.world.one.jobs.cancel(ALICE, made.parent)
        await made.world.settle()
        assert made.world.state(child.job).phase != "CANCELLED"
        made.world.one.child_index.parents = index
        await made.world.one.crash()
        await made.world.add_replica()
        await made.world.until(lambda: made.world.state(child.job).phase == "CANCELLED")


PARENT = JobSpec(
    command=("x",), children=2, priority="LOW", network="none", isolation="process", team="t", project="ab" * 32,
    secrets=(SecretRef(name="mine", env="MINE"), SecretRef(name="login", registry="r.test")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"secrets": (SecretRef(name="theirs", env="A"),)}, "secret theirs"),
        # An account fetched the parent's image; the parent itself never saw it.
        ({"secrets": (SecretRef(name="login", env="A"),)}, "secret login"),
        ({"array": "0-3"}, "an array"),
        ({"children": 3}, "may submit 2 jobs"),
        ({"reservation": "big"}, "reservation big"),
        ({"project": "cd" * 32}, "another project"),
        ({"notify": ("ops",)}, "other channels"),
        ({"image": Image(ref="docker://elsewhere.test/what-it-knows")}, "no network"),
    ],
)
def test_what_the_parent_was_not_given_is_refused(asked: dict[str, Any], words: str) -> None:
    no = adopted(PARENT, JobSpec(command=("y",), **asked))
    assert isinstance(no, Refusal)
    assert (no.code, words in no.message, bool(no.fix)) == ("escalation", True, True)


def test_what_a_child_leaves_open_is_no_more_than_its_parents() -> None:
    child = adopted(PARENT, JobSpec(command=("y",), priority="CRITICAL", secrets=PARENT.secrets))
    assert isinstance(child, JobSpec)
    assert (child.priority, child.network, child.isolation, child.team) == ("LOW", "none", "process", "t")
    assert child.project == PARENT.project
    elsewhere = adopted(PARENT, JobSpec(command=("y",), workdir="/data"))
    assert isinstance(elsewhere, JobSpec)
    assert elsewhere.project is None


async def test_children_of_children_are_eight_deep() -> None:
    async with family(children=1) as made:
        for depth in range(1, 10):
            answer = await made.call(1, children=1)
            if depth == 9:
                assert (answer.code, "8 are allowed" in answer.message) == ("not-allowed", True)
                return
            await made.world.until(lambda job=answer.job: job in made.agent.starts)
            made.agent.started(made.agent.starts[answer.job])
            made.agent.exited(made.agent.starts[made.parent], 0)
            await made.world.settle()
            made.parent, made.ref = answer.job, made.agent.starts[answer.job].ref


async def test_children_are_seen_from_their_parent_and_its_workflow_within_the_tenant() -> None:
    async with family() as made:
        child = await made.call(2)
        detail = await made.world.one.jobs.get(ALICE, made.parent)
        assert detail is not None
        assert detail.child_counts == {made.world.state(child.job).phase: 1}
        assert [(job.id, job.call) for job in detail.children] == [(child.job, 2)]
        assert await made.world.one.jobs.get(BOB, made.parent) is None
        viewed = await made.world.one.jobs.get(ALICE, child.job)
        assert viewed is not None
        assert (viewed.children, viewed.child_counts) == ((), None)
