"""The jobs the benchmarks submit, and the records the platform writes for one."""

import json
from typing import Any

import msgspec

from ares.core import keys
from ares.core.admit.dedup import payload_sha256
from ares.core.lifecycle.graph import begin
from ares.core.lifecycle.inputs import Context
from ares.model.job import JobSpec, Resources
from ares.model.state import RequestRecord
from ares.ports.store import Compare, Put

TENANT = "default"
PUTS_PER_JOB = 4


def noop(cpu_milli: int, command: tuple[str, ...] = ("true",), env: dict[str, str] | None = None) -> dict[str, Any]:
    """A job that does nothing and may be one of many at once."""
    return {"command": list(command), "resources": {"cpuMilli": cpu_milli, "memoryMib": 16}, "env": env or {}}


def realistic(number: int) -> dict[str, Any]:
    """A training job as people submit them, with a name of its own."""
    return {
        "name": f"train-resnet50-fold-{number:06d}",
        "command": ["python", "train.py", "--data", "/data/imagenet", "--epochs", "90", "--seed", str(number)],
        "env": {"NCCL_DEBUG": "WARN", "HF_HOME": "/data/hf", "OMP_NUM_THREADS": "8", "RUN_ID": f"run-{number:06d}"},
        "labels": {"team": "vision", "project": "resnet", "experiment": f"sweep-{number // 100}"},
        "resources": {"cpuMilli": 8000, "memoryMib": 32768, "gpus": 1},
        "timeLimitS": 86400.0,
    }


def single(spec: dict[str, Any], request_id: str) -> bytes:
    return json.dumps({"spec": spec, "requestId": request_id}).encode()


def batch(specs: list[dict[str, Any]], prefix: str) -> bytes:
    jobs = [{"spec": spec, "requestId": f"{prefix}-{number}"} for number, spec in enumerate(specs)]
    return json.dumps({"jobs": jobs}).encode()


class Records:
    """The compare and the puts that one submission is, for measuring the store without the platform."""

    def __init__(self) -> None:
        spec = JobSpec(command=("true",), resources=Resources(cpu_milli=31, memory_mib=16))
        encode = msgspec.json.Encoder().encode
        context = Context(now=1.8e9, jitter=0.0, epoch=1)
        begun = begin(
            id="0123456789abcdef", tenant=TENANT, spec=spec, name=spec.name, submitted_by="0123456789", trace="0" * 55,
            context=context, request_id="bench-0-0",
        )  # fmt: skip
        self._spec, self._state, self._event = encode(spec), encode(begun.state), encode(begun.events[0])
        self._request = encode(RequestRecord(job="0123456789abcdef", payload_sha256=payload_sha256(spec)))

    def of(self, number: int) -> tuple[Compare, tuple[Put, ...]]:
        job = f"{number:016d}"
        claim = keys.request(TENANT, job)
        puts = (
            Put(claim, self._request),
            Put(keys.job(TENANT, job), self._spec),
            Put(keys.state(TENANT, job), self._state),
            Put(keys.event(TENANT, job, 1), self._event),
        )
        assert len(puts) == PUTS_PER_JOB
        return Compare(claim, "mod_revision", 0), puts
