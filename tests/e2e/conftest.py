"""Platforms of real processes for end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform import Platform


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    """Empty, on SQLite: the test starts what it needs and may kill all of it."""
    with Platform(tmp_path, warm=True) as platform:
        yield platform


@pytest.fixture(scope="module", params=["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One server and one node, on each store. Shared: tests leave it as they found it."""
    with Platform(tmp_path_factory.mktemp(request.param), request.param, warm=True) as platform:
        platform.server()
        platform.agent("node-a")
        yield platform


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One server and one node, on SQLite. Shared: tests leave it as they found it."""
    with Platform(tmp_path_factory.mktemp("shared"), lend=False, warm=True) as platform:
        platform.server()
        platform.agent("node-a")
        yield platform
