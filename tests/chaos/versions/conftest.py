"""The earlier version, once for all tests of a run."""

from pathlib import Path

import pytest

from tests.chaos.versions.old import MISSING, available, export


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not available():
        pytest.skip(MISSING)
    return export(tmp_path_factory.mktemp("old"))
