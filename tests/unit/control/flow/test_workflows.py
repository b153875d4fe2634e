"""Workflows: all of it or nothing, in order, once."""

import asyncio
from typing import Any

import pytest

from ares.api.updates import JobUpdate
from ares.control.flow.submission import AcceptedFlow, FlowRequest
from ares.core.refusal import Refusal
from ares.model.job import JobSpec, Need, Parent
from ares.model.policy import Policy
from ares.model.state import JobState
from tests.agents import ScriptedAgent
from tests.world import ADMIN, ALICE, BOB, World, spec


def _flow(**jobs: JobSpec) -> FlowRequest:
    return FlowRequest(jobs=jobs)


def _after(*names: str, on: Any = "success", **changes: Any) -> JobSpec:
    return spec(needs=tuple(Need(job=name, on=on) for name in names), **changes)


async def _asked(world: World, request: FlowRequest) -> AcceptedFlow | Refusal:
    """Time passes meanwhile: a store that does not answer is waited for."""
    asking = asyncio.create_task(world.one.workflows.submit(ALICE, request))
    await world.until(asking.done)
    return await asking


async def _submit(world: World, request: FlowRequest) -> AcceptedFlow:
    done = await _asked(world, request)
    assert isinstance(done, AcceptedFlow), done
    await world.settle()
    return done


async def _refused(world: World, request: FlowRequest) -> Refusal:
    no = await world.one.workflows.submit(ALICE, request)
    assert isinstance(no, Refusal), no
    assert not world.audit.states
    return no


async def _run(world: World, agent: ScriptedAgent, codes: dict[str, int] | None = None) -> list[str]:
    """Lets everything run that is started, to its end. The ids, in the order of their starts."""
    ran: list[str] = []
    for _ in range(200):
        await world.advance(0.25)
        for job, start in list(agent.starts.items()):
            if job not in ran:
                ran.append(job)
                agent.started(start)
                agent.exited(start, (codes or {}).get(job, 0))
        await world.settle()
        if all(state.phase in ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELLED") for state in world.audit.states.values()):
            break
    return ran


DIAMOND = _flow(prep=spec(), left=_after("prep"), right=_after("prep"), join=_after("left", "right"))


async def test_a_diamond_runs_in_order() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=8000)
        done = await _submit(world, DIAMOND)
        ran = await _run(world, agent)
        names = {job: name for name, job in done.ids.items()}
        assert (names[ran[0]], names[ran[-1]]) == ("prep", "join")
        assert all(world.kinds(job).count("ready") == 1 for job in done.ids.values())
        detail = await world.one.workflows.get(ALICE, done.flow.id)
        assert detail is not None
        assert detail.counts == {"SUCCEEDED": 4}
        assert {(job.name, edge.job) for job in detail.jobs for edge in job.needs} == {
            ("left", "prep"), ("right", "prep"), ("join", "left"), ("join", "right"),
        }  # fmt: skip
        assert await world.one.workflows.get(BOB, done.flow.id) is None


async def test_a_failure_skips_what_follows_and_the_last_job_runs() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=8000)
        request = _flow(
            a=spec(restart="never"), b=_after("a"), c=_after("b"), mourn=_after("a", on="failure"),
            clean=spec(finally_=True),
        )  # fmt: skip
        done = await _submit(world, request)
        await _run(world, agent, {done.ids["a"]: 1})
        phases = {name: world.state(job).phase for name, job in done.ids.items()}
        assert phases == {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "mourn": "SUCCEEDED", "clean": "SUCCEEDED"}


async def test_cancelling_ends_all_but_the_last_job() -> None:
    async with World() as world:
        request = _flow(a=spec(), b=_after("a", on="end"), clean=spec(finally_=True))
        done = await _submit(world, request)
        cancelled = await world.one.workflows.cancel(ALICE, done.flow.id)
        assert cancelled is not None
        await world.settle()
        assert {name: world.state(job).phase for name, job in done.ids.items()} == {
            "a": "CANCELLED", "b": "CANCELLED", "clean": "PENDING",
        }  # fmt: skip
        assert await world.one.workflows.cancel(BOB, done.flow.id) is None


async def test_arrays_follow_arrays_task_by_task() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=8000)
        request = _flow(
            fold=spec(array="0-2", restart="never"),
            score=spec(array="0-2", needs=(Need(job="fold", each=True),)),
            best=spec(needs=(Need(job="score", on="end"),)),
        )
        done = await _submit(world, request)
        assert done.flow.tasks == 7
        await _run(world, agent, {f"{done.ids['fold']}_1": 1})
        score = done.ids["score"]
        assert [world.state(f"{score}_{n}").phase for n in range(3)] == ["SUCCEEDED", "SKIPPED", "SUCCEEDED"]
        assert world.state(done.ids["best"]).phase == "SUCCEEDED"


async def test_k_of_n_inside_a_workflow() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=8000)
        two = Need(of=(Parent(job="a"), Parent(job="b"), Parent(job="c")), k=2)
        request = _flow(a=spec(restart="never"), b=spec(), c=spec(), d=spec(needs=(two,)))
        done = await _submit(world, request)
        await _run(world, agent, {done.ids["a"]: 1})
        assert world.state(done.ids["d"]).phase == "SUCCEEDED"


async def test_the_same_request_is_the_same_workflow() -> None:
    async with World() as world:
        request = FlowRequest(jobs=DIAMOND.jobs, request_id="r1")
        first = await _submit(world, request)
        again = await _submit(world, request)
        assert (again.flow.id, again.ids, again.replayed) == (first.flow.id, first.ids, True)
        assert len(world.audit.states) == 4
        other = await world.one.workflows.submit(ALICE, FlowRequest(jobs={"x": spec()}, request_id="r1"))
        assert isinstance(other, Refusal)
        assert other.code == "request-conflict"


_NOTHING = Policy(name="nothing", when="true", action="reject", message="nothing more today")


async def test_what_was_taken_before_is_not_judged_again() -> None:
    """A repeated request finds its workflow, whatever room and policies say by now."""
    async with World(tenant_jobs_max=4) as world:
        request = FlowRequest(jobs=DIAMOND.jobs, request_id="r1")
        first = await _submit(world, request)
        assert (await _submit(world, request)).flow.id == first.flow.id
        written = await world.one.policies.save(ADMIN, _NOTHING)
        assert not isinstance(written, Refusal), written
        assert (await _submit(world, request)).ids == first.ids
        no = await world.one.workflows.submit(ALICE, FlowRequest(jobs=DIAMOND.jobs, request_id="r2"))
        assert isinstance(no, Refusal)
        assert no.code == "policy-rejected"


async def test_what_was_taken_in_part_has_its_room_already() -> None:
    async with World(tenant_jobs_max=70) as world:
        jobs = {"root": spec()} | {f"j{n}": _after("root") for n in range(60)}
        request = FlowRequest(jobs=jobs, request_id="r1")
        world.faults(*[None] * 2, *["refused"] * 3)
        assert isinstance(await _asked(world, request), Refusal)
        world.store.faults = type(world.store.faults)()
        await world.settle()
        assert 0 < len(world.audit.states) < 61
        done = await _submit(world, request)
        assert set(done.ids.values()) == set(world.audit.states)


async def test_a_project_that_is_not_here_refuses_the_workflow() -> None:
    async with World() as world:
        no = await _refused(world, _flow(a=spec(), b=spec(project="ab" * 32)))
        assert (no.code, no.path) == ("project-unknown", "$.jobs.b")
        assert no.message.startswith("job 'b': ")


async def test_an_array_throttled_while_it_is_written_is_whole_before_its_workflow_is() -> None:
    async with World(scheduling=False) as world:
        wire, struck = world.one.wire, list[str]()
        write = wire.txn

        async def txn(compares: Any, then: Any, otherwise: Any = ()) -> Any:
            task = next((op.key for op in then if op.key.endswith("_40")), None)
            if task is not None and not struck:
                struck.append(task)
                await world.one.view.catch_up()
                (array,) = world.one.view.arrays
                done = await world.one.steering.update(ALICE, array, JobUpdate(throttle=3))
                assert isinstance(done, JobState), done
            return await write(compares, then, otherwise)

        wire.txn = txn  # type: ignore[method-assign]
        done = await _submit(world, _flow(fold=spec(array="0-99")))
        assert struck
        assert len(world.audit.states) == 100
        array = world.one.view.arrays[done.ids["fold"]]
        assert (array.expanded, array.throttle) == (True, 3)


@pytest.mark.parametrize("fault", ["request_lost", "reply_lost", "refused"])
@pytest.mark.parametrize("at", range(6))
async def test_a_submission_that_breaks_off_is_taken_up_again(fault: str, at: int) -> None:
    """Whatever transaction is struck: nothing runs before all is there, and each job exists once."""
    async with World() as world:
        jobs = {"root": spec()} | {f"j{n}": _after("root") for n in range(60)}
        request = FlowRequest(jobs=jobs, request_id="r1")
        world.faults(*[None] * at, *[fault] * 3)
        while isinstance(no := await _asked(world, request), Refusal):
            assert no.code == "store-unavailable"
            await world.settle()
            assert {state.phase for state in world.audit.states.values()} <= {"WAITING"}
        done = await _submit(world, request)
        assert set(done.ids.values()) == set(world.audit.states)
        assert world.state(done.ids["root"]).phase == "PENDING"


async def test_a_submission_that_never_comes_back_is_given_up_and_skipped() -> None:
    async with World() as world:
        jobs = {"root": spec()} | {f"j{n}": _after("root") for n in range(60)}
        world.faults(None, None, *["refused"] * 40)
        request = FlowRequest(jobs=jobs, request_id="r1")
        assert isinstance(await _asked(world, request), Refusal)
        world.store.faults = type(world.store.faults)()
        assert world.audit.states
        await world.advance(130.0)
        await world.until(lambda: {state.phase for state in world.audit.states.values()} == {"SKIPPED"})
        again = await world.one.workflows.submit(ALICE, request)
        assert isinstance(again, Refusal)
        assert "given up" in again.message


async def test_circles_are_refused_with_the_path() -> None:
    async with World() as world:
        no = await _refused(world, _flow(a=_after("c"), b=_after("a"), c=_after("b"), d=_after("c")))
        assert (no.code, "a -> c -> b -> a" in no.message) == ("flow-cycle", True)


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ({"a": _after("a")}, "waits for itself"),
        ({"a": spec(name="b")}, "is called 'b' as well"),
        ({"a": spec(finally_=True), "b": _after("a")}, "runs when all others have ended"),
        ({"a": spec(restart="always"), "b": _after("a")}, "never ends"),
        ({"a": spec(array="0-1"), "b": spec(array="0-2", needs=(Need(job="a", each=True),))}, "no task 2"),
        ({"a": spec(), "b": spec(team="x")}, "2 teams"),
        ({f"j{n}": spec() for n in range(10_001)}, "10,001 jobs"),
        ({"a": spec(needs=tuple(Need(job=f"p{n}") for n in range(51)))}, "51 jobs outside"),
        ({"a": _after("nosuchjob")}, "job nosuchjob, which it waits for, is not found"),
    ],
)
async def test_workflows_that_cannot_be_meant_are_refused_whole(jobs: dict[str, JobSpec], words: str) -> None:
    async with World() as world:
        no = await _refused(world, FlowRequest(jobs=jobs))
        assert words in no.message
        assert no.fix


async def test_a_workflow_of_many_jobs_that_names_another_tenants_job_is_refused() -> None:
    async with World() as world:
        theirs = await world.submit(who=BOB)
        jobs = {f"j{n}": spec() for n in range(3000)} | {"last": _after(theirs)}
        no = await world.one.workflows.submit(ALICE, FlowRequest(jobs=jobs))
        assert isinstance(no, Refusal)
        assert no.code == "need-unknown"
        assert len(world.audit.states) == 1


async def test_a_part_runs_again_with_what_comes_after_it() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=8000)
        request = _flow(a=spec(), b=_after("a", restart="never"), c=_after("b"), d=_after("a"))
        done = await _submit(world, request)
        await _run(world, agent, {done.ids["b"]: 1})
        assert world.state(done.ids["c"]).phase == "SKIPPED"
        again = await world.one.workflows.retry(ALICE, done.flow.id, (), None)
        assert isinstance(again, AcceptedFlow), again
        assert set(again.ids) == {"b", "c"}
        await _run(world, agent)
        assert {world.state(job).phase for job in again.ids.values()} == {"SUCCEEDED"}
        named = await world.one.workflows.retry(ALICE, done.flow.id, ("a",), "r2")
        assert isinstance(named, AcceptedFlow)
        assert set(named.ids) == {"a", "b", "c", "d"}
        no = await world.one.workflows.retry(ALICE, done.flow.id, ("nosuch",), None)
        assert isinstance(no, Refusal)
        assert "no job 'nosuch'" in no.message
        assert await world.one.workflows.retry(BOB, done.flow.id, (), None) is None


async def test_old_workflows_are_forgotten_with_their_request_id() -> None:
    async with World() as world:
        done = await _submit(world, FlowRequest(jobs={"a": spec()}, request_id="r1"))
        await world.one.jobs.cancel(ALICE, done.ids["a"])
        await world.settle()
        world.later(31 * 86_400.0)
        await world.one.retention.sweep()
        await world.one.retention.sweep()
        assert await world.one.workflows.get(ALICE, done.flow.id) is None
        again = await _submit(world, FlowRequest(jobs={"a": spec()}, request_id="r1"))
        assert not again.replayed
