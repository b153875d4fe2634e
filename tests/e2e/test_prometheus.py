"""A real Prometheus scrapes a real, busy platform with the files that are shipped: every rule is evaluated without an
error, and every query of every dashboard gives numbers."""

import contextlib
import json
import math
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ares.model.job import JobSpec, Resources, RetryPolicy
from tests.contract.deploy.test_rules import PROMETHEUS, queries, rules
from tests.platform import NeverHappened, Platform, eventually
from tests.ports import free_ports

pytestmark = pytest.mark.slow

# A driver's tool with one GPU at work. The real one takes the same words.
TOOL = """#!/bin/sh
case "$*" in
*utilization.gpu*) echo "0, 87, 4096";;
*--query-gpu*)
  echo "index, uuid, name, memory.total [MiB], pci.bus_id, mig.mode.current"
  echo "0, GPU-a, NVIDIA A100-SXM4-40GB, 40960, 00000000:01:00.0, Disabled";;
-L) echo "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)";;
esac
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Platform]:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(TOOL)
    (tools / "nvidia-smi").chmod(0o755)
    with Platform(tmp_path / "platform", warm=True) as platform:
        platform.server()
        path = {"PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin"}
        platform.agent("node-a", flags=["--mock-gpu", "auto"], env=path)
        platform.cli("profile", "set", "slas.gold.end_within_s=3600", "pools.default.gpu_hour=2")
        yield platform


class Server:
    """A Prometheus in its own folder."""

    def __init__(self, folder: Path, platform: Platform) -> None:
        self.port = free_ports(1)[0]
        made = json.loads(
            platform.cli("token", "create", "--role", "operator", "--permission", "metrics:read", "-o", "json").out
        )
        config: dict[str, Any] = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        config["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [
            urllib.parse.urlsplit(server.url).netloc for server in platform.servers.values()
        ]
        del config["alerting"]
        folder.mkdir()
        for name in config["rule_files"]:
            shutil.copy(PROMETHEUS / name, folder / name)
        (folder / "ares-token").write_text(made["token"])
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
            stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]

    def ready(self) -> bool:
        try:
            return any(target["health"] == "up" for target in self.ask("targets")["activeTargets"])
        except OSError:
            return False

    def numbers(self, query: str) -> list[float]:
        found = [float(series["value"][1]) for series in self.ask("query", query=query)["result"]]
        return [number for number in found if not math.isnan(number)]


@pytest.fixture
def prometheus(tmp_path: Path, busy: Platform) -> Iterator[Server]:
    server = Server(tmp_path / "prometheus", busy)
    try:
        eventually(server.ready, "a scrape of the platform")
        yield server
    finally:
        server.close()


def test_every_query_gives_numbers(busy: Platform, prometheus: Server) -> None:
    client = busy.client()
    holds = JobSpec(command=("sleep", "300"), name="holds", resources=Resources(cpu_milli=100, gpus=1))
    client.submit(holds)
    asked = [*queries(), *((rule["record"], rule["record"]) for rule in rules("recording.yml"))]
    quick = Resources(cpu_milli=100)
    works = JobSpec(command=("true",), resources=quick, sla="gold")
    fails = JobSpec(command=("false",), resources=quick, retry=RetryPolicy(limit=1, base_s=0.05))

    def silent() -> list[tuple[str, str]]:
        """Rates need something that changes between two scrapes: each look makes more of it."""
        jobs = [client.submit(spec) for spec in (works, works, fails)]
        for job in jobs:
            client.wait(job, timeout=60)
        return [(where, query) for where, query in asked if not prometheus.numbers(query)]

    left = asked

    def all_speak() -> bool:
        nonlocal left
        left = silent()
        return not left

    with contextlib.suppress(NeverHappened):
        eventually(all_speak, "numbers of every query", timeout_s=120)
    assert left == []
    groups = prometheus.ask("rules")["groups"]
    evaluated = [rule for group in groups for rule in group["rules"]]
    assert [rule["name"] for rule in evaluated if rule["health"] != "ok"] == []
    assert len(evaluated) == len(rules("alerts.yml")) + len(rules("recording.yml"))
    series = prometheus.numbers('count({job="ares"})')
    assert 0 < series[0] <= 5000
    assert prometheus.numbers("ares_gpu_utilization") == [0.87]
    told = json.loads(busy.cli("status", "-o", "json").out)
    verdicts = {part["kind"]: part["verdict"] for part in told["parts"]}
    assert [verdicts[kind] for kind in ("leader", "store", "nodes")] == ["ok", "ok", "ok"]
    assert "1 of 1 are ready" in busy.cli("status").out
    # The server itself remembers the same, without any of it.
    drawn = busy.cli("series", "ares_jobs_running", "ares_jobs_total:rate", "--since", "10m")
    assert "ares_jobs_running{pool=default}" in drawn.out
    assert "ares_jobs_total:rate{state=succeeded}" in drawn.out
