"""What people are told about decisions, by the command line, on a platform that runs."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.store.open import open_store
from ares.core import keys
from ares.model.profile import Pool, Profile, ProfileRecord, Weight
from ares.ports.store import Put
from tests.platform import Platform, Run, eventually

PRICES = Profile(
    pools={"spot": Pool(gpu_hour=1.0), "owned": Pool(gpu_hour=4.0)},
    scorers=(Weight(name="affinity", weight=20.0), Weight(name="cost", weight=10.0)),
)


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A cheap node with two GPUs, and a dear one with four in the zone people like."""
    with Platform(tmp_path_factory.mktemp("priced"), warm=True) as platform:
        platform.server().terminate()
        asyncio.run(_configure(platform.store_url))
        platform.server()
        platform.agent("cheap", gpus=2, flags=["--pool", "spot", "--label", "zone=b"])
        platform.agent("dear", gpus=4, flags=["--pool", "owned", "--label", "zone=a"])
        yield platform


async def _configure(url: str) -> None:
    store = await open_store(url, SystemClock())
    try:
        await store.txn([], [Put(keys.profile(1), msgspec.json.encode(ProfileRecord(version=1, profile=PRICES)))])
    finally:
        await store.close()


def objects(run: Run) -> Any:
    return cast("dict[str, Any]", run.json())


def submitted(platform: Platform, *arguments: str) -> str:
    return objects(platform.cli("submit", "-o", "json", *arguments))["id"]


def writes(platform: Platform) -> list[str]:
    """Nodes renew their leases all the time, but nobody submits and nothing moves."""
    counted = ("ares_submissions_total", "ares_jobs_total", "ares_lease_acquisitions_total")
    return sorted(line for line in platform.metrics() if line.startswith(counted))


def test_the_named_change_starts_the_job(priced: Platform, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: greedy\ncommand: ['true']\ngpus: 16\n")
    said = priced.cli("submit", "-f", str(file))
    assert said.code == 0
    assert "warning: accepted, but it can never start as it is: needs 16 GPUs on one node" in said.err
    assert "smallest fix: ask for 4 GPUs instead of 16 (--gpus 4)" in said.err

    job = said.out.split()[1]
    page = priced.cli("explain", job)
    assert page.code == 0
    assert "INFEASIBLE_GPU" in page.out
    assert "yours to fix" in page.out
    nearest = page.out.partition("Nearest misses")[2].splitlines()[2:4]
    assert [line.split()[0] for line in nearest] == ["dear", "cheap"]
    explained = objects(priced.cli("explain", job, "-o", "json"))
    assert explained["change"]["fields"] == {"resources.gpus": 4}

    done = priced.cli("submit", "-f", str(file), "--gpus", "4", "--wait")
    assert (done.code, done.out) == (0, "")
    assert priced.cli("cancel", job).code == 0


def test_a_plan_changes_nothing_and_comes_true(priced: Platform) -> None:
    before = writes(priced)
    fits = priced.cli("plan", "--gpus", "3", "--", "true")
    never = priced.cli("plan", "--gpus", "5", "--", "true")
    assert (fits.code, fits.out.splitlines()[0]) == (0, "would start now")
    assert "dear GPU 0,1,2" in fits.out
    assert (never.code, never.out.splitlines()[0]) == (3, "would not start now")
    assert "ask for 4 GPUs instead of 5: --gpus 4" in never.out
    assert writes(priced) == before

    job = submitted(priced, "--gpus", "3", "--", "true")
    assert priced.cli("wait", job).code == 0
    assert priced.client().get(job).state.placements[0].node == "dear"
    assert writes(priced) != before


def test_a_replay_with_another_weight_goes_elsewhere(priced: Platform) -> None:
    job = submitted(priced, "--gpus", "1", "--prefer", "zone=a", "--", "true")
    assert priced.cli("wait", job).code == 0
    assert priced.client().get(job).state.placements[0].node == "dear"
    again = objects(priced.cli("replay", job, "-o", "json"))
    assert (again["same"], again["chosen"]) == (True, ["dear"])
    shown = priced.cli("replay", job[:10], "--set", "weight.cost=500")
    assert shown.code == 0
    assert "Now         cheap: other machines" in shown.out
    by_name = objects(priced.cli("replay", again["decision"], "--set", "weight.cost=500", "-o", "json"))
    assert (by_name["same"], by_name["chosenAgain"]) == (False, ["cheap"])


def test_the_queue_is_in_the_order_of_its_ranks(priced: Platform) -> None:
    blocker = submitted(priced, "--gpus", "4", "--runtime", "10m", "--", "sleep", "600")
    client = priced.client()
    eventually(lambda: client.get(blocker).state.phase == "RUNNING", "the start of the blocker")
    low = submitted(priced, "--gpus", "3", "--priority", "low", "--", "true")
    high = submitted(priced, "--gpus", "3", "--priority", "high", "--", "true")
    listed = objects(priced.cli("prio", "-o", "json"))["jobs"]
    assert [row["job"] for row in listed] == [high, low]
    assert [line.split()[0] for line in priced.cli("prio").out.splitlines()[1:]] == [high, low]
    page = priced.cli("explain", low).out
    assert "1 ahead, 1 of your own" in page
    assert blocker in page
    waiting = json.loads(priced.cli("jobs", "-o", "json", "--phase", "PENDING").out)["waiting"]
    assert {one["code"] for one in waiting.values()} == {"INSUFFICIENT_GPU"}
    for job in (low, high, blocker):
        assert priced.cli("cancel", job).code == 0
    eventually(lambda: not client.get(blocker).state.lingering, "the end of the blocker's processes")
