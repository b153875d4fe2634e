"""Deadlines on a platform that runs: said at submission, planned by run times on real nodes, kept, counted."""

from typing import Any, cast

from tests.platform import Platform, eventually


def test_from_the_answer_to_the_count(platform: Platform) -> None:
    platform.server()
    platform.agent("fast", flags=["--mock-gpu", "dgx-a100"])
    platform.agent("slow", flags=["--mock-gpu", "dgx1-v100"])
    assert platform.cli("profile", "set", "slas.gold.end_within_s=600").code == 0

    refused = platform.cli("submit", "--deadline", "+1m", "--deadline-strict", "--runtime", "1h", "--", "true")
    assert refused.code == 1
    assert "it cannot be met by the estimates: it ends about" in refused.err

    # All A100s are held for as long as that one says it takes.
    holder = _submit(platform, "--gpus", "8", "--gpu-model", "A100", "--runtime", "60s", "--", "sleep", "300")
    eventually(lambda: _job(platform, holder)["state"]["phase"] == "RUNNING" or None, "the holder runs")
    asked = ("--gpus", "1", "--runtime-on", "A100=10s", "--runtime-on", "V100=9m", "--sla", "gold", "--", "true")
    said = platform.cli("submit", *asked)
    assert "its deadline: it can be met: it ends about" in said.err
    job = said.out.split()[1]
    waits = _job(platform, job)["waiting"]
    assert waits["code"] == "WAITING_FOR_FASTER"
    assert "sooner than on the Tesla V100-SXM2-16GB that is free now" in waits["message"]
    assert platform.cli("sla").out.splitlines()[1].split()[:2] == ["gold", "ends"]

    assert platform.cli("cancel", holder).code == 0
    assert platform.cli("wait", job).code == 0
    done = _job(platform, job)["state"]
    assert (done["placements"][0]["node"], done["sla"]) == ("fast", "gold")
    (gold,) = cast("dict[str, Any]", platform.cli("sla", "-o", "json").json())["classes"]
    assert (gold["jobs"], gold["met"], gold["metPercent"]) == (1, 1, 100.0)
    eventually(lambda: 'ares_deadlines_met_total{sla="gold"} 1.0' in platform.metrics() or None, "the count")


def _submit(platform: Platform, *arguments: str) -> str:
    done = platform.cli("submit", *arguments)
    assert done.code == 0, done
    return done.out.split()[1]


def _job(platform: Platform, job: str) -> dict[str, Any]:
    return cast("dict[str, Any]", platform.cli("show", job, "-o", "json").json())
