"""What happens to jobs, clients and agents when a process dies or the store goes back in time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from ares.model.job import JobSpec, Preemption, Resources, RetryPolicy
from tests.history import parse_fence, read_epoch
from tests.platform import Platform, eventually, run_cli


def waiting(gate: object, **more: object) -> JobSpec:
    """Runs until the gate file is there, then says under which fence it ran."""
    script = f'echo up; until [ -e {gate} ]; do sleep 0.05; done; echo "\\"$ARES_FENCE\\"" > "$ARES_RESULT_FILE"'
    return JobSpec(
        command=("sh", "-c", script), resources=Resources(cpu_milli=100, memory_mib=64),
        retry=RetryPolicy(base_s=0.1, max_s=0.2), **more,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


def test_unsafe_job_of_a_killed_agent_is_unknown(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    unsafe = client.submit(waiting("/nonexistent", effects="unsafe"))
    safe = client.submit(waiting(platform.directory / "go"))
    for job in (unsafe, safe):
        eventually(lambda job=job: client.get(job).state.phase == "RUNNING", "the start of both jobs")
    platform.agents["node-a"].kill()
    eventually(lambda: not platform.job_processes(), "the death of the killed agent's jobs")
    platform.agent("node-a")
    detail = client.wait(unsafe, timeout=30)
    assert (detail.state.phase, detail.state.attempt, detail.result) == ("UNKNOWN", 1, None)
    assert "person" in detail.state.reason
    assert platform.cli("wait", unsafe.id).code == 122
    (platform.directory / "go").touch()
    repeated = client.wait(safe, timeout=30)
    assert (repeated.state.phase, repeated.state.attempt) == ("SUCCEEDED", 2)
    assert repeated.state.retries == {"node-lost": 1}
    # A person looked, and says: again.
    again = client.retry(unsafe, "it had done nothing")
    assert (again.retry_of, again.id != unsafe.id) == (unsafe.id, True)
    client.cancel(again)


def test_jobs_outlive_the_server(platform: Platform) -> None:
    """A job that ends while nobody listens is committed once the server is back."""
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    job = client.submit(waiting(platform.directory / "go"))
    eventually(lambda: client.get(job).state.phase == "RUNNING", "the start of the job")
    platform.servers[0].kill()
    (platform.directory / "go").touch()
    eventually(lambda: not platform.job_processes(), "the end of the job's process")
    platform.server()
    detail = client.wait(job, timeout=30)
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 1)
    assert b"".join(client.logs(job)) == b"up\n"


def test_agent_that_is_told_to_stop_gives_its_jobs_back(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    saved = platform.directory / "saved"
    program = f"trap 'echo saved > {saved}; exit 0' USR1; until [ -e {platform.directory / 'go'} ]; do sleep 0.05; done"
    saves = JobSpec(
        command=("sh", "-c", program), resources=Resources(cpu_milli=100, memory_mib=64), grace_s=0.2,
        preemption=Preemption(checkpoint_signal="SIGUSR1"),
    )  # fmt: skip
    jobs = [client.submit(waiting(platform.directory / "go", grace_s=0.2)), client.submit(saves)]
    stays = client.submit(waiting(platform.directory / "go", grace_s=0.2, preemption=Preemption(allowed=False)))
    for job in (*jobs, stays):
        eventually(lambda job=job: client.get(job).state.phase == "RUNNING", "the start of the jobs")
    assert platform.agents["node-a"].terminate() == 0
    assert not platform.job_processes()
    assert saved.read_text() == "saved\n"
    for job in jobs:
        eventually(lambda job=job: client.get(job).state.phase == "PENDING", "the job's return to the queue")
    platform.agent("node-a")
    (platform.directory / "go").touch()
    for job in jobs:
        state = client.wait(job, timeout=30).state
        assert (state.phase, state.attempt, state.preemptions, state.retries) == ("SUCCEEDED", 2, 1, {})
    # What does not allow to be moved is lost with its node.
    state = client.wait(stays, timeout=30).state
    assert (state.phase, state.attempt, state.retries) == ("SUCCEEDED", 2, {"node-lost": 1})


def test_agent_that_finds_a_notice_gives_its_jobs_back(platform: Platform) -> None:
    """As a machine that is taken away at short notice says so."""
    platform.server()
    notice = platform.directory / "notice"
    agent = platform.agent("node-a", flags=[f"--set=node.notice_file={notice}"])
    client = platform.client()
    job = client.submit(waiting(platform.directory / "go", grace_s=0.2))
    eventually(lambda: client.get(job).state.phase == "RUNNING", "the start of the job")
    notice.touch()
    eventually(lambda: not agent.alive, "the end of the agent")
    eventually(lambda: client.get(job).state.phase == "PENDING", "the job's return to the queue")
    state = client.get(job).state
    assert (state.attempt, state.preemptions, state.retries) == (1, 1, {})


def test_restored_store_fences_off_what_came_after_the_copy(platform: Platform) -> None:
    server = platform.server()
    platform.agent("node-a")
    client = platform.client()
    done = client.submit(command=["true"])
    client.wait(done, timeout=30)
    client.cordon("node-a")
    job = client.submit(waiting(platform.directory / "go"), request_id="kept")
    copy = platform.directory / "copy.db"
    assert platform.cli("store", "backup", str(copy)).code == 0
    client.cordon("node-a", False)
    eventually(lambda: client.get(job).state.phase == "RUNNING", "the start of the job")
    forgotten = client.submit(command=["true"], request_id="after-the-copy")
    early = client.get(job).state.fence
    server.kill()
    restored = run_cli("store", "restore", str(copy), home=server.home)
    assert restored.code == 0, restored
    platform.server()

    eventually(lambda: not platform.job_processes(), "the end of the attempt nobody remembers")
    assert client.get(job).state.phase == "PENDING"
    assert client.get(done).state.phase == "SUCCEEDED"
    assert forgotten.id not in {state.id for state in client.list()}
    assert client.submit(waiting(platform.directory / "go"), request_id="kept").id == job.id
    client.cordon("node-a", False)
    (platform.directory / "go").touch()
    # Nothing is granted before the longest lease of the lost time is over.
    detail = client.wait(job, timeout=90)
    assert detail.result is not None
    assert detail.result.value == str(detail.result.fence)
    assert detail.result.fence > early
    assert (early.epoch, detail.result.fence.epoch) == (1, 2)
    grants = [parse_fence(event.fence) for event in client.job_events(job) if event.kind == "bound"]
    assert grants == [detail.result.fence]
    server.kill()
    assert read_epoch(platform.store_url) == 2


@contextmanager
def roaming(platform: Platform, first: int, gate: object) -> Iterator[None]:
    """One client of all replicas: what it began with the first goes on when that one is killed in the block."""
    client = platform.roaming_client(first)
    job = client.submit(waiting(gate))
    events, log = client.events("0", job), client.logs(job, follow=True)
    seen = [next(events)]
    # Both streams, and the waiting below, are open when the block begins.
    pieces = [next(log)]
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(client.wait, job, 60)
        eventually(lambda: client.get(job).state.phase == "RUNNING", "the start of the followed job")
        yield
        again = client.submit(command=["true"], request_id="once")
        assert client.submit(command=["true"], request_id="once").id == again.id
        assert b"".join([*pieces, *log]) == b"up\n"
        while seen[-1].event.phase != "SUCCEEDED":
            seen.append(next(events))
        state = ended.result().state
    assert (state.phase, state.attempt) == ("SUCCEEDED", 1)
    assert [item.event for item in seen] == list(client.job_events(job))


@pytest.mark.etcd
def test_three_replicas_survive_the_death_of_their_leader(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Platform(tmp_path_factory.mktemp("replicas"), "etcd", warm=True) as platform:
        for number in range(3):
            platform.server(number)
        for name in ("node-a", "node-b", "node-c"):
            platform.agent(name)
        leader = platform.leader()
        others = sorted({0, 1, 2} - {leader})
        client = platform.client(others[0])
        gate = platform.directory / "go"
        running = [client.submit(waiting(gate)) for _ in range(6)]
        for job in running:
            eventually(lambda job=job: client.get(job).state.phase == "RUNNING", "the start of the jobs")
        with roaming(platform, leader, gate):
            platform.servers[leader].kill()
            # Taken by a replica that does not lead, while nobody does.
            queued = client.submit(command=["true"])
            assert platform.leader() in others
            gate.touch()
        for job in (*running, queued):
            detail = platform.client(others[1]).wait(job, timeout=60)
            assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 1), detail.state
        assert all(node.ready for node in client.nodes())
        # A node joins by what is left of the control plane, and the lost replica comes back.
        platform.agent("node-d")
        for name in ("node-a", "node-b", "node-c"):
            client.cordon(name)
        assert client.wait(client.submit(command=["true"]), timeout=30).state.placements[0].node == "node-d"
        platform.server(leader)
        assert client.get(queued).state == platform.client(leader).get(queued).state
