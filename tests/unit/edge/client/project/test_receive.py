"""Files of a dataset as they come: none of them lies elsewhere than below the directory that was named."""

import hashlib
from pathlib import Path

import pytest

from ares.api.projects import ProjectEntry
from ares.core.project import write_manifest
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.receive import Receiving


def test_a_link_that_another_version_left_leads_no_file_away(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "data"
    elsewhere.mkdir()
    root.mkdir()
    (root / "deep").symlink_to(elsewhere)
    data = b"cat\n"
    manifest = write_manifest(
        (
            ProjectEntry("deep", "dir", 0o755),
            ProjectEntry("deep/labels", "file", 0o644, len(data), (hashlib.sha256(data).hexdigest(),)),
        )
    )
    received = Receiving(root, manifest, hashlib.sha256(manifest).hexdigest(), lambda _: None)
    with pytest.raises(InvalidSpec, match="deep: it is a symbolic link here"):
        received.begin()
    assert list(elsewhere.iterdir()) == []
