"""The lifecycle as stories: every file in transcripts/ must come out exactly as it is written."""

from pathlib import Path

import pytest

from ares.core.lifecycle.graph import TRANSITIONS
from tests.unit.core.lifecycle.transcript import FOLDER, replay

FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text()
    assert replay(text) == text, "if the change is meant: PYTHONPATH=src python -m tests.unit.core.lifecycle.transcript"


def test_transcripts_tell_every_transition() -> None:
    told = "\n".join(path.read_text() for path in FILES)
    silent = {target for one in TRANSITIONS.values() for target in one.targets if f"\n{target} attempt=" not in told}
    assert FILES
    assert not silent
