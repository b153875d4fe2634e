"""The page about reasons lists the codes that the code has, each with its class."""

from typing import get_args

from ares.api.reasons import REMEDIES, ReasonCode
from tests.tidy.source import ROOT


def test_every_code_is_on_the_page_with_its_class() -> None:
    page = (ROOT / "docs" / "concepts" / "reasons.md").read_text()
    lines = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| `")]
    assert sorted((cells[1].strip("`"), cells[2]) for cells in lines) == sorted(REMEDIES.items())
    assert set(REMEDIES) == set(get_args(ReasonCode))
    assert all(len(cells) == 6 and cells[3] and cells[4] for cells in lines)
