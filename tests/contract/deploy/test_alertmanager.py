"""A real Alertmanager with the file that is shipped: who is told what, and what keeps quiet because of what."""

import json
import subprocess
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.contract.deploy.test_rules import rules
from tests.platform import eventually
from tests.ports import free_ports
from tests.tidy.source import ROOT

FILE = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
# Nothing keeps these quiet, so that they tell when all others have been looked at.
LAST = "JobsFail"


class Receiver:
    """Who was told: the receiver's path, the alert and its cluster."""

    def __init__(self) -> None:
        self.told: set[tuple[str, str, str]] = set()

    @contextmanager
    def listening(self) -> Generator[str]:
        told = self.told

        class Desk(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["content-length"])))
                for alert in said["alerts"]:
                    labels = alert["labels"]
                    told.add((self.path.strip("/"), labels["alertname"], labels["cluster"]))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@contextmanager
def alertmanager(folder: Path, receivers: str) -> Generator[str]:
    """With the shipped routes. Only addresses, and how long groups are gathered, are the test's own."""
    config: dict[str, Any] = yaml.safe_load(FILE.read_text())
    for receiver in config["receivers"]:
        receiver["webhook_configs"][0]["url"] = f"{receivers}/{receiver['name']}"
    for route in (config["route"], *config["route"]["routes"]):
        route |= {"group_wait": "1s", "group_interval": "1s"}
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus-alertmanager", f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/data",
             f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address="],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            eventually(lambda: _ready(url), "Alertmanager")
            yield url
        finally:
            process.terminate()
            process.wait()


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def post(url: str, alerts: list[tuple[str, str]]) -> None:
    """By name and cluster, with the labels of their rules."""
    severity = {rule["alert"]: rule["labels"] for rule in rules("alerts.yml")}
    said = [{"labels": {"alertname": name, "cluster": cluster, **severity[name]}} for name, cluster in alerts]
    request = urllib.request.Request(
        f"{url}/api/v2/alerts", json.dumps(said).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def test_pages_and_tickets_and_one_message_for_what_has_one_cause(tmp_path: Path) -> None:
    """A cluster whose metrics are gone tells that, and not all that follows from it; another cluster goes on."""
    receiver = Receiver()
    with receiver.listening() as where, alertmanager(tmp_path, where) as url:
        causes = [("MetricsAbsent", "west"), ("NoLeader", "east")]
        post(url, causes)
        eventually(lambda: len(receiver.told) == 2, "the causes")
        post(
            url,
            [
                *causes,
                ("QueueStands", "west"), ("NoLeader", "west"), ("JobsFail", "west"),
                ("QueueStands", "east"), ("SchedulingSlow", "east"), ("DiskFillsUp", "east"),
                ("QueueStands", "north"), (LAST, "north"),
            ],
        )  # fmt: skip
        eventually(lambda: any(name == LAST for _, name, _ in receiver.told), "what nothing keeps quiet")
        eventually(lambda: len(receiver.told) >= 5, "all others")
    kinds = {rule["alert"]: f"{rule['labels']['severity']}s" for rule in rules("alerts.yml")}
    wanted = [*causes, ("DiskFillsUp", "east"), ("QueueStands", "north"), (LAST, "north")]
    assert receiver.told == {(kinds[name], name, cluster) for name, cluster in wanted}


def test_every_alert_that_is_named_exists() -> None:
    """What keeps others quiet is named by alerts that there are."""
    known = {rule["alert"] for rule in rules("alerts.yml")}
    text = FILE.read_text()
    config: dict[str, Any] = yaml.safe_load(text)
    matchers = [
        m for rule in config["inhibit_rules"] for side in ("source", "target") for m in rule[f"{side}_matchers"]
    ]
    named = [name for matcher in matchers if "alertname" in matcher for name in matcher.split('"')[1].split("|")]
    assert named
    for name in named:
        stem = name.replace(".*", "")
        assert any(stem in alert for alert in known), name
