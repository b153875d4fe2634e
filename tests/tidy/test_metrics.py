"""Every metric that is counted is declared, as it is counted; every one declared is counted, bounded and documented."""

import ast
import re

from ares.adapters.telemetry.metrics import GROUPS, METRICS, SERIES_MAX
from ares.adapters.telemetry.series import LABELS_MAX
from tests.tidy.source import ROOT, SRC, python_files, tree, where

KINDS = {"count": "counter", "observe": "histogram", "observe_all": "histogram", "gauge": "gauge", "gauges": "gauge"}
DECLARATIONS = SRC / "adapters" / "telemetry" / "metrics.py"
PAGE = ROOT / "docs" / "concepts" / "metrics.md"
# Metrics that the requirements name, with the labels they give; all of their words begin with the project's name.
WANTED: dict[str, tuple[str, ...]] = {
    "ares_jobs_total": ("state",), "ares_gpu_utilization": ("gpu_id",), "ares_scheduling_latency_seconds": (),
    "ares_lease_acquisitions_total": (), "ares_http_request_duration_seconds": ("route", "method", "status_class"),
    "ares_gpu_seconds_total": ("pool", "use"), "ares_transitions_total": (), "ares_start_latency_seconds": (),
    "ares_jobs_running": (), "ares_queue_depth": (),
}  # fmt: skip
# Where they are written, beside a checkout of the project; not everywhere.
REQUIREMENTS = (ROOT.parent / "shared" / "POLARIS.md", ROOT.parent / "shared" / "spec" / "ares-polaris-features.md")


def _uses() -> list[tuple[str, str, str, int | None]]:
    """(place, name, kind, number of labels or None) of every call on the Telemetry port with a literal name."""
    uses: list[tuple[str, str, str, int | None]] = []
    for path in python_files(SRC):
        for node in ast.walk(tree(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KINDS):
                continue
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and "_" in name.value:
                unknown = node.func.attr == "gauges" or any(isinstance(each, ast.Starred) for each in node.args)
                labels = None if unknown else max(0, len(node.args) - 2)
                uses.append((where(path, node.lineno), name.value, KINDS[node.func.attr], labels))
    return uses


def test_counted_as_declared() -> None:
    wrong = [
        f"{place} {name}"
        for place, name, kind, labels in _uses()
        if (metric := METRICS.get(name)) is None or metric.kind != kind or labels not in (None, len(metric.labels))
    ]
    assert len(_uses()) > 50
    assert not wrong


def test_declared_is_counted() -> None:
    text = "\n".join(p.read_text() for p in python_files(SRC) if p != DECLARATIONS)
    assert [name for name in METRICS if f'"{name}"' not in text] == []


def test_what_the_requirements_name_is_there() -> None:
    assert [name for name in WANTED if name not in METRICS] == []
    assert [name for name, labels in WANTED.items() if not set(labels) <= set(METRICS[name].labels)] == []
    written = "\n".join(page.read_text() for page in REQUIREMENTS if page.exists())
    assert sorted(set(re.findall(r"\bares_[a-z]+(?:_[a-z]+)*\b", written)) - set(WANTED)) == []


def test_the_product_of_labels_is_bounded() -> None:
    """Whatever clients, nodes and profiles are called, a replica exposes no more lines than a scraper can keep."""
    assert [name for name, metric in METRICS.items() if len(metric.labels) > LABELS_MAX] == []
    assert [name for name, metric in METRICS.items() if len(metric.begins) > metric.series_max] == []
    assert sum(metric.lines_max for metric in METRICS.values()) <= SERIES_MAX


def test_no_label_names_a_job_a_tenant_or_a_person() -> None:
    private = {"job", "tenant", "user", "team", "path", "error", "token"}
    assert [name for name, metric in METRICS.items() if private & set(metric.labels)] == []


def test_documented() -> None:
    """The page has the table as it is declared, group by group."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", PAGE.read_text(), re.M)
    wanted = [
        (name, metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help)
        for group in GROUPS.values()
        for name, metric in group.items()
    ]
    assert rows == wanted
    headings = re.findall(r"^### (.*)$", PAGE.read_text(), re.M)
    assert [heading for heading in headings if heading in GROUPS] == list(GROUPS)
