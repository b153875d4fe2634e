"""Policies as records, and what they cost."""

import asyncio

from ares.adapters.store.memory import StoreFault
from ares.control.governance.policies import VERSIONS_KEPT
from ares.control.governance.policy_gate import Judging, Submission
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core.policy.facts import PolicyJob, facts
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.policy import Policy, PolicyRecord
from tests.world import ALICE, World, spec

OWNER = Principal(token_id="owner", tenant="alpha", role="tenant-admin")
BIG = Policy(name="big", when="job.gpus > 4", action="reject", message="ask first")


async def outcome(world: World, **changes: object) -> AcceptedJob | Refusal:
    (found,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(**changes))])
    return found


async def test_of_two_writers_through_two_replicas_both_are_versions_and_none_is_lost() -> None:
    async with World(replicas=2) as world:
        world.faults(StoreFault("delayed", 1.0))
        slow = asyncio.create_task(world.one.policies.save(OWNER, BIG))
        await world.settle()
        fast = await world.two.policies.save(OWNER, Policy(name="big", when="true", action="reject", message="m"))
        await world.advance(2)
        first, second = fast, await slow
        assert isinstance(first, PolicyRecord)
        assert isinstance(second, PolicyRecord)
        assert (first.version, second.version) == (1, 2)
        kept = await world.two.policies.versions(OWNER, "big", platform=False)
        assert kept == (second, first)
        for replica in world.replicas:
            assert replica.view.kept.policies["alpha/big"] == second


async def test_an_answer_that_got_lost_makes_one_version() -> None:
    async with World() as world:
        world.faults("reply_lost")
        saved = await world.one.policies.save(OWNER, BIG)
        assert isinstance(saved, PolicyRecord)
        assert (saved.version, len(await world.one.policies.versions(OWNER, "big", platform=False))) == (1, 1)
        world.faults("reply_lost")
        assert await world.one.policies.delete(OWNER, "big") is None
        assert await world.one.policies.versions(OWNER, "big", platform=False) == ()


async def test_old_versions_make_room() -> None:
    async with World() as world:
        for number in range(VERSIONS_KEPT + 3):
            saved = await world.one.policies.save(
                OWNER, Policy(name="big", when=f"job.gpus > {number}", action="reject", message="m")
            )
            assert isinstance(saved, PolicyRecord)
        kept = await world.one.policies.versions(OWNER, "big", platform=False)
        assert (len(kept), kept[0].version, kept[-1].version) == (VERSIONS_KEPT, VERSIONS_KEPT + 3, 4)


async def test_a_policy_saved_by_a_newer_version_that_this_one_cannot_read_denies() -> None:
    """Mixed versions: what cannot be judged is not let in, and the answer says why."""
    async with World() as world:
        newer = PolicyRecord(
            name="new", when="job.colour == 'red'", action="warn", message="m", version=1, tenant="alpha"
        )
        assert await world.one.policies._write(newer, None)  # pyright: ignore[reportPrivateUsage]
        found = await outcome(world)
        assert isinstance(found, Refusal)
        assert found.code == "policy-rejected"
        assert "policy new could not be evaluated" in found.message
        assert "there is no job.colour" in found.message


async def test_a_server_without_the_language_saves_nothing_and_lets_nothing_past() -> None:
    async with World() as world:
        assert isinstance(await world.one.policies.save(OWNER, BIG), PolicyRecord)
        judging = Judging(world.one.view, world.clock, None)
        judged = judging.judge(Submission(ALICE, spec()))
        assert judged.rejected is not None
        assert judged.rejected.unanswered


async def test_policies_that_take_too_much_time_deny_until_they_have_rested() -> None:
    """One tenant's costly rules must not hold up the others."""

    class Watch:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    class Slow:
        expression, names = "job.gpus > 4", ("job.gpus",)

        def run(self, values: object) -> bool:
            watch.now += 1.0
            return False

    watch = Watch()
    async with World() as world:
        await world.one.policies.save(OWNER, BIG)
        judging = Judging(world.one.view, watch, _Given(Slow()))  # type: ignore[arg-type]
        judge = judging.judge
        refused = [judge(Submission(ALICE, spec())).rejected for _ in range(5)]
        # Two seconds are saved up, and a fifth of every second comes back.
        assert [one is not None for one in refused] == [False, False, False, True, True]
        assert refused[3] is not None
        assert "of the time" in refused[3].message
        assert judge(Submission(Principal(token_id="bob", tenant="beta", role="submitter"), spec())).rejected is None
        watch.now += 10.0
        assert judge(Submission(ALICE, spec())).rejected is None


class _Given:
    """One rule for every expression."""

    def __init__(self, rule: object) -> None:
        self._rule = rule

    def compile(self, expression: str, wanted: str) -> object:
        return self._rule

    def values(self, facts: object) -> object:
        return facts


async def test_nothing_is_asked_of_tenants_or_costs_that_no_rule_reads() -> None:
    def never() -> float:
        raise AssertionError("nobody reads it")

    async with World() as world:
        await world.one.policies.save(OWNER, BIG)
        judging = Judging(world.one.view, world.clock, world.one.policies._judging._rules)  # pyright: ignore[reportPrivateUsage]
        given = Submission(ALICE, spec(gpus=8), cost=never, tenant=never)  # type: ignore[arg-type]
        judged = judging.judge(given)
        assert judged.rejected is not None
        assert judged.rejected.values == {"job.gpus": "8"}


async def test_values_that_may_be_secret_are_not_shown() -> None:
    """N26: what a rule looked at is told, but of lists and maps only how many or which keys."""
    async with World() as world:
        when = "'x' in job.command || 'K' in job.env_keys || job.labels.k == 'canary' || job.name == 'job'"
        await world.one.policies.save(OWNER, Policy(name="all", when=when, action="reject", message="m"))
        found = await outcome(world, env={"KEY": "canary"}, labels={"k": "canary"})
        assert isinstance(found, Refusal)
        assert "canary" not in found.message
        assert "job.command = 1 of them" in found.message
        assert "job.labels = k" in found.message


def test_facts_tell_no_values_of_the_environment() -> None:
    told = facts(PolicyJob(ALICE, spec(env={"KEY": "canary"})))
    assert "canary" not in repr(told)


async def test_an_array_is_judged_as_a_whole() -> None:
    async with World() as world:
        rule = Policy(name="total", when="job.total_cores > 50.0", action="reject", message="too many")
        await world.one.policies.save(OWNER, rule)
        assert isinstance(await outcome(world, array="0-49"), AcceptedJob)
        refused = await outcome(world, array="0-50")
        assert isinstance(refused, Refusal)
        assert "job.total_cores = 51" in refused.message


async def test_an_unsaved_policy_is_tried_on_jobs_of_one_tenant_or_of_all() -> None:
    async with World() as world:
        await world.submit_many(3)
        await world.submit_many(2, who=Principal(token_id="bob", tenant="beta", role="submitter"))
        await world.advance(100.0)
        await world.submit_many(1)
        every = Policy(name="all", when="true", action="reject", message="m")
        tried = await world.one.policies.try_out(OWNER, every)
        assert not isinstance(tried, Refusal)
        assert tried.text == "would have rejected 4 of 4 jobs"
        operator = Principal(token_id="op", tenant="ops", role="operator")
        tried = await world.one.policies.try_out(operator, every, platform=True)
        assert not isinstance(tried, Refusal)
        assert tried.looked_at == 6
        recent = await world.one.policies.try_out(OWNER, every, since=world.clock.wall() - 50.0)
        assert not isinstance(recent, Refusal)
        assert recent.looked_at == 1
        refused = await world.one.policies.try_out(OWNER, every, platform=True)
        assert isinstance(refused, Refusal)
        assert refused.code == "forbidden"


async def test_a_job_is_acknowledged_though_its_alert_cannot_be_written_yet() -> None:
    async with World() as world:
        rule = Policy(name="any", when="true", action="alert", message="a job")
        await world.one.policies.save(OWNER, rule)
        # The job's own transaction goes through; the next one, the alert's, is not answered for a minute.
        world.faults(None, StoreFault("delayed", 60.0))
        assert isinstance(await outcome(world), AcceptedJob)
        assert world.one.view.kept.alerts == {}
        await world.until(lambda: world.one.view.kept.alerts, within_s=120.0)
