"""GPUs in `ares top` and `ares show`: what is known of them, and no more."""

from typing import Any

from ares.api.job_sessions import RankUse
from ares.edge.cli.commands.top import gpus_now


def _use(**changes: Any) -> RankUse:
    usual: dict[str, Any] = {"job": "j", "name": "job", "tenant": "t", "user": "u", "node": "n", "rank": 0, "cpus": 0.1}
    usual |= {"cpus_asked": 1.0, "memory_bytes": 1, "memory_asked_bytes": 2, "processes": 1}
    return RankUse(**usual, **changes)


def test_what_is_known_of_gpus_is_shown() -> None:
    busy = _use(gpus=(0, 1), gpus_busy=1.7, gpu_memory_bytes=40 << 30)
    assert gpus_now([busy]) == "1.70 of 2, 40Gi"
    assert gpus_now([busy, _use(gpus=(2,))]) == "1.70 of 3, 40Gi"
    assert gpus_now([_use(gpus=(0, 1))]) == "2"
    assert gpus_now([_use(gpus=(0,), mock_gpus=True)]) == "1 mock"
    assert gpus_now([_use()]) == "0"
