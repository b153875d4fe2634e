"""A real Prometheus scrapes a real, busy platform with the files that are shipped: every rule is evaluated without an
error, and every query of every dashboard gives numbers."""

import contextlib
import json
import math
import re
import shutil
import subprocess
import time
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
*utilization.gpu*) echo "0, 87, 4096, 312.50, 71";;
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


class Program:
    """A program with Prometheus' API of queries, in its own folder, from its start to `close`."""

    def __init__(self, folder: Path, port: int, *command: str) -> None:
        self.port = port
        self._log = (folder / "log").open("ab")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def text(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=20) as answer:
            return answer.read().decode()

    def ask(self, path: str, **parameters: str) -> Any:
        return json.loads(self.text(f"api/v1/{path}?{urllib.parse.urlencode(parameters)}"))["data"]

    def answers(self, path: str) -> bool:
        try:
            self.text(path)
        except OSError:
            return False
        return True

    def numbers(self, query: str) -> list[float]:
        found = [float(series["value"][1]) for series in self.ask("query", query=query)["result"]]
        return [number for number in found if not math.isnan(number)]


def config_of(folder: Path, platform: Platform) -> dict[str, Any]:
    """The shipped file, with this platform's replicas and its token."""
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
    return config


def prometheus_of(folder: Path, platform: Platform, long_term: int) -> Program:
    config = config_of(folder, platform)
    config["remote_write"] = [{"url": f"http://127.0.0.1:{long_term}/api/v1/write"}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_ports(1)[0]
    return Program(
        folder, port, "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    )  # fmt: skip


def victoria_of(folder: Path, port: int) -> Program:
    folder.mkdir(exist_ok=True)
    return Program(
        folder, port, "victoria-metrics", f"-storageDataPath={folder}/data", f"-httpListenAddr=127.0.0.1:{port}",
        "-search.latencyOffset=1s", "-memory.allowedBytes=256MB", "-loggerLevel=WARN",
    )  # fmt: skip


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[Program]:
    """VictoriaMetrics, which keeps what many clusters' Prometheus hand over."""
    server = victoria_of(tmp_path / "victoria", free_ports(1)[0])
    try:
        eventually(lambda: server.answers("health"), "VictoriaMetrics")
        yield server
    finally:
        server.close()


@pytest.fixture
def prometheus(tmp_path: Path, busy: Platform, victoria: Program) -> Iterator[Program]:
    server = prometheus_of(tmp_path / "prometheus", busy, victoria.port)
    try:
        eventually(lambda: server.answers("-/ready"), "Prometheus")
        up = lambda: any(target["health"] == "up" for target in server.ask("targets")["activeTargets"])  # noqa: E731
        eventually(up, "a scrape of the platform")
        yield server
    finally:
        server.close()


def test_every_query_gives_numbers(busy: Platform, prometheus: Program, victoria: Program) -> None:
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
    assert prometheus.numbers("ares_gpu_power_watts") == [312.5]
    assert prometheus.numbers("ares_gpu_temperature_celsius") == [71]
    # Where it is kept for long, under the cluster's name: the same queries give numbers.
    away = lambda: [query for _, query in asked if not victoria.numbers(query)]  # noqa: E731
    with contextlib.suppress(NeverHappened):
        eventually(lambda: not away(), "numbers in VictoriaMetrics", timeout_s=60)
    assert away() == []
    assert victoria.numbers('count(ares_queue_depth{cluster="local"})') == [1.0]
    told = json.loads(busy.cli("status", "-o", "json").out)
    verdicts = {part["kind"]: part["verdict"] for part in told["parts"]}
    assert [verdicts[kind] for kind in ("leader", "store", "nodes")] == ["ok", "ok", "ok"]
    assert "1 of 1 are ready" in busy.cli("status").out
    # The server itself remembers the same, without any of it.
    drawn = busy.cli("series", "ares_jobs_running", "ares_jobs_total:rate", "--since", "10m")
    assert "ares_jobs_running{pool=default}" in drawn.out
    assert "ares_jobs_total:rate{state=succeeded}" in drawn.out


def test_a_cluster_that_is_cut_off_hands_over_what_it_missed(busy: Platform, tmp_path: Path) -> None:
    """What the collector of a cluster scraped while the long-term store could not be reached is there afterwards."""
    store, port = free_ports(2)
    folder = tmp_path / "vmagent"
    config = config_of(folder, busy)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    agent = Program(
        folder, port, "vmagent", f"-promscrape.config={folder}/prometheus.yml", "-promscrape.config.strictParse=false",
        f"-remoteWrite.url=http://127.0.0.1:{store}/api/v1/write", f"-remoteWrite.tmpDataPath={folder}/waiting",
        f"-httpListenAddr=127.0.0.1:{port}", "-memory.allowedBytes=128MB", "-loggerLevel=ERROR",
    )  # fmt: skip
    victoria: Program | None = None
    try:
        eventually(lambda: agent.answers("metrics"), "vmagent")
        waits = re.compile(r"^vmagent_remotewrite_pending_data_bytes\{.*\} (\S+)", re.M)
        # It has scraped, and could hand over none of it.
        eventually(lambda: any(float(size) > 0 for size in waits.findall(agent.text("metrics"))), "what waits")
        before = time.time()
        victoria = victoria_of(tmp_path / "victoria", store)
        server = victoria
        eventually(lambda: server.answers("health"), "VictoriaMetrics")

        def first() -> float | None:
            found = [
                min(json.loads(line)["timestamps"]) / 1000
                for line in server.text("api/v1/export?match[]=ares_leader").splitlines()
            ]
            return min(found, default=None)

        eventually(lambda: first() is not None, "numbers of the platform")
        assert (first() or before) < before
        assert server.numbers('ares_leader{cluster="local"}') == [1.0]
    finally:
        agent.close()
        if victoria is not None:
            victoria.close()


def test_rules_are_those_of_victoria_metrics_too() -> None:
    files = [f"-rule={PROMETHEUS / name}" for name in ("recording.yml", "alerts.yml")]
    done = subprocess.run(["vmalert", "-dryRun", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
