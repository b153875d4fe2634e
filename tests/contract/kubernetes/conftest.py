"""The stand-in under contract. tests/e2e/test_kubernetes_server.py runs the same tests on a real API server."""

from collections.abc import Iterator

import pytest

from tests.kubernetes import StandInCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInCluster]:
    with StandInCluster(tmp_path_factory.mktemp("kube")) as cluster:
        cluster.install()
        yield cluster
