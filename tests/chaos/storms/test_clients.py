"""Clients by the hundred: ten times the load, a store that is away, answers that come too late, streams that resume."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ares.edge.client.retry import Retry
from ares.model.job import JobSpec, Resources
from tests.chaos.storms.crowd import Crowd, Tally
from tests.chaos.storms.gauges import Held, held, store_calls
from tests.history import read_store
from tests.platform import Platform, StoreKind, eventually, say

Build = Callable[[StoreKind], Platform]
AMPLIFICATION_MAX = 1.2
ANSWER_S = 180.0
# What hundreds of requests that wait may cost; what is kept of a job for good is counted on top.
QUEUES_MIB = 96.0
JOB_KIB = 16.0
NOTHING = JobSpec(command=("true",), resources=Resources(cpu_milli=100, memory_mib=32))


def frozen(platform: Platform, seconds: float) -> None:
    assert platform.etcd is not None
    platform.etcd.pause()
    time.sleep(seconds)
    platform.etcd.resume()


def away(platform: Platform, seconds: float) -> None:
    assert platform.etcd is not None
    platform.etcd.kill()
    time.sleep(seconds)
    platform.etcd.start()


def calm(platform: Platform, seconds: float) -> None:
    time.sleep(seconds)


@contextmanager
def crowd_of(platform: Platform, size: int, **rules: object) -> Iterator[Crowd]:
    crowd = Crowd(platform.servers[0].url, platform.admin_token, size, NOTHING, **rules)  # pyright: ignore[reportArgumentType]
    crowd.start(pause_s=0.05)
    try:
        yield crowd
    finally:
        crowd.stop(ANSWER_S)


def check_memory(before: Held, after: Held, jobs: int) -> None:
    grown = after.peak - before.rss
    say(f"memory: {before.rss:.0f} MiB, at most {after.peak:.0f} MiB with {jobs} jobs; {after.files} files")
    assert grown < QUEUES_MIB + jobs * JOB_KIB / 1024, f"the server grew by {grown:.0f} MiB for {jobs} jobs"


def check_answers(tally: Tally, crowd: Crowd) -> None:
    """Who is turned away is told when to come again; nobody is left without an answer for want of room."""
    odd = {status: count for status, count in tally.statuses.items() if status not in (200, 201, 429, 503)}
    assert not odd, f"answers nobody expects: {odd}"
    assert not crowd.curt, f"{len(crowd.curt)} answers without Retry-After, such as {crowd.curt[0]}"


def check_nothing_lost(platform: Platform, crowd: Crowd) -> None:
    found = read_store(platform.store_url)
    jobs = Counter(record.job for record, _ in found.requests.values())
    twice = [job for job, times in jobs.items() if times > 1]
    assert not twice, f"one job for two requests: {twice}"
    for answer in crowd.acknowledged:
        record, version = found.requests[answer.request]
        assert (record.job, version) == (answer.job, 1), f"{answer}: the store has {record}"
        assert answer.job in found.states, f"{answer} was acknowledged and is gone"


@pytest.mark.etcd
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("outage", "clients", "seconds"),
    [
        pytest.param(frozen, 40, 4.0, id="store-frozen"),
        pytest.param(frozen, 200, 10.0, id="store-frozen-10s", marks=pytest.mark.soak),
        pytest.param(away, 200, 10.0, id="store-away-10s", marks=pytest.mark.soak),
    ],
)
def test_the_store_is_away_under_load(
    build: Build, outage: Callable[[Platform, float], None], clients: int, seconds: float
) -> None:
    """After it: nobody sends much more than what is needed, and what waited is done within twice the outage's work."""
    platform = build("etcd")
    assert platform.etcd is not None
    platform.server()
    platform.client().submit(NOTHING)
    before = held(platform.servers[0].pid)
    with crowd_of(platform, clients) as crowd:
        eventually(lambda: len(crowd.acknowledged) >= 2 * clients, "some answers", ANSWER_S)
        crowd.mark()
        calls, acknowledged = store_calls(platform.etcd), len(crowd.acknowledged)
        eventually(lambda: len(crowd.acknowledged) >= acknowledged + 4 * clients, "calm", ANSWER_S)
        usual = (store_calls(platform.etcd) - calls) / (len(crowd.acknowledged) - acknowledged)
        outage(platform, seconds)
        during, calls, acknowledged = crowd.mark(), store_calls(platform.etcd), len(crowd.acknowledged)
        # Each had one request open: when as many and more were answered, what waited is gone.
        eventually(lambda: len(crowd.acknowledged) >= acknowledged + 4 * clients, "the end of the queue", ANSWER_S)
        after = crowd.mark()
        cost = (store_calls(platform.etcd) - calls) / (len(crowd.acknowledged) - acknowledged)
    say(f"while away: {during}\nafter: {after}; store calls per job {usual:.2f} -> {cost:.2f}")
    assert after.amplification <= AMPLIFICATION_MAX, f"{after.sent} requests for {after.asked} wanted"
    assert cost <= AMPLIFICATION_MAX * usual + 0.2, f"{cost:.2f} store calls per job, {usual:.2f} before"
    assert not crowd.unanswered, f"{crowd.unanswered} requests timed out, where 503 with Retry-After was due"
    for tally in (during, after):
        check_answers(tally, crowd)
    check_memory(before, held(platform.servers[0].pid), len(crowd.acknowledged))
    check_nothing_lost(platform, crowd)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("store", "clients"),
    [
        pytest.param("sqlite", 300, marks=pytest.mark.soak),
        pytest.param("etcd", 300, marks=[pytest.mark.soak, pytest.mark.etcd]),
    ],
)
def test_ten_times_the_load(build: Build, store: StoreKind, clients: int) -> None:
    """More clients than before wait longer; nobody is turned away without a word, and memory does not follow them."""
    platform = build(store)
    platform.server()
    before = held(platform.servers[0].pid)
    with crowd_of(platform, clients // 10) as few:
        eventually(lambda: len(few.acknowledged) >= clients, "the usual load", ANSWER_S)
    usual = held(platform.servers[0].pid)
    with crowd_of(platform, clients) as crowd:
        eventually(lambda: len(crowd.acknowledged) >= 10 * clients, "ten times the load", ANSWER_S)
    say(f"{clients // 10} clients: {few.tally}; {clients} clients: {crowd.tally}; memory {before} {usual}")
    assert crowd.tally.amplification <= AMPLIFICATION_MAX, crowd.tally
    assert not crowd.unanswered, f"{crowd.unanswered} requests were not answered"
    check_answers(crowd.tally, crowd)
    check_memory(usual, held(platform.servers[0].pid), len(crowd.acknowledged))
    for process in platform.servers.values():
        process.kill()
    for one in (few, crowd):
        check_nothing_lost(platform, one)


@pytest.mark.etcd
@pytest.mark.timeout(600)
@pytest.mark.soak
def test_answers_that_come_too_late_are_asked_for_again(build: Build) -> None:
    """Every client gives up early and asks again, all through an outage: one job for each request all the same."""
    platform = build("etcd")
    assert platform.etcd is not None
    platform.server()
    before = held(platform.servers[0].pid)
    hasty = Retry(attempts=1000, base_s=0.05, cap_s=0.5)
    with crowd_of(platform, 100, retry=hasty, timeout_s=0.5) as crowd:
        eventually(lambda: len(crowd.acknowledged) >= 200, "some answers", ANSWER_S)
        frozen(platform, 8.0)
        during, acknowledged = crowd.mark(), len(crowd.acknowledged)
        eventually(lambda: len(crowd.acknowledged) >= acknowledged + 400, "the end of the queue", ANSWER_S)
        after = crowd.mark()
    say(f"while away: {during}, in vain {crowd.unanswered}; after: {after}")
    assert during.sent > 2 * during.asked, "hardly anything was repeated: this proved nothing"
    check_answers(after, crowd)
    check_memory(before, held(platform.servers[0].pid), len(crowd.acknowledged))
    check_nothing_lost(platform, crowd)
    found = read_store(platform.store_url)
    assert len(found.states) == len(found.requests), "a request made more than one job"
