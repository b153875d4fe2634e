"""What one tenant reads takes time from nobody else: indexes, strides, and a share of the server's time."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ares.control.queries import job_list
from ares.control.state.index import JobIndex
from ares.control.state.pacing import PACE, breathe
from ares.core.limits import ServerLimits
from ares.edge.rest import answers
from ares.edge.rest.api import ApiSettings
from ares.edge.rest.http.pacing import Pacer, charged
from tests.integration.api.world import JOB, World, open_world

MANY = 300
JOBS = [{"spec": {**JOB, "name": f"job-{number % 3}", "labels": {"number": str(number)}}} for number in range(MANY)]


async def _filled(world: World, tenant: str = "acme") -> Any:
    async with world.client(tenant=tenant) as client:
        assert (await client.post("/v1/jobs/batch", json={"jobs": JOBS})).json()["created"] == MANY
        return (await client.get("/v1/whoami")).json()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/usage",
        "/v1/usage?by=job",
        "/v1/sla",
        "/v1/clusters",
        "/v1/prio?limit=1000",
        "/v1/jobs?limit=1000",
        "/v1/jobs?phase=FAILED",
        "/v1/jobs?node=none",
        "/v1/jobs/resolve?prefix=zzzz",
    ],
)
async def test_others_have_their_turn_during_a_long_read(
    world: World, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/usage`, `?name=` and `?label=` over 50,000 jobs made another tenant's requests wait for 1.6 s."""
    await _filled(world)
    rested: list[str] = []
    reads = ("explain", "jobs", "job_list", "nodes", "usage")
    for module in ("scheduler.deadlines", *(f"queries.{name}" for name in reads)):

        async def noted(module: str = module) -> None:
            rested.append(module)
            await breathe()

        monkeypatch.setattr(f"ares.control.{module}.breathe", noted)
        for name in ("LOOKED_AT", "WORKED_ON"):
            monkeypatch.setattr(f"ares.control.{module}.{name}", 32, raising=False)
    async with world.client() as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    # Of 300 jobs, in strides of 32.
    assert len(rested) >= MANY // 32


async def test_others_have_their_turn_during_a_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 jobs at once were checked, written and taken into the view in steps of 70 to 100 ms."""
    rested: list[str] = []
    for module in ("edge.rest.handlers.submit", "control.submit.submit"):

        async def noted(module: str = module) -> None:
            rested.append(module)
            await breathe()

        monkeypatch.setattr(f"ares.{module}.breathe", noted)
    steps: list[int] = []
    world.view.subscribe(lambda delta: steps.append(len(delta.states)))
    await _filled(world)
    await world.view.catch_up()
    assert min(rested.count("edge.rest.handlers.submit"), rested.count("control.submit.submit")) >= MANY // 32
    assert (sum(steps), max(steps) <= 40) == (MANY, True)


async def test_names_and_labels_are_found_without_looking_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await _filled(world)
    looked = 0
    matches = getattr(job_list, "_matches")  # noqa: B009 - how it looks at a job is its own affair

    def counted(state: Any, query: Any) -> bool:
        nonlocal looked
        looked += 1
        return matches(state, query)

    monkeypatch.setattr(job_list, "_matches", counted)
    async with world.client() as client:
        for query, found in (
            ("name=none", 0),
            ("label=number=7", 1),
            ("label=number=7&name=job-1", 1),
            ("label=number=7&name=job-2", 0),
            ("label=none=1", 0),
        ):
            looked = 0
            jobs = (await client.get(f"/v1/jobs?{query}")).json()["jobs"]
            assert (len(jobs), looked <= 1) == (found, True), query
        assert len((await client.get("/v1/jobs?name=job-1&limit=1000")).json()["jobs"]) == MANY // 3


async def test_pages_of_a_name_meet_end_to_end(world: World) -> None:
    await _filled(world)
    async with world.client() as client:
        for sort in ("submitted", "-submitted"):
            seen: list[str] = []
            cursor = ""
            while True:
                page = (await client.get(f"/v1/jobs?name=job-1&limit=7&sort={sort}&cursor={cursor}")).json()
                seen += [job["id"] for job in page["jobs"]]
                cursor = page["cursor"]
                if not cursor:
                    break
            assert len(seen) == len(set(seen)) == MANY // 3


async def test_labels_of_jobs_from_before_this_process(world: World) -> None:
    """Their specifications are not in memory: read once, when somebody asks."""
    await _filled(world)
    async with world.client() as client:
        job = (await client.get("/v1/jobs?label=number=5")).json()["jobs"][0]
        await world.finish_job(await world.start_job(job["id"]))
    index = JobIndex(world.store, world.view)
    await world.view.open()
    assert [place[1] for place in await index.labelled("acme", {"number": "5"})] == [job["id"]]
    reads = world.store.get
    world.store.get = None  # type: ignore[assignment]
    assert [place[1] for place in await index.labelled("acme", {"number": "5"})] == [job["id"]]
    world.store.get = reads  # type: ignore[method-assign]


async def test_a_long_answer_is_the_same_in_strides(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await _filled(world)
    async with world.client() as client:
        paths = ("/v1/jobs?limit=1000", "/v1/usage?by=job")
        strided = [(await client.get(path)).json() for path in paths]
        monkeypatch.setattr(answers, "WORKED_ON", 10**9)
        at_once = [(await client.get(path)).json() for path in paths]
    assert len(strided[0]["jobs"]) == MANY
    assert [list(one) for one in strided] == [list(one) for one in at_once]
    assert json.dumps(strided[0]["jobs"]) == json.dumps(at_once[0]["jobs"])


# ---- a share of the time


class Silent:
    """Counts nothing."""

    def count(self, name: str, by: float, *labels: str) -> None:
        pass


def pacer(**limits: Any) -> Pacer:
    return Pacer(ServerLimits(**limits), Silent())  # type: ignore[arg-type]


async def _work(strides: int, log: list[str], name: str) -> None:
    for _ in range(strides):
        # A stride that computes, as far as the clock can tell.
        until = asyncio.get_running_loop().time() + 0.002
        while asyncio.get_running_loop().time() < until:
            pass
        log.append(name)
        await breathe()


async def test_who_has_had_its_share_waits_and_others_do_not() -> None:
    """Shown by who comes first: the calm one began later and is done long before."""
    made = pacer(tenant_time_share=0.05, tenant_time_burst_s=0.001)
    log: list[str] = []
    await made.serve("calm", _work(0, log, "calm"))
    noisy = [asyncio.create_task(made.serve("noisy", _work(10, log, "noisy"))) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.create_task(made.serve("calm", _work(1, log, "calm")))
    assert log.index("calm") < 3 * len(noisy)
    assert not any(task.done() for task in noisy)
    for task in noisy:
        task.cancel()
    await asyncio.gather(*noisy, return_exceptions=True)
    assert made.waiting == 0


async def test_a_step_that_the_machine_interrupted_costs_its_tenant_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with load 35 a tenant was refused for time that other processes had had."""
    now = [0.0]
    monkeypatch.setattr("ares.edge.rest.http.pacing.perf_counter", lambda: now[0])
    made = pacer()

    async def interrupted() -> None:
        now[0] += 5.0

    await made.serve("other", _work(0, [], "other"))
    await made.serve("acme", interrupted(), writes=True)
    now[0] += 0.001
    await made.serve("other", _work(0, [], "other"))
    assert await made.begin("acme")


async def test_who_is_beyond_its_share_lets_those_within_theirs_pass() -> None:
    """Its next stride begins when nobody else is in service: shown by who is in service when it does."""
    made = pacer(tenant_time_share=0.05, tenant_time_burst_s=0.001)
    log: list[str] = []

    async def calm() -> None:
        within_share = await made.begin("calm")
        log.append("calm begins")
        # As long as a commit takes, and longer than the noisy one owes; nothing of it is charged.
        while made.waiting < 2:
            await asyncio.sleep(0)
        log.append("calm ends")
        made.end(within_share=within_share)

    noisy = [asyncio.create_task(made.serve("noisy", _work(3, log, "noisy"))) for _ in range(2)]
    await asyncio.create_task(made.serve("calm", calm()))
    between = log[log.index("calm begins") : log.index("calm ends")]
    assert between.count("noisy") <= len(noisy)
    await asyncio.gather(*noisy)
    assert (log.count("noisy"), made.waiting) == (6, 0)


async def test_a_write_costs_its_tenant_what_it_costs_the_server() -> None:
    """Commit, view and scheduler work for it as well: they were charged to nobody."""
    made, log = pacer(tenant_time_share=0.001, tenant_time_burst_s=0.000_001), list[str]()
    took: dict[str, float] = {}
    monkey = made.took
    made.took = lambda tenant, seconds, now: (  # type: ignore[method-assign]
        took.update({tenant: took.get(tenant, 0.0) + seconds}),
        monkey(tenant, seconds, now),
    )[1]
    await made.serve("reads", _work(1, log, ""))
    await made.serve("writes", _work(1, log, ""), writes=True)
    # The clock runs for at least 2 ms in either: far less than that apart, whatever the machine does meanwhile.
    assert took["writes"] >= 2 * 0.002


async def test_what_is_cancelled_hears_of_it() -> None:
    made, heard = pacer(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            heard.set()
            raise

    task = asyncio.create_task(made.serve("one", work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard.is_set()


async def test_tasks_within_a_request_are_charged_too() -> None:
    """A stream works in a task of its own: its tenant's next request waits for that."""
    made, log = pacer(tenant_time_share=0.01, tenant_time_burst_s=0.001), list[str]()

    async def work() -> None:
        assert PACE.get() is not None
        await asyncio.create_task(charged(_work(1, log, "inner")))

    await made.serve("other", _work(0, log, ""))
    serving = asyncio.create_task(made.serve("one", work()))
    while not log:
        await asyncio.sleep(0)
    assert made.waiting or not serving.done()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_who_owes_too_much_is_told_when_to_come_again(tmp_path: Path) -> None:
    limits = ServerLimits(tenant_time_share=0.001, tenant_time_burst_s=0.000_001, waiting_s=0.05)
    async with (
        open_world(tmp_path, ApiSettings(limits=limits)) as world,
        world.client() as client,
        world.client(tenant="other") as other,
    ):
        refused = None
        for _ in range(20):
            await other.get("/v1/whoami")
            answer = await client.get("/v1/jobs")
            if answer.status_code == 429:
                refused = answer
                break
        assert refused is not None
        assert "share of the server's time" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert 'ares_limited_total{reason="time"}' in (await world.services.metrics(False)).decode()
