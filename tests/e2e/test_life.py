"""A job's whole life through real processes, on each store."""

import pytest

from ares.edge.client.errors import Conflict
from ares.model.job import JobSpec, Resources, RetryPolicy, Warn
from ares.model.state import Phase
from tests.platform import Platform, eventually

# Many small jobs fit on two CPUs.
SMALL = Resources(cpu_milli=100, memory_mib=64)
NO_RETRY = RetryPolicy(limit=0)


def shell(script: str, *, gpus: int = 0, **more: object) -> JobSpec:
    resources = Resources(cpu_milli=100, memory_mib=64, gpus=gpus)
    return JobSpec(command=("sh", "-c", script), resources=resources, **more)  # pyright: ignore[reportArgumentType]


def test_gpu_job_runs_to_its_result_and_its_log_is_followed_live(either: Platform) -> None:
    client = either.client()
    gate = either.directory / "go"
    job = client.submit(
        shell(
            f"echo gpus=$CUDA_VISIBLE_DEVICES; until [ -e {gate} ]; do sleep 0.05; done; echo done; "
            'echo \'{"answer": 42}\' > "$ARES_RESULT_FILE"',
            gpus=2,
        )
    )
    pieces = client.logs(job, follow=True)
    first = next(pieces)
    # The job waits for us: what we have read so far was sent while it ran.
    assert first.decode().startswith("gpus=")
    assert len(set(first.decode().strip().removeprefix("gpus=").split(","))) == 2
    # Output may come before the report of the start is committed.
    eventually(lambda: client.get(job).state.phase == "RUNNING", "RUNNING")
    gate.touch()
    assert b"".join(pieces) == b"done\n"
    detail = client.wait(job, timeout=30)
    gate.unlink()
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 1)
    assert detail.result is not None
    assert detail.result.value == {"answer": 42}
    assert detail.result.fence == detail.state.fence
    assert [event.kind for event in client.job_events(job)] == ["submitted", "bound", "started", "succeeded"]


def test_array_runs_every_task_once(either: Platform) -> None:
    client = either.client()
    script = 'echo "{\\"index\\": $ARES_ARRAY_INDEX, \\"array\\": \\"$ARES_ARRAY_ID\\"}" > "$ARES_RESULT_FILE"'
    array = client.submit(shell(script, array="0-8:2,20"))
    assert array.tasks == 6
    detail = client.wait(array, timeout=60)
    assert detail.array_counts is not None
    assert {phase: n for phase, n in detail.array_counts.items() if n} == {"SUCCEEDED": 6}
    results = [client.get(f"{array.id}_{index}").result for index in (0, 2, 4, 6, 8, 20)]
    values = [None if result is None else result.value for result in results]
    assert values == [{"index": index, "array": array.id} for index in (0, 2, 4, 6, 8, 20)]


def test_cancel_ends_a_job_that_ignores_sigterm(either: Platform) -> None:
    client = either.client()
    job = client.submit(shell("trap '' TERM; echo armed; while :; do sleep 0.1; done", grace_s=0.5))
    assert next(client.logs(job, follow=True)) == b"armed\n"
    state = client.cancel(job, "enough")
    assert (state.phase, state.lingering) == ("CANCELLED", True)
    eventually(lambda: not client.get(job).state.lingering, "the release of the cancelled job")
    assert job.id not in " ".join(either.job_processes().values())
    final = client.get(job)
    assert (final.state.phase, final.result) == ("CANCELLED", None)
    assert [event.kind for event in client.job_events(job)][-2:] == ["cancelled", "released"]
    # Once more is no error, and changes nothing.
    assert client.cancel(job) == final.state


def test_time_limit_warns_then_terminates_then_kills(either: Platform) -> None:
    client = either.client()
    script = "trap 'echo warned' USR1; trap 'echo told' TERM; echo armed; while :; do sleep 0.05; done"
    # Five seconds to set its traps; from each signal on, time to hear it before the next, also on a busy machine.
    spec = shell(script, time_limit_s=10.0, warn=Warn(signal="SIGUSR1", before_s=5.0), grace_s=5.0)
    job = client.submit(spec)
    detail = client.wait(job, timeout=60)
    assert detail.state.phase == "FAILED"
    assert detail.state.exit is not None
    assert (detail.state.exit.failure, detail.state.exit.signal) == ("time-limit", "SIGKILL")
    # The shell also remarks on the death of its `sleep`, which is in the same process group.
    said = [line for line in b"".join(client.logs(job)).split(b"\n") if line in (b"armed", b"warned", b"told")]
    assert said == [b"armed", b"warned", b"told"]


def test_failed_attempts_are_repeated_and_the_next_try_is_visible(either: Platform) -> None:
    client = either.client()
    flag = either.directory / f"retry-{either.store_url.partition(':')[0]}"
    policy = RetryPolicy(limit=2, base_s=3600.0, max_s=3600.0)
    job = client.submit(shell(f"[ -e {flag} ] && exit 0; touch {flag}; exit 7", retry=policy))
    waiting = eventually(lambda: d if (d := client.get(job)).state.phase == "RETRYING" else None, "the first failure")
    assert waiting.state.retries == {"exit": 1}
    assert waiting.state.retry_at is not None
    assert waiting.state.retry_at == pytest.approx(waiting.state.retry_delay_s + waiting.state.queued_at, abs=60)
    assert "retry 1 of 2" in waiting.state.reason
    assert client.retry(job, "do not wait").phase in ("PENDING", "STAGING", "RUNNING", "SUCCEEDED")
    detail = client.wait(job, timeout=30)
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 2)
    assert detail.result is not None
    assert detail.result.attempt == 2


@pytest.mark.parametrize(
    ("restart", "script", "phase", "attempts"),
    [
        ("never", "exit 3", "FAILED", 1),
        ("on-failure", "exit 3", "FAILED", 2),
        ("on-failure", "exit 0", "SUCCEEDED", 1),
    ],
)
def test_restart_policies(either: Platform, restart: str, script: str, phase: Phase, attempts: int) -> None:
    client = either.client()
    detail = client.wait(client.submit(shell(script, restart=restart, retry=RetryPolicy(limit=1, base_s=0.0))), 60)
    assert (detail.state.phase, detail.state.attempt) == (phase, attempts)
    assert detail.result is not None
    assert detail.result.exit.code == int(script[-1])


def test_restart_always_goes_on_until_cancelled(either: Platform) -> None:
    client = either.client()
    job = client.submit(shell("exit 0", restart="always"))
    eventually(lambda: client.get(job).state.restarts >= 3, "three restarts")
    client.cancel(job)
    detail = client.wait(job, timeout=30)
    assert (detail.state.phase, detail.result) == ("CANCELLED", None)
    fences = [event.fence for event in client.job_events(job) if event.kind == "bound"]
    assert len(set(fences)) == len(fences) >= 3


def test_a_finished_job_is_retried_as_a_new_one(either: Platform) -> None:
    client = either.client()
    first = client.wait(client.submit(shell("exit 9", retry=NO_RETRY)), timeout=30)
    again = client.retry(first, "once more")
    assert again.id != first.state.id
    assert again.retry_of == first.state.id
    second = client.wait(again, timeout=30)
    assert second.state.phase == "FAILED"
    assert client.get(first) == first


def test_resubmission_gives_the_same_job(either: Platform) -> None:
    client = either.client()
    request = f"order-{either.store_url}"
    spec = shell("exit 0")
    first = client.submit(spec, request_id=request)
    client.wait(first, timeout=30)
    second = client.submit(spec, request_id=request)
    assert (second.id, second.replayed) == (first.id, True)
    with pytest.raises(Conflict) as refused:
        client.submit(shell("exit 1"), request_id=request)
    assert refused.value.code == "request-conflict"


def test_metrics_move(either: Platform) -> None:
    client = either.client()

    def counted() -> float:
        text = either.metrics()
        return sum(float(line.split()[-1]) for line in text if line.startswith('ares_jobs_total{state="succeeded"}'))

    before = counted()
    client.wait(client.submit(shell("exit 0")), timeout=30)
    assert counted() == before + 1
    names = {line.split("{")[0].split(" ")[0] for line in either.metrics() if not line.startswith("#")}
    wanted = {"ares_scheduling_latency_seconds_count", "ares_lease_acquisitions_total", "ares_queue_depth"}
    assert wanted <= names
    assert "ares_store_latency_seconds_count" in names
