"""A Python client of the gRPC service, generated from the proto files as a user would do it."""

import importlib
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import grpc
import grpc.aio
from grpc_tools import protoc

PROTO = Path(__file__).parent.parent / "proto"


class Generated(NamedTuple):
    api: Any
    stubs: Any
    health: Any
    health_stubs: Any


@cache
def generated() -> Generated:
    """Once in a process. The name `ares` is taken in Python: the client's package has another."""
    with TemporaryDirectory(prefix="ares-grpc-client-") as folder:
        return _generated_in(Path(folder))


def _generated_in(folder: Path) -> Generated:
    (folder / "ares_grpc").mkdir()
    given = (f"-Iares_grpc={PROTO / 'ares/v1'}", f"-Iares_health={PROTO / 'grpc/health/v1'}")
    known = f"-I{files('grpc_tools') / '_proto'}"
    names = ("ares_grpc/api.proto", "ares_health/health.proto")
    assert not protoc.main(("protoc", *given, known, f"--python_out={folder}", f"--grpc_python_out={folder}", *names))
    sys.path.insert(0, str(folder))
    try:
        return Generated(
            *(
                _module(name)
                for name in (
                    "ares_grpc.api_pb2",
                    "ares_grpc.api_pb2_grpc",
                    "ares_health.health_pb2",
                    "ares_health.health_pb2_grpc",
                )
            )
        )
    finally:
        sys.path.remove(str(folder))


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


class RpcClient:
    """All services over one channel, with one credential."""

    def __init__(self, address: str, token: str | None, channel: grpc.aio.Channel | None = None) -> None:
        self.made = generated()
        self.channel = channel or grpc.aio.insecure_channel(address)
        self.token = token
        self.jobs = self.made.stubs.JobServiceStub(self.channel)
        self.events = self.made.stubs.EventServiceStub(self.channel)
        self.logs = self.made.stubs.LogServiceStub(self.channel)
        self.nodes = self.made.stubs.NodeServiceStub(self.channel)
        self.federation = self.made.stubs.FederationServiceStub(self.channel)
        self.health = self.made.health_stubs.HealthStub(self.channel)

    def metadata(self, **more: str) -> tuple[tuple[str, str], ...]:
        given = {name.replace("_", "-"): value for name, value in more.items()}
        if self.token is not None:
            given["authorization"] = f"Bearer {self.token}"
        return tuple(given.items())

    def job(self, *command: str, **fields: Any) -> Any:
        api = self.made.api
        return api.SubmitJobRequest(spec=api.JobSpec(command=command, name="train"), **fields)

    async def submit(self, *command: str, **fields: Any) -> Any:
        return await self.jobs.SubmitJob(self.job(*command, **fields), metadata=self.metadata())
