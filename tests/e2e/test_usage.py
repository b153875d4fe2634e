"""Prices, power and what it came to, by the command line on a platform that runs."""

from typing import Any, cast

from tests.platform import Platform, eventually

POOL = "pools.gold"


def test_a_cap_holds_jobs_back_and_what_ran_is_counted(platform: Platform) -> None:
    platform.server()
    platform.agent("n1", gpus=2, flags=["--pool", "gold"])
    settings = ("gpu_hour=3.6", "gpu_watts=500", "gpu_idle_watts=100", "cpu_watts=0", "power_cap_watts=700")
    assert platform.cli("profile", "set", *(f"{POOL}.{one}" for one in settings)).code == 0

    first, second = (_submit(platform) for _ in range(2))
    eventually(lambda: _runs(platform, first), "the first runs")
    # Two idle GPUs draw 200 W, one in use 400 W more: 600 of 700.
    waiting = _job(platform, second)["waiting"]
    assert (waiting["code"], waiting["numbers"]["asked"], waiting["numbers"]["free"]) == ("POWER_CAP", 400, 100)
    assert "600/700W" in platform.cli("pools").out
    assert "draws 500 W" in platform.cli("show", first).out

    assert platform.cli("cancel", first).code == 0
    eventually(lambda: _runs(platform, second), "the second runs")
    used = _job(platform, first)["used"]
    assert used["gpuS"] > 0
    assert abs(used["energyWh"] * 3600 - 500 * used["gpuS"]) < 1e-6
    assert abs(used["cost"] * 3600 - 3.6 * used["gpuS"]) < 1e-6
    report = cast("dict[str, Any]", platform.cli("usage", "--by", "pool", "--since", "1h", "-o", "json").json())
    (row,) = report["rows"]
    assert (row["key"], row["jobs"]) == ("gold", 2)
    assert row["gpuHours"] * 3600 >= used["gpuS"]
    assert platform.cli("usage", "--by", "job", "-o", "csv").out.splitlines()[0].startswith("job,jobs,gpu_hours")


def _submit(platform: Platform) -> str:
    run = platform.cli("submit", "-o", "json", "--gpus", "1", "--", "sleep", "600")
    return cast("dict[str, Any]", run.json())["id"]


def _job(platform: Platform, job: str) -> dict[str, Any]:
    return cast("dict[str, Any]", platform.cli("show", job, "-o", "json").json())


def _runs(platform: Platform, job: str) -> bool | None:
    return _job(platform, job)["state"]["phase"] == "RUNNING" or None
