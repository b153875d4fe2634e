"""Jobs that wait for a person, a time or other jobs."""

import msgspec
import pytest

from ares.control.submit.submit import SubmitRequest
from ares.core.refusal import Refusal
from ares.model.job import Need, NeedsTimeout, Parent
from ares.model.state import JobState
from ares.ports.store import TXN_OPS_MAX
from tests.agents import ScriptedAgent
from tests.world import ALICE, BOB, World, spec


async def _end(world: World, agent: ScriptedAgent, job: str, code: int = 0) -> None:
    await world.until(lambda: job in agent.starts)
    agent.started(agent.starts[job])
    await world.settle()
    agent.exited(agent.starts[job], code)
    await world.settle()


def _after(job: str, on: str = "success") -> tuple[Need, ...]:
    return (Need(job=job, on=on),)  # type: ignore[arg-type]


async def test_a_held_job_is_not_started_and_keeps_its_age() -> None:
    async with World() as world:
        job = await world.submit()
        queued = world.state(job).queued_at
        held = await world.one.jobs.hold(ALICE, job, "not yet")
        assert isinstance(held, JobState)
        assert (held.phase, held.held_by, held.reason) == ("WAITING", ALICE.subject, "not yet")
        agent = await world.agent()
        await world.advance(5.0)
        assert job not in agent.starts
        explained = await world.one.explain.job(ALICE, job)
        assert explained is not None
        assert explained.reason is not None
        assert (explained.reason.code, explained.remedy) == ("HELD", "yours")
        again = await world.one.jobs.hold(ALICE, job)
        assert isinstance(again, Refusal)
        assert "already" in again.message
        free = await world.one.jobs.release(ALICE, job)
        assert isinstance(free, JobState)
        assert (free.phase, free.queued_at, free.held_by) == ("PENDING", queued, "")
        await world.until(lambda: job in agent.starts)
        assert world.kinds(job)[:3] == ["submitted", "held", "unheld"]


async def test_a_running_job_is_not_held_and_the_right_way_is_named() -> None:
    async with World() as world:
        _, job = await world.running()
        no = await world.one.jobs.hold(ALICE, job)
        assert isinstance(no, Refusal)
        assert no.code == "not-allowed"
        assert "RUNNING" in no.message
        assert f"ares cancel {job}" in no.fix
        no = await world.one.jobs.release(ALICE, job)
        assert isinstance(no, Refusal)
        assert "not held" in no.message


async def test_other_tenants_and_users_hold_nothing() -> None:
    async with World() as world:
        job = await world.submit()
        assert await world.one.jobs.hold(BOB, job) is None
        other = msgspec.structs.replace(ALICE, token_id="carol", user="carol", user_id="u2")
        no = await world.one.jobs.hold(other, job)
        assert isinstance(no, Refusal)
        assert no.code == "not-yours"


async def test_a_job_that_was_held_at_submission_can_be_cancelled() -> None:
    async with World() as world:
        await world.agent()
        job = await world.submit(held=True)
        await world.advance(5.0)
        assert world.state(job).phase == "WAITING"
        ended = await world.one.jobs.cancel(ALICE, job)
        assert isinstance(ended, JobState)
        assert ended.phase == "CANCELLED"


async def test_an_array_is_held_and_released_as_a_whole() -> None:
    async with World() as world:
        array = await world.submit(array="0-2")
        await world.settle()
        held = await world.one.jobs.hold(ALICE, array)
        assert isinstance(held, JobState)
        assert held.phase == "WAITING"
        assert {world.state(f"{array}_{index}").phase for index in range(3)} == {"WAITING"}
        free = await world.one.jobs.release(ALICE, array)
        assert isinstance(free, JobState)
        assert free.phase == "PENDING"
        no = await world.one.jobs.release(ALICE, array)
        assert isinstance(no, Refusal)
        assert "no task" in no.message


async def test_a_job_begins_at_its_time_and_not_before() -> None:
    async with World() as world:
        agent = await world.agent()
        job = await world.submit(begin_at=world.clock.wall() + 100.0)
        assert world.state(job).phase == "WAITING"
        await world.advance(99.0)
        explained = await world.one.explain.job(ALICE, job)
        assert explained is not None
        assert explained.reason is not None
        assert explained.reason.code == "BEGIN_AT"
        assert job not in agent.starts
        await world.until(lambda: job in agent.starts, 5.0)
        assert world.kinds(job)[:2] == ["submitted", "ready"]
        past = await world.submit(begin_at=world.clock.wall() - 1.0)
        assert world.kinds(past) == ["submitted"]


@pytest.mark.parametrize(
    ("on", "code", "phase"),
    [("success", 0, "PENDING"), ("success", 1, "SKIPPED"), ("failure", 1, "PENDING"), ("failure", 0, "SKIPPED"),
     ("end", 1, "PENDING"), ("end", 0, "PENDING")],
)  # fmt: skip
async def test_a_job_waits_for_another(on: str, code: int, phase: str) -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=1000)
        parent = await world.submit(restart="never")
        child = await world.submit(needs=_after(parent, on), cpu_milli=900_000)
        assert world.state(child).phase == "WAITING"
        explained = await world.one.explain.job(ALICE, child)
        assert explained is not None
        assert explained.reason is not None
        assert explained.reason.code == "WAITING_FOR_JOB"
        assert parent in explained.reason.message
        await _end(world, agent, parent, code)
        await world.until(lambda: world.state(child).phase == phase)
        assert world.kinds(child) == ["submitted", "ready" if phase == "PENDING" else "unmet"]


async def test_a_job_waits_for_the_start_of_another() -> None:
    async with World() as world:
        agent = await world.agent()
        parent = await world.submit()
        child = await world.submit(needs=_after(parent, "start"))
        await world.settle()
        assert world.state(child).phase == "WAITING"
        agent.started(agent.starts[parent])
        await world.until(lambda: child in agent.starts)


async def test_what_cannot_happen_skips_a_whole_chain() -> None:
    async with World() as world:
        parent = await world.submit()
        chain = [parent]
        for _ in range(5):
            chain.append(await world.submit(needs=_after(chain[-1])))
        after = await world.submit(needs=_after(chain[-1], "end"), cpu_milli=900_000)
        failed = await world.submit(needs=_after(parent), on_impossible="fail")
        runs = await world.submit(needs=_after(parent), on_impossible="run")
        await world.one.jobs.cancel(ALICE, parent)
        await world.until(lambda: world.state(after).phase == "PENDING")
        assert {world.state(job).phase for job in chain[1:]} == {"SKIPPED"}
        assert (world.state(failed).phase, world.state(runs).phase) == ("FAILED", "PENDING")
        assert f"it needs job {parent} to succeed" in world.state(chain[1]).reason


async def test_k_of_n() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=8000)
        parents = await world.submit_many(3, restart="never")
        two = Need(of=tuple(Parent(job=job) for job in parents), k=2)
        child = await world.submit(needs=(two,), held=True)
        await _end(world, agent, parents[0], 1)
        await _end(world, agent, parents[1])
        assert world.kinds(child) == ["submitted"]
        await _end(world, agent, parents[2])
        await world.settle()
        assert world.kinds(child) == ["submitted", "ready"]
        assert world.state(child).phase == "WAITING"
        free = await world.one.jobs.release(ALICE, child)
        assert isinstance(free, JobState)
        assert free.phase == "PENDING"


async def test_arrays_are_waited_for_as_a_whole_or_task_by_task() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=8000)
        array = await world.submit(array="0-2", restart="never")
        whole = await world.submit(needs=_after(array))
        each = await world.submit(array="0-1", needs=(Need(job=array, each=True),))
        await world.settle()
        await _end(world, agent, f"{array}_0")
        await world.until(lambda: f"{each}_0" in agent.starts)
        assert world.state(f"{each}_1").phase == "WAITING"
        await _end(world, agent, f"{array}_1", 1)
        await world.until(lambda: world.state(f"{each}_1").phase == "SKIPPED")
        assert world.state(whole).phase == "SKIPPED"


async def test_needs_are_given_up_in_time_by_the_monotonic_clock() -> None:
    async with World() as world:
        parent = await world.submit(held=True)
        wait = NeedsTimeout(after_s=60.0)
        child = await world.submit(needs=_after(parent), needs_timeout=wait)
        patient = await world.submit(needs=_after(parent), needs_timeout=NeedsTimeout(after_s=60.0, then="run"))
        world.clock.jump_wall(3600.0)
        await world.advance(59.0)
        assert world.state(child).phase == "WAITING"
        await world.advance(2.0)
        assert world.state(child).phase == "FAILED"
        assert "1 min" in world.state(child).reason
        assert world.state(patient).phase == "PENDING"


async def test_a_timeout_gives_nothing_up_that_has_happened_meanwhile() -> None:
    """The leader has not heard of the parent's end when the time is over: the transaction compares the parent."""
    async with World(replicas=2) as world:
        parent = await world.submit(held=True)
        needs, wait = (Need(job=parent, on="end"),), NeedsTimeout(after_s=3.0, then="skip")
        child = await world.submit(needs=needs, needs_timeout=wait)
        await world.settle()
        assert world.leading() == [world.one]
        world.one.wire.hold_watch()
        await world.two.jobs.cancel(ALICE, parent)
        await world.advance(4.0)
        assert world.state(child).phase == "WAITING"
        world.one.wire.release_watch()
        await world.until(lambda: world.state(child).phase == "PENDING")
        assert world.kinds(child) == ["submitted", "overdue", "ready"]


async def test_a_timeout_of_one_in_many_parents_gives_nothing_up_that_has_happened_meanwhile() -> None:
    """More parents than a transaction can compare."""
    async with World(replicas=2) as world:
        parents = [await world.submit(held=True) for _ in range(TXN_OPS_MAX + 1)]
        wait = NeedsTimeout(after_s=3.0, then="skip")
        happens = Need(of=tuple(Parent(job=parent) for parent in parents[:50]), k=1, on="end")
        more = Need(of=tuple(Parent(job=parent) for parent in parents[11:]), k=1, on="end")
        children = [await world.submit(needs=(need,), needs_timeout=wait) for need in (happens, more)]
        patient = await world.submit(needs=(happens,))
        await world.settle()
        world.one.wire.hold_watch()
        await world.two.jobs.cancel(ALICE, parents[49])
        await world.advance(4.0)
        assert [world.state(child).phase for child in children] == ["WAITING", "WAITING"]
        world.one.wire.release_watch()
        await world.until(lambda: all(world.state(job).phase == "PENDING" for job in (*children, patient)))


async def test_what_was_open_when_the_time_was_over_is_given_up_by_a_new_leader_too() -> None:
    async with World(replicas=2) as world:
        parent = await world.submit(held=True)
        wait = NeedsTimeout(after_s=3.0, then="skip")
        child = await world.submit(needs=_after(parent), needs_timeout=wait)
        await world.settle()
        world.one.wire.hold_watch()
        await world.advance(4.0)
        assert world.state(child).phase == "WAITING"
        assert world.state(child).needs_overdue
        await world.one.crash()
        await world.until(lambda: world.state(child).phase == "SKIPPED")
        assert world.kinds(child) == ["submitted", "overdue", "unmet"]


async def test_unknown_forgotten_and_others_jobs_are_the_same_answer() -> None:
    async with World() as world:
        theirs = await world.submit(who=BOB)
        answers: set[tuple[str, str]] = set()
        for name in (theirs, theirs[::-1], "gone"):
            (no,) = await world.one.submit.submit(ALICE, [_request(needs=_after(name))])
            assert isinstance(no, Refusal)
            answers.add((no.code, no.message.replace(name, "X")))
        assert answers == {("need-unknown", "job X, which it waits for, is not found")}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"needs": (Need(),)}, "need-invalid"),
        ({"needs": (Need(job="a", of=(Parent(job="b"),)),)}, "need-invalid"),
        ({"needs": (Need(of=(Parent(job="b"),), k=2),)}, "need-invalid"),
        ({"needs": (Need(of=(Parent(job="b"), Parent(job="b"))),)}, "need-invalid"),
        ({"needs": (Need(job="a", each=True),)}, "need-invalid"),
        ({"needs": (Need(job="a", at_step=5),)}, "need-invalid"),
        ({"needs": (Need(data="https://169.254.169.254/x"),)}, "need-invalid"),
        ({"needs": (Need(data="ares://datasets/x", job="a"),)}, "need-invalid"),
        ({"needs": tuple(Need(job=f"j{n}") for n in range(51))}, "needs-too-many"),
        ({"needs": (Need(of=tuple(Parent(job=f"j{n}") for n in range(800))),) * 2}, "needs-too-many"),
        ({"finally_": True}, "need-invalid"),
        ({"needs_timeout": NeedsTimeout(after_s=1.0)}, "need-invalid"),
    ],
)
async def test_needs_that_cannot_be_meant_are_refused(changes: dict[str, object], code: str) -> None:
    async with World() as world:
        (no,) = await world.one.submit.submit(ALICE, [_request(**changes)])
        assert isinstance(no, Refusal)
        assert no.code == code
        assert no.fix


async def test_a_service_never_succeeds_and_is_not_waited_for() -> None:
    async with World() as world:
        parent = await world.submit(restart="always")
        (no,) = await world.one.submit.submit(ALICE, [_request(needs=_after(parent))])
        assert isinstance(no, Refusal)
        assert "restart: always" in no.message
        await world.submit(needs=_after(parent, "start"))


async def test_a_parent_that_is_forgotten_meanwhile_is_refused_in_the_transaction() -> None:
    """The view has not heard of its end: the transaction compares."""
    async with World(replicas=2) as world:
        parent = await world.submit()
        await world.settle()
        await world.one.jobs.cancel(ALICE, parent)
        await world.settle()
        world.two.wire.hold_watch()
        world.later(31 * 86_400.0)
        assert world.leading() == [world.one]
        await world.one.retention.sweep()
        world.two.wire.release_watch()
        (no,) = await world.two.submit.submit(ALICE, [_request(needs=_after(parent))])
        assert isinstance(no, Refusal)
        assert no.code == "need-unknown"


async def test_a_parent_is_kept_as_long_as_a_job_goes_by_it() -> None:
    async with World() as world:
        done, open_ = await world.submit(), await world.submit(held=True)
        child = await world.submit(needs=(Need(of=(Parent(job=done), Parent(job=open_)), on="end"),))
        await world.one.jobs.cancel(ALICE, done)
        await world.settle()
        world.later(31 * 86_400.0)
        assert await world.one.retention.sweep() == 0
        await world.one.jobs.cancel(ALICE, open_)
        await world.until(lambda: world.state(child).phase == "PENDING")
        assert await world.one.retention.sweep() == 1


async def test_a_new_leader_releases_what_the_old_one_did_not() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent(replica=world.two)
        parent = await world.submit(replica=world.two)
        child = await world.submit(needs=_after(parent), replica=world.two)
        await world.until(lambda: parent in agent.starts)
        (old,) = world.leading()
        assert old is world.one
        await old.crash()
        agent.started(agent.starts[parent])
        agent.exited(agent.starts[parent], 0)
        await world.settle()
        assert world.state(parent).phase == "SUCCEEDED"
        assert world.state(child).phase == "WAITING"
        await world.until(lambda: child in agent.starts)
        assert world.kinds(child).count("ready") == 1


async def test_a_release_whose_answer_is_lost_happens_once() -> None:
    async with World() as world:
        parent = await world.submit()
        children = [await world.submit(needs=_after(parent, "end"), cpu_milli=900_000) for _ in range(3)]
        world.faults(None, "reply_lost", "reply_lost")
        await world.one.jobs.cancel(ALICE, parent)
        await world.until(lambda: all(world.state(child).phase == "PENDING" for child in children))
        assert [world.kinds(child) for child in children] == [["submitted", "ready"]] * 3


def _request(**changes: object) -> SubmitRequest:
    return SubmitRequest(spec=spec(**changes))
