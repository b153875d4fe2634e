"""Every metric that is counted is declared, as it is counted; every one declared is counted."""

import ast

from ares.adapters.telemetry.prometheus import METRICS
from tests.tidy.source import ROOT, SRC, python_files, tree, where

KINDS = {"count": "counter", "observe": "histogram", "gauge": "gauge"}
DECLARATIONS = SRC / "adapters" / "telemetry"


def _uses() -> list[tuple[str, str, str, bool]]:
    """(place, name, kind, has a label) of every call on the Telemetry port with a literal name."""
    uses: list[tuple[str, str, str, bool]] = []
    for path in python_files(SRC):
        for node in ast.walk(tree(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KINDS):
                continue
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.startswith("ares_"):
                labelled = len(node.args) > 2 or any(k.arg == "label" for k in node.keywords)
                uses.append((where(path, node.lineno), name.value, KINDS[node.func.attr], labelled))
    return uses


def test_counted_as_declared() -> None:
    wrong = [
        f"{place} {name}"
        for place, name, kind, labelled in _uses()
        if (metric := METRICS.get(name)) is None or metric.kind != kind or bool(metric.label) != labelled
    ]
    assert _uses()
    assert not wrong


def test_declared_is_counted() -> None:
    text = "\n".join(p.read_text() for p in python_files(SRC) if not p.is_relative_to(DECLARATIONS))
    assert [name for name in METRICS if f'"{name}"' not in text] == []


def test_documented() -> None:
    page = (ROOT / "docs" / "concepts" / "report.md").read_text()
    assert [name for name in METRICS if f"`{name}`" not in page] == []
