"""The alerts and rules that are shipped, by Debian's promtool: each fires when it should and only then, and is silent
without data; each has a runbook; every metric they and the dashboards name exists."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml

from ares.adapters.telemetry.metrics import METRICS
from ares.app.main import cli

ROOT = Path(__file__).resolve().parents[3]
PROMETHEUS, GRAFANA = ROOT / "deploy" / "prometheus", ROOT / "deploy" / "grafana"
RUNBOOKS = ROOT / "docs" / "runbooks"
HEADINGS = ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation"]


def rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> list[tuple[str, str]]:
    """(where, query) of every panel of every dashboard."""
    return [
        (f"{path.stem}: {panel['title']}", target["expr"])
        for path in sorted(GRAFANA.glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel["targets"]
    ]


API = 'ares_http_request_duration_seconds_count{status_class="%s"}'
MET, MISSED = 'ares_deadlines_met_total{sla="gold"}', 'ares_deadlines_missed_total{sla="gold"}'
FREE = 'ares_gpus{pool="a",state="free"}'
LAG = 'ares_loop_lag_seconds_bucket{instance="a",le="%s"}'
BOUND = 'ares_scheduling_latency_seconds_bucket{le="%s"}'

Values = dict[str, str]


class Case(NamedTuple):
    """Series that must raise the alert, and series that must not, as promtool writes them, by steps of `step`."""

    fires: Values
    quiet: Values
    at: str = "70m"
    step: str = "1m"


CASES: dict[str, Case] = {
    "ApiErrorBudgetBurnsFast": Case(
        {API % "2xx": "0+60x80", API % "5xx": "0+6x80"}, {API % "2xx": "0+60x80", API % "5xx": "0x70 2x10"}
    ),
    "ApiErrorBudgetBurnsSlow": Case(
        {API % "2xx": "0+10000x300", API % "5xx": "0+30x300"}, {API % "2xx": "0+10000x300", API % "5xx": "0+1x300"},
        "72h", "15m",
    ),
    "DeadlineBudgetBurnsFast": Case({MET: "0+1x80", MISSED: "0+9x80"}, {MET: "0+9x80", MISSED: "0+0.2x80"}),
    "DeadlineBudgetBurnsSlow": Case(
        {MET: "0+90x300", MISSED: "0+10x300"}, {MET: "0+99x300", MISSED: "0+1x300"}, "72h", "15m"
    ),
    "MetricsAbsent": Case({}, {"ares_leader": "0x80"}),
    "NoLeader": Case(
        {"ares_leader": "0x80"}, {'ares_leader{instance="a"}': "0x80", 'ares_leader{instance="b"}': "1x80"}
    ),
    "StoreSilent": Case({"ares_store_age_seconds": "60x80"}, {"ares_store_age_seconds": "1x80"}),
    "NodesLost": Case({'ares_nodes{health="lost"}': "2x80"}, {'ares_nodes{health="lost"}': "0x80"}),
    "QueueStands": Case(
        {"ares_oldest_pending_seconds": "7200x80", "ares_queue_depth": "5x80", "ares_lease_acquisitions_total": "9x80"},
        {"ares_oldest_pending_seconds": "7200x80", "ares_queue_depth": "5x80",
         "ares_lease_acquisitions_total": "0+1x80"},
    ),
    "SchedulingSlow": Case(
        {BOUND % "60": "0x80", BOUND % "300": "0+5x80", BOUND % "+Inf": "0+5x80", FREE: "4x80"},
        {BOUND % "60": "0x80", BOUND % "300": "0+5x80", BOUND % "+Inf": "0+5x80", FREE: "0x80"},
    ),
    "JobsFail": Case(
        {'ares_jobs_total{state="failed"}': "0+9x80", 'ares_jobs_total{state="succeeded"}': "0+1x80"},
        {'ares_jobs_total{state="failed"}': "0+1x80", 'ares_jobs_total{state="succeeded"}': "0+9x80"},
    ),
    "DiskFillsUp": Case(
        {'ares_disk_free_bytes{disk="/a"}': "5x80", 'ares_disk_bytes{disk="/a"}': "100x80"},
        {'ares_disk_free_bytes{disk="/a"}': "50x80", 'ares_disk_bytes{disk="/a"}': "100x80"},
    ),
    "AuditLost": Case({"ares_audit_lost_total": "0x65 5x20"}, {"ares_audit_lost_total": "5x80"}),
    "RecordsAside": Case({"ares_records_aside": "1x80"}, {"ares_records_aside": "0x80"}),
    "NoticesFail": Case(
        {'ares_alert_deliveries_total{outcome="failed"}': "0+1x80"},
        {'ares_alert_deliveries_total{outcome="failed"}': "0x60 1x20"},
    ),
    "LoopLags": Case(
        {LAG % "0.5": "0x80", LAG % "1.0": "0+60x80", LAG % "+Inf": "0+60x80"},
        {LAG % "0.5": "0+60x80", LAG % "1.0": "0+60x80", LAG % "+Inf": "0+60x80"},
    ),
    "DeadlinesAtRisk": Case(
        {'ares_deadlines_at_risk{sla="gold"}': "2x80"}, {'ares_deadlines_at_risk{sla="gold"}': "0x80"}
    ),
}  # fmt: skip


def test_every_alert_has_its_cases() -> None:
    assert [rule["alert"] for rule in rules("alerts.yml")] == list(CASES)


def _expected(alert: str, case: Case, series: Values, fires: int | None) -> dict[str, Any]:
    samples = [] if fires is None else [{"labels": "{}", "value": fires}]
    return {
        "name": alert,
        "interval": case.step,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                "eval_time": case.at,
                "exp_samples": samples,
            }
        ],
    }


def _with_what_it_needs(alert: str, folder: Path) -> Path:
    """The alert and the recording rules it goes by, as they are shipped: the others would be evaluated for nothing."""
    (rule,) = (rule for rule in rules("alerts.yml") if rule["alert"] == alert)
    needed = [each for each in rules("recording.yml") if re.search(rf"{each['record']}\b", rule["expr"])]
    file = folder / f"{alert}.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "shipped", "rules": [*needed, rule]}]}))
    return file


@pytest.mark.parametrize("alert", list(CASES))
def test_an_alert_fires_when_it_should_and_only_then(alert: str, tmp_path: Path) -> None:
    """Positive, negative, and without any data."""
    case = CASES[alert]
    tests = [_expected(alert, case, case.fires, 1), _expected(alert, case, case.quiet, None)]
    tests.append(_expected(alert, case, {}, 1 if alert == "MetricsAbsent" else None))
    # What was recorded is looked back for by five minutes.
    often = "1m" if case.step == "1m" else "4m"
    file = tmp_path / "tests.yml"
    shipped = str(_with_what_it_needs(alert, tmp_path))
    file.write_text(yaml.safe_dump({"rule_files": [shipped], "evaluation_interval": often, "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_files_are_valid_as_a_whole() -> None:
    files = [str(PROMETHEUS / name) for name in ("recording.yml", "alerts.yml")]
    done = subprocess.run(["promtool", "check", "rules", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_that_is_asked_for_exists() -> None:
    """To rename or remove a metric breaks this, and not a dashboard in the night."""
    recorded = {rule["record"] for rule in rules("recording.yml")}
    asked = [
        (rule.get("alert") or rule["record"], rule["expr"])
        for name in ("alerts.yml", "recording.yml")
        for rule in rules(name)
    ]
    asked += queries()
    assert len(asked) > 80
    for where, query in asked:
        for name in re.findall(r"\b(?:ares|process)_[a-z_]+", re.sub(r"ares:[a-z0-9_:]+", "", query)):
            base = re.sub(r"_(bucket|count|sum)$", "", name) if name not in METRICS else name
            assert base in METRICS, f"{where}: {name}"
        for name in re.findall(r"\bares:[a-z0-9_:]+", query):
            assert name in recorded, f"{where}: {name}"
    told = " ".join(query for _, query in asked)
    for name in ("ares_jobs_total", "ares_gpu_utilization", "ares_scheduling_latency_seconds", "ares_retries_total"):
        assert name in told


def test_every_alert_leads_to_a_runbook() -> None:
    for rule in rules("alerts.yml"):
        page = ROOT / rule["annotations"]["runbook"]
        text = page.read_text()
        assert f"`{rule['alert']}`" in text, rule["alert"]
        assert re.findall(r"^## .*$", text, re.M) == HEADINGS, page.name
        assert rule["labels"]["severity"] in ("page", "ticket")
    named = {Path(rule["annotations"]["runbook"]).name for rule in rules("alerts.yml")}
    assert {page.name for page in RUNBOOKS.glob("*.md")} == {*named, "README.md"}


def test_commands_of_runbooks_exist() -> None:
    """As far as their names go."""
    for page in RUNBOOKS.glob("*.md"):
        for words in re.findall(r"`ares ([^`]+)`", page.read_text()):
            command: click.Command = cli
            for word in words.split():
                if not isinstance(command, click.Group) or not word.islower() or word.startswith("-"):
                    break
                found = command.get_command(click.Context(command), word)
                assert found is not None, f"{page.name}: ares {words}"
                command = found


def test_alertmanager_takes_its_file() -> None:
    file = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
    done = subprocess.run(["amtool", "check-config", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_are_whole() -> None:
    boards = [json.loads(path.read_text()) for path in sorted(GRAFANA.glob("*.json"))]
    assert len({board["uid"] for board in boards}) == len(boards) >= 5
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids)
        for panel in board["panels"]:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            assert panel["title"]
            assert all(target["expr"] for target in panel["targets"])
