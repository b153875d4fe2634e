"""Prices, power and what it came to, by the command line on a platform that runs."""

from pathlib import Path
from typing import Any, cast

from tests.platform import Platform, eventually

POOL = "pools.gold"


def test_a_cap_holds_jobs_back_and_what_ran_is_counted(platform: Platform, tmp_path: Path) -> None:
    platform.server()
    platform.agent("n1", gpus=2, flags=["--pool", "gold"])
    settings = ("gpu_hour=3.6", "gpu_watts=500", "gpu_idle_watts=100", "cpu_watts=0", "power_cap_watts=700")
    assert platform.cli("profile", "set", *(f"{POOL}.{one}" for one in settings)).code == 0

    first, second = (_submit(platform) for _ in range(2))
    eventually(lambda: _runs(platform, first), "the first runs")
    # Two idle GPUs draw 200 W, one in use 400 W more: 600 of 700.
    numbers = eventually(lambda: _numbers(platform, second, "POWER_CAP"), "the second is considered, and held back")
    assert (numbers["asked"], numbers["free"]) == (400, 100)
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
    cost = cast("dict[str, Any]", platform.cli("cost", "--by", "pool", "-o", "json").json())
    (pool,), total = cost["rows"], cost["total"]
    # What was useful, lost and running, and what stood idle, is what the machines have.
    parts = sum(total[f"{use}GpuHours"] for use in ("useful", "lost", "running", "idle"))
    assert abs(parts - total["capacityGpuHours"] - total["overGpuHours"]) < 1e-6
    assert abs(total["cost"] + total["idleCost"] - total["capacityCost"] - total["overCost"]) < 1e-6
    assert (pool["key"], pool["jobs"], pool["runningCost"] > 0, cost["whole"]) == ("gold", 0, True, True)
    assert "CAPACITY GPU-H" in platform.cli("cost").out
    assert platform.cli("cost", "--by", "team", "-o", "csv").out.splitlines()[0].startswith("key,jobs,name,useful_gpu")
    charges = platform.cli("cost", "--focus", "-o", "csv").out.splitlines()
    assert charges[0].startswith("BillingAccountId,BillingAccountName,BillingCurrency,BillingPeriodStart")
    assert len(charges) > 1
    assert "a projection needs 3 closed days" in platform.cli("cost", "--budget").out
    page = platform.cli("report", "cost").out
    assert page.startswith("<!doctype html>")
    assert "By pool" in page
    kept = tmp_path / "sla.json"
    assert platform.cli("report", "sla", "-o", "json", "--to", str(kept)).code == 0
    assert "is as it was made" in platform.cli("report", "check", str(kept)).out
    kept.write_text(kept.read_text().replace('"tenant":""', '"tenant":"x"'))
    assert "is not as it was made" in platform.cli("report", "check", str(kept)).err
    evidence = platform.cli("report", "compliance", "-o", "csv").out
    # That the others were made is part of it.
    assert "makeSlaReport,1,0,0" in evidence
    said = eventually(lambda: _foresight(platform), "the server has numbers of its own GPUs")
    assert "demand in 2h: nothing is said: it takes 14 days of numbers" in said
    assert platform.cli("insights", "feedback", "nothing", "--useful").code != 0
    wrong = platform.cli("cost", "--first", "2026-02-31")
    assert wrong.code != 0
    assert "no day of the calendar" in wrong.err
    assert platform.cli("usage", "--by", "job", "-o", "csv").out.splitlines()[0].startswith("job,jobs,gpu_hours")


def _foresight(platform: Platform) -> str | None:
    said = platform.cli("insights").out
    return None if "there are no GPUs whose demand is known" in said else said


def _submit(platform: Platform) -> str:
    run = platform.cli("submit", "-o", "json", "--gpus", "1", "--", "sleep", "600")
    return cast("dict[str, Any]", run.json())["id"]


def _job(platform: Platform, job: str) -> dict[str, Any]:
    return cast("dict[str, Any]", platform.cli("show", job, "-o", "json").json())


def _numbers(platform: Platform, job: str, code: str) -> dict[str, Any] | None:
    waiting = _job(platform, job)["waiting"]
    return waiting["numbers"] if waiting["code"] == code else None


def _runs(platform: Platform, job: str) -> bool | None:
    return _job(platform, job)["state"]["phase"] == "RUNNING" or None
