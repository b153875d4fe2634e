"""A shadow profile on the jobs that come: judged by the leader, promoted and reverted, never two versions for one
decision. The process that replays is a script here: tests/unit/sim/tune/test_shadow.py has the real one."""

import msgspec
import pytest

from ares.control.shadow.messages import ShadowAnswer, ShadowQuestion
from ares.core.refusal import Refusal
from ares.model.profile import Profile, ProfileRecord, ShadowFigures, ShadowJudgement, ShadowRecord, ShadowVerdict
from tests.world import ADMIN, World

FIGURES = ShadowFigures(
    bounded_slowdown=2.0, mean_wait_s=60.0, mean_jct_s=90.0, p95_wait_s=70.0, p999_wait_s=80.0, longest_wait_s=90.0
)


class Judge:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, verdict: ShadowVerdict = "better") -> None:
        self.verdict: ShadowVerdict = verdict
        self.asked: list[ShadowQuestion] = []

    def __call__(self, frame: bytes) -> bytes:
        asked = msgspec.json.decode(frame, type=ShadowQuestion)
        self.asked.append(asked)
        gain = {"better": 0.3, "worse": -0.3}.get(self.verdict, 0.0)
        return msgspec.json.encode(
            ShadowAnswer(
                jobs=len(asked.jobs), others=0, since=asked.since, until=asked.now, base=FIGURES, shadow=FIGURES,
                verdict=self.verdict, gain=gain, low=gain - 0.1, high=gain + 0.1, blocks=8, of="eighths",
            )
        )  # fmt: skip


async def ended(world: World, count: int = 100) -> None:
    """So many jobs come, run for a minute and end."""
    agent = world.agents[0] if world.agents else await world.agent(cpu_milli=200_000, memory_mib=200_000)
    jobs = await world.submit_many(count)
    await world.until(lambda: all(job in agent.starts for job in jobs))
    for job in jobs:
        agent.started(agent.starts[job])
    await world.advance(60)
    for job in jobs:
        agent.exited(agent.starts[job])
    await world.until(lambda: all(world.state(job).phase == "SUCCEEDED" for job in jobs))


async def begun(world: World, **how: str) -> ShadowRecord:
    made = await world.one.shadow.shadows.begin(ADMIN, {"backfill.order": "shortest"}, **how)  # type: ignore[arg-type]
    assert isinstance(made, ShadowRecord)
    return made


def shadow(world: World) -> ShadowRecord:
    found = world.one.shadow.shadows.current
    assert found is not None
    return found


async def test_one_that_is_better_comes_into_force_and_one_that_is_worse_then_is_taken_back() -> None:
    judge = Judge()
    async with World(judge=judge) as world:
        before = world.one.view.profile
        await begun(world, promotes="when-better", note="for once")
        await ended(world)
        await world.until(lambda: shadow(world).phase == "promoted", 200)
        asked = judge.asked[0]
        assert (asked.base, asked.shadow.backfill.order, asked.chance) == (before.profile, "shortest", 0.025)
        assert len(asked.jobs) == 100
        force = world.one.view.profile
        assert (force.version, force.profile.backfill.order, force.by) == (1, "shortest", "shadow")
        assert force.note.startswith("better: gain 30.0 % over 100 jobs")
        # From now on what came before is what it is compared with, by jobs that came since.
        judge.verdict = "worse"
        await world.advance(200)
        assert len(judge.asked) == 1, "no job came since"
        await ended(world)
        await world.until(lambda: shadow(world).phase == "reverted", 200)
        assert (judge.asked[1].base, judge.asked[1].since) == (before.profile, force.at)
        back = world.one.view.profile
        assert (back.version, back.profile) == (2, before.profile)
        kinds = {alert.kind for alert in world.one.view.kept.alerts.values()}
        assert {"profile-promoted", "profile-reverted"} <= kinds
        await ended(world)
        await world.advance(200)
        assert len(judge.asked) == 2, "one that was taken back is judged no more"


@pytest.mark.parametrize("verdict", ["no-difference", "too-few", "waits-longer", "worse"])
async def test_what_is_not_surely_better_does_not_come_into_force(verdict: ShadowVerdict) -> None:
    async with World(judge=Judge(verdict)) as world:
        await begun(world, promotes="when-better")
        await ended(world)
        await world.until(lambda: shadow(world).looks == 1, 200)
        found = shadow(world)
        assert (found.phase, found.judgement and found.judgement.verdict) == ("held", verdict)
        assert world.one.view.profile.version == 0


async def test_a_person_promotes_it_whatever_was_found_and_a_later_change_ends_the_watch() -> None:
    judge = Judge("worse")
    async with World(judge=judge) as world:
        await begun(world)
        made = await world.one.shadow.shadows.promote(ADMIN, "I know better")
        assert isinstance(made, ProfileRecord)
        assert (made.version, made.by, made.note) == (1, ADMIN.author, "I know better")
        again = await world.one.shadow.shadows.promote(ADMIN)
        assert isinstance(again, Refusal)
        assert again.code == "profile-conflict"
        await world.one.profiles.change(ADMIN, {"preemption.gap": "1"})
        await ended(world)
        await world.until(lambda: shadow(world).phase == "superseded", 200)
        assert (judge.asked, world.one.view.profile.version) == ([], 2)


async def test_the_next_leader_goes_on_where_the_last_one_was() -> None:
    judge = Judge("no-difference")
    async with World(replicas=2, judge=judge) as world:
        leader, other = sorted(world.replicas, key=lambda replica: not replica.leader.leading)
        await world.agent(replica=other, cpu_milli=200_000, memory_mib=200_000)
        await begun(world, promotes="when-better")
        await ended(world)
        await world.until(lambda: shadow(world).looks == 1, 200)
        await leader.crash()
        world.replicas.remove(leader)
        judge.verdict = "better"
        await world.until(lambda: other.leader.leading)
        await ended(world)
        await world.until(lambda: shadow(world).phase == "promoted", 300)
        assert judge.asked[-1].chance == pytest.approx(0.05 / 6), "the second look, not the first again"
        assert len(judge.asked[-1].jobs) == 200
        assert world.one.view.profile.version == 1


async def test_of_a_verdict_and_a_person_at_once_one_makes_the_version() -> None:
    async with World(judge=Judge()) as world:
        await begun(world, promotes="when-better")
        record = shadow(world)
        found = await world.one.shadow.shadows.promote(ADMIN)
        assert isinstance(found, ProfileRecord)
        (guard,) = world.one.guards
        answer = msgspec.json.decode(Judge()(msgspec.json.encode(_question(record))), type=ShadowAnswer)
        late = ShadowJudgement(at=1.0, version=0, chance=0.025, **msgspec.structs.asdict(answer))
        await world.one.shadow.shadows.judged(record, late, guard)
        assert world.one.view.profile == found


def _question(record: ShadowRecord) -> ShadowQuestion:
    return ShadowQuestion(
        base=Profile(), shadow=record.profile, objective="slowdown", since=0.0, now=1.0, chance=0.05, nodes=(), jobs=()
    )


async def test_an_answer_of_the_store_that_is_lost_makes_no_second_version() -> None:
    async with World(judge=Judge()) as world:
        await begun(world)
        world.faults("reply_lost")
        made = await world.one.shadow.shadows.promote(ADMIN)
        assert isinstance(made, ProfileRecord)
        assert (made.version, world.one.view.profile) == (1, made)


async def test_what_cannot_be_tried_is_refused_and_what_is_not_there_said() -> None:
    async with World() as world:
        shadows = world.one.shadow.shadows
        nothing = await shadows.show()
        wrong = await shadows.begin(ADMIN, {"weight.no-such": "3"})
        same = await shadows.begin(ADMIN, Profile())
        assert [getattr(answer, "code", "") for answer in (nothing, wrong, same)] == [
            "not-found", "profile-invalid", "profile-invalid",
        ]  # fmt: skip
        assert isinstance(same, Refusal)
        assert "version 0" in same.message
        assert isinstance(await shadows.promote(ADMIN), Refusal)
        assert isinstance(await shadows.end(ADMIN), Refusal)
        await begun(world)
        assert isinstance(await shadows.end(ADMIN), ShadowRecord)
        assert isinstance(await shadows.show(), Refusal)
