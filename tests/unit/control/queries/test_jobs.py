"""Jobs as their owner sees them: nobody else's, read after write, listed without holes, retried within a budget."""

import pytest

from ares.api.jobs import JobPage
from ares.control.queries.job_list import JobQuery
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core import keys
from ares.core.lifecycle.handlers import MANUAL_RETRIES_MAX
from ares.core.refusal import Refusal
from ares.model.job import RetryPolicy
from ares.model.state import JobState
from ares.ports.store import Put
from tests.world import ALICE, BOB, KEEP_S, Replica, World, spec

NO_RETRY = RetryPolicy(limit=0)


async def test_another_tenants_job_is_no_job_at_all() -> None:
    async with World() as world:
        agent, job = await world.running()
        (made,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(array="0-2"))])
        assert isinstance(made, AcceptedJob)
        agent.log(agent.starts[job], 0, b"secret")
        await world.settle()
        jobs, before = world.one.jobs, world.state(job)
        for hidden in (job, made.job, f"{made.job}_1"):
            assert await jobs.get(BOB, hidden) is None
            assert await jobs.cancel(BOB, hidden) is None
            assert await jobs.retry(BOB, hidden) is None
            assert await jobs.events(BOB, hidden) is None
            assert await jobs.resolve(BOB, hidden[:8]) == ()
            assert await world.one.nodes.leases(BOB, hidden) == ()
            assert await world.one.logs.read(BOB, hidden, attempt=1, rank=0, offset=0, limit=9) is None
        assert await jobs.list(BOB, JobQuery()) == JobPage(jobs=())
        assert await world.one.nodes.leases(BOB, None) == ()
        assert world.state(job) == before


async def test_what_one_replica_acknowledged_another_reads() -> None:
    async with World(replicas=2) as world:
        job = await world.submit()
        seen = await world.two.jobs.get(ALICE, job)
        assert seen is not None
        assert await world.two.jobs.resolve(ALICE, job[:6]) == (job,)
        state = await world.two.jobs.cancel(ALICE, job, "no more")
        assert isinstance(state, JobState)
        again = await world.one.jobs.get(ALICE, job)
        assert again is not None
        assert (again.state.phase, again.state.reason) == ("CANCELLED", "no more")
        events = await world.one.jobs.events(ALICE, job)
        assert events is not None
        assert [event.kind for event in events] == ["submitted", "cancelled"]
        # Asked for again it is so, and nothing more is written.
        second = await world.one.jobs.cancel(ALICE, job, "again")
        assert isinstance(second, JobState)
        assert (second.phase, second.reason, second.seq) == ("CANCELLED", "no more", state.seq)


@pytest.mark.parametrize("sort", ["submitted", "-submitted"])
async def test_pages_are_complete_and_stable_while_jobs_arrive_and_on_every_replica(sort: str) -> None:
    async with World(replicas=2) as world:
        jobs = await world.submit_many(20) + [await world.submit() for _ in range(5)]
        found: list[str] = []
        cursor, turn = "", 0
        while True:
            replica: Replica = world.replicas[turn % 2]
            page = await replica.jobs.list(ALICE, JobQuery(sort=sort, limit=4, cursor=cursor))  # type: ignore[arg-type]
            assert isinstance(page, JobPage)
            found += [state.id for state in page.jobs]
            cursor, turn = page.cursor, turn + 1
            if not cursor:
                break
            if turn <= 4:
                jobs.append(await world.submit())
                await world.submit(who=BOB)
        assert len(found) == len(set(found))
        if sort == "submitted":
            assert found[20:] == jobs[20:]
            assert set(found) == set(jobs)
        else:
            assert set(found) == set(jobs[:25])


async def test_a_forged_or_borrowed_cursor_is_refused() -> None:
    async with World() as world:
        await world.submit_many(5)
        page = await world.one.jobs.list(ALICE, JobQuery(limit=2))
        assert isinstance(page, JobPage)
        good = page.cursor
        flipped = good[:-1] + ("A" if good[-1] != "A" else "B")
        assert isinstance(await world.one.jobs.list(BOB, JobQuery(cursor=good)), Refusal)
        for cursor in (flipped, good[:9], good + good, "x", "=" * 9, "\u00e9", "a\nb"):
            assert isinstance(await world.one.jobs.list(ALICE, JobQuery(cursor=cursor)), Refusal)


async def test_filters_leave_out_everything_else() -> None:
    async with World() as world:
        agent, job = await world.running(name="train", labels={"team": "a"})
        await world.submit(name="train", cpu_milli=90_000)
        ended = await world.submit(labels={"team": "a"}, name="x")
        await world.settle()
        agent.exited(agent.starts[ended])
        await world.settle()

        async def found(**query: object) -> list[str]:
            page = await world.one.jobs.list(ALICE, JobQuery(**query))  # type: ignore[arg-type]
            assert isinstance(page, JobPage)
            return [state.id for state in page.jobs]

        assert await found(phases=frozenset({"RUNNING"})) == [job]
        assert len(await found(name="train")) == 2
        assert await found(labels={"team": "a"}) == [ended, job]
        assert await found(labels={"team": "b"}) == []
        assert await found(node="n1", phases=frozenset({"RUNNING"})) == [job]
        assert await found(array="none") == []


# ---- retry


async def _fail(world: World, job: str) -> None:
    (agent,) = world.agents
    await world.settle()
    agent.exited(agent.starts[job], 1)
    await world.settle()


async def test_retrying_a_waiting_job_skips_its_backoff() -> None:
    async with World(replicas=2) as world:
        _, job = await world.running(retry=RetryPolicy(base_s=1000.0))
        await _fail(world, job)
        assert world.state(job).phase == "RETRYING"
        state = await world.two.jobs.retry(ALICE, job, "fixed it")
        assert isinstance(state, JobState)
        assert (state.id, state.phase, state.manual_retries) == (job, "PENDING", 1)
        await world.settle()
        assert world.state(job).phase == "STAGING"
        refused = await world.one.jobs.retry(ALICE, job)
        assert isinstance(refused, Refusal)
        assert refused.code == "not-allowed"


async def test_retries_of_finished_jobs_share_one_budget_over_the_whole_lineage() -> None:
    """Each retry is made of the newest job, so a budget per job would never run out."""
    async with World(replicas=2) as world:
        _, root = await world.running(retry=NO_RETRY, env={"A": "1"})
        await _fail(world, root)
        newest, made = root, []
        for turn in range(MANUAL_RETRIES_MAX):
            state = await world.replicas[turn % 2].jobs.retry(ALICE, newest)
            assert isinstance(state, JobState)
            assert state.id not in (root, *made)
            assert state.retry_of == root
            newest = state.id
            made.append(newest)
            await _fail(world, newest)
            assert world.state(newest).phase == "FAILED"
        for job in (root, newest, made[3]):
            refused = await world.one.jobs.retry(ALICE, job)
            assert isinstance(refused, Refusal)
            assert refused.code == "budget-exhausted"
        assert world.state(root).seq == 4
        detail = await world.one.jobs.get(ALICE, newest)
        assert detail is not None
        assert detail.spec.env == {"A": "1"}


async def test_success_is_not_retried_and_an_array_task_becomes_a_job_of_its_own() -> None:
    async with World() as world:
        agent, job = await world.running()
        agent.exited(agent.starts[job])
        (made,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(array="3-4", retry=NO_RETRY))])
        assert isinstance(made, AcceptedJob)
        await world.settle()
        done = await world.one.jobs.retry(ALICE, job)
        assert isinstance(done, Refusal)
        await _fail(world, f"{made.job}_3")
        state = await world.one.jobs.retry(ALICE, f"{made.job}_3")
        assert isinstance(state, JobState)
        assert (state.array, state.retry_of) == (None, f"{made.job}_3")
        whole = await world.one.jobs.get(ALICE, made.job)
        assert whole is not None
        assert whole.array_counts == {"FAILED": 1, "STAGING": 1}
        refused = await world.one.jobs.retry(ALICE, made.job)
        assert isinstance(refused, Refusal)
        assert await world.one.jobs.retry(BOB, made.job) is None


# ---- retention


async def test_old_jobs_are_forgotten_whole_and_young_ones_kept() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent(auto=True)
        requests = [SubmitRequest(spec=spec(), request_id="r"), SubmitRequest(spec=spec(array="0-5"), request_id="a")]
        old = await world.one.submit.submit(ALICE, requests)
        await world.settle()
        assert agent.connected
        world.later(KEEP_S)
        agent.auto = False
        young = await world.submit()
        await world.settle()
        agent.exited(agent.starts[young])
        await world.settle()
        world.later(60)
        while await world.one.retention.sweep():
            pass
        await world.one.retention.sweep()
        await world.settle()
        for outcome in old:
            assert isinstance(outcome, AcceptedJob)
            for replica in world.replicas:
                assert await replica.jobs.get(ALICE, outcome.job) is None
        left = await world.store.range("/")
        kinds = [
            kv.key for kv in left.kvs if not kv.key.startswith(("/nodes", "/leases", "/leader", "/epoch", "/clock"))
        ]
        assert kinds
        own = keys.state("", young).rsplit("/", 1)[1]
        assert all(own in key for key in kinds)
        fresh = await world.one.submit.submit(ALICE, requests)
        assert all(isinstance(outcome, AcceptedJob) and not outcome.replayed for outcome in fresh)


async def test_logs_that_cannot_be_removed_do_not_end_the_leaders_reign() -> None:
    async with World() as world:
        await world.agent(auto=True)
        old = await world.submit()
        await world.settle()
        # Left behind by another replica, which wrote it as the job ended.
        await world.store.txn([], [Put(keys.progress(ALICE.tenant, old), b'{"job":"x","fence":{}}')])

        def read_only(*_: object) -> None:
            raise OSError(30, "Read-only file system")

        world.logs.delete = read_only  # type: ignore[method-assign]
        world.later(KEEP_S + 60)
        await world.advance(1201)
        assert await world.one.jobs.get(ALICE, old) is None
        assert old not in world.one.view.progress
        assert len(world.one.guards) == 1


async def test_a_wall_clock_that_jumps_ahead_forgets_nothing() -> None:
    async with World() as world:
        await world.agent(auto=True)
        job = await world.submit()
        await world.settle()
        world.clock.jump_wall(KEEP_S + 60)
        # However often it looks.
        await world.advance(1801)
        assert await world.one.jobs.get(ALICE, job) is not None
        # Set right in time, nothing is lost.
        world.clock.jump_wall(-KEEP_S - 60)
        await world.advance(601)
        assert await world.one.jobs.get(ALICE, job) is not None
        world.later(KEEP_S + 60)
        await world.advance(1201)
        assert await world.one.jobs.get(ALICE, job) is None
