"""The page about the lifecycle shows the graph that the code has."""

from pathlib import Path

from ares.core.lifecycle.graph import diagram
from ares.core.lifecycle.retry import RULES

PAGE = Path(__file__).parents[4] / "docs" / "concepts" / "lifecycle.md"


def test_the_diagram_on_the_page_is_the_table() -> None:
    assert f"```mermaid\n{diagram()}```\n" in PAGE.read_text(), f"put this on the page:\n{diagram()}"


def test_the_page_lists_every_failure_class_with_its_default() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    shown = {row[1].strip().strip("`"): row[3].strip() for row in rows}
    expected = {name: "the job's `limit`" if rule.limit is None else str(rule.limit) for name, rule in RULES.items()}
    assert shown == expected
