"""The door for pods: jobs run in them, so that what each may have under way is bounded."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from ares.adapters.kubernetes.door import DoorServer, new_identity
from ares.ports.kubernetes import POD, SERVICE, TOKEN, PodFile, PodLeave, PodPart, PodTask, Unwelcome
from tests.ports import free_ports

CALLS_OF_A_POD = 4


class Waiting:
    """A service whose `next` lasts until the test says so."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.waiting = 0

    def admitted(self, pod: str, token: str) -> str:
        if token != "secret":
            raise Unwelcome("no such pod")
        return pod

    async def leave(self, pod: str) -> PodLeave:
        return PodLeave(granted=True)

    async def parts(self, pod: str) -> AsyncIterator[PodPart]:
        return
        yield

    async def next(self, pod: str) -> PodTask:
        self.waiting += 1
        await self.go_on.wait()
        return PodTask(todo="wait")

    async def hand_over(self, pod: str, files: AsyncIterator[PodFile]) -> None:
        return


async def test_a_pod_that_keeps_calls_open_takes_no_more_and_holds_up_no_other() -> None:
    service, identity = Waiting(), new_identity(time.time())
    address = f"127.0.0.1:{free_ports(1)[0]}"
    server = DoorServer(address, identity, service)
    await server.start()
    trusted = grpc.ssl_channel_credentials(identity.certificate.encode())
    options = (("grpc.ssl_target_name_override", "ares-door"), ("grpc.enable_http_proxy", 0))
    async with grpc.aio.secure_channel(address, trusted, options) as channel:

        def call(method: str, pod: str, token: str = "secret") -> Any:
            made = channel.unary_unary(f"/{SERVICE}/{method}")
            return made(b"", metadata=((POD, pod), (TOKEN, token)), timeout=30.0)

        greedy = [call("Next", "a") for _ in range(CALLS_OF_A_POD)]
        async with asyncio.timeout(30.0):
            while service.waiting < CALLS_OF_A_POD:
                await asyncio.sleep(0.01)
        with pytest.raises(grpc.aio.AioRpcError, match="4 calls are under way already"):
            await call("Leave", "a")
        assert await call("Leave", "b")
        with pytest.raises(grpc.aio.AioRpcError, match="no such pod"):
            await call("Leave", "a", "guess")
        service.go_on.set()
        assert len(await asyncio.gather(*greedy)) == CALLS_OF_A_POD
        assert await call("Leave", "a")
    await server.close()
