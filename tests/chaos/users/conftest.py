"""One real platform's store for all tests that spoil copies of it."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.edge.client.calls.answers import Submitted
from ares.edge.client.sync import Client
from ares.model.job import Gang, JobSpec, Need, RetryPolicy
from tests.chaos.load import TINY, marked
from tests.platform import Platform, eventually

HANDS_OVER = 'mkdir "$ARES_OUTPUT_DIR/deep"; echo one > "$ARES_OUTPUT_DIR/a"; echo two > "$ARES_OUTPUT_DIR/deep/b"'
RETRY = RetryPolicy(limit=3, base_s=0.05, max_s=0.1)


def make_everything(platform: Platform, marks: Path) -> None:
    """Jobs of every kind of end, an array, a gang, a reservation, a lost attempt, one that runs and one that waits.

    And what was steered: throttled, held, updated, requeued, in a workflow, by a schedule.
    """
    client = platform.client()
    marks.mkdir()
    long = client.submit(marked(marks, beats=600, later_beats=600), request_id="long")
    eventually(lambda: client.get(long).state.phase == "RUNNING", "the start of the long job")
    platform.agents["a"].kill()
    platform.agent("a", wait=False)
    ends = [
        client.submit(marked(marks, retry=RETRY), request_id="good"),
        client.submit(marked(marks, fails=1, retry=RETRY), request_id="second-try"),
        client.submit(JobSpec(command=("false",), resources=TINY, retry=RetryPolicy(limit=0)), request_id="bad"),
        client.submit(JobSpec(command=("true",), resources=TINY, gang=Gang(ranks=2)), request_id="gang"),
        client.submit(JobSpec(command=("sh", "-c", HANDS_OVER), resources=TINY), request_id="files"),
        client.submit(marked(marks, array="0-3,7", retry=RETRY), request_id="array"),
        client.submit(marked(marks, array="0-4%2", retry=RETRY), request_id="throttled"),
        cancelled(client, marks),
    ]
    steered(client, marks)
    client.submit(JobSpec(command=("true",), selector={"nowhere": "at all"}), request_id="waits")
    for job in ends:
        client.wait(job, timeout=60)
    client.reserve(gpus=1, start="+2h", length="1h", tenant="default", name="one")
    client.reserve(gpus=1, start="+2h", length="1h", tenant="default", name="two")
    bad = client.retry(ends[2].id)
    client.wait(bad.id, timeout=60)
    eventually(
        lambda: client.get(long).state.attempt == 2 and client.get(long).state.phase == "RUNNING", "its second attempt"
    )


def steered(client: Client, marks: Path) -> None:
    held = client.submit(JobSpec(command=("true",), resources=TINY, held=True), request_id="held")
    client.update(held, priority="HIGH")
    back = client.submit(marked(marks, beats=600), request_id="requeued")
    eventually(lambda: client.get(back).state.phase == "RUNNING", "the start of the job that is requeued")
    client.requeue(back)
    flow = client.submit_flow(
        {
            "first": JobSpec(command=("true",), resources=TINY),
            "each": JobSpec(command=("true",), resources=TINY, array="0-3%1", needs=(Need(job="first"),)),
            "never": JobSpec(command=("true",), resources=TINY, needs=(Need(job="first", on="failure"),)),
        },
        request_id="flow",
    )
    ends = {"SUCCEEDED", "SKIPPED"}
    eventually(lambda: {job.phase for job in client.flow(flow.id).jobs} == ends, "the end of the workflow")
    client.set_cron("nightly", schedule="0 3 * * *", spec=JobSpec(command=("true",), resources=TINY))


def cancelled(client: Client, marks: Path) -> Submitted:
    job = client.submit(marked(marks, beats=600), request_id="cancelled")
    client.cancel(job)
    return job


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform that runs, with a bit of everything in its store."""
    directory = tmp_path_factory.mktemp("living")
    with Platform(directory / "platform", warm=True) as platform:
        platform.server()
        platform.agent("a")
        make_everything(platform, directory / "marks")
        yield platform


@pytest.fixture(scope="module")
def good(living: Platform, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of its store."""
    copy = tmp_path_factory.mktemp("good") / "store.db"
    assert living.cli("store", "backup", str(copy)).code == 0
    return copy


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(good, tmp_path / f"{random.randrange(10**9)}.db"))
