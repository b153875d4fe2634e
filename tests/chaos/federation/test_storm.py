"""Three clusters of real processes, one of them on Kubernetes, under a global plane of three replicas on etcd: each
link cut, frozen and slowed down under load, and a cluster that comes back with hundreds of jobs of its own."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.federation import Federation
from tests.federation_storm import Storm

pytestmark = [pytest.mark.chaos, pytest.mark.slow]
_NAMES = ("alpha", "beta", "kube")


@contextmanager
def _three_clusters(directory: Path) -> Generator[Federation]:
    with Federation(directory, replicas=3) as fed:
        fed.cluster("alpha")
        fed.cluster("beta")
        fed.kube("kube")
        yield fed


def test_a_storm_over_three_replicas_and_kubernetes_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    with _three_clusters(tmp_path / "storm") as fed:
        storm = Storm(fed, _NAMES, seed)
        storm.blow(20.0, fault_s=(0.3, 3.0), pause_s=1.0)
        storm.rejoin("beta", 100)
        storm.judge()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_storm_of_minutes_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    """Faults are long enough for autonomy: 15 s. ARES_STORM_S=3600 makes it an hour."""
    with _three_clusters(tmp_path / "storm") as fed:
        storm = Storm(fed, _NAMES, seed)
        storm.blow(float(os.environ.get("ARES_STORM_S", "240")), fault_s=(0.5, 25.0), pause_s=0.5)
        storm.rejoin("beta", 500)
        storm.judge()
