"""Checkpoints inside a job: what ranks saved together is one directory again."""

from pathlib import Path

import pytest

from ares import job


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a rank of a gang of two was given."""
    restored = tmp_path / "restore"
    restored.mkdir()
    monkeypatch.setenv("ARES_RESTORE_DIR", str(restored))
    monkeypatch.setenv("ARES_RESTORE_RANKS", "2")
    return restored


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_parts_of_all_ranks_become_one_directory(folder: Path) -> None:
    write(folder / "rank-0" / ".metadata", "list")
    write(folder / "rank-0" / "model" / "__0_0.distcp", "first")
    write(folder / "rank-1" / "model" / "__1_0.distcp", "second")
    whole = job.restore(merged=True)
    assert whole is not None
    found = {str(path.relative_to(whole)): path.read_text() for path in whole.rglob("*") if path.is_file()}
    assert found == {".metadata": "list", "model/__0_0.distcp": "first", "model/__1_0.distcp": "second"}
    # Another process of the rank finds it ready.
    assert job.restore(merged=True) == whole
    assert job.restore() == folder


def test_a_single_ranks_is_as_it_was_saved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_RESTORE_RANKS", "1")
    assert job.restore(merged=True) == folder
    monkeypatch.delenv("ARES_RESTORE_DIR")
    assert job.restore(merged=True) is None


def test_what_cannot_be_merged_is_said(folder: Path) -> None:
    write(folder / "data", "its own part")
    with pytest.raises(RuntimeError, match=r"checkpoint: \{allRanks: true\}"):
        job.restore(merged=True)
    (folder / "data").unlink()
    write(folder / "rank-0" / "a" / "data", "one")
    write(folder / "rank-1" / "a" / "data", "other")
    with pytest.raises(RuntimeError, match="several ranks saved a file a/data"):
        job.restore(merged=True)
