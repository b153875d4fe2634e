"""Hostile frames of an enrolled agent over the real link: no end of a server, no growth, others' leases untouched."""

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import psutil
import pytest

from tests.platform import Platform, Server, eventually, say
from tests.security.fuzz.frames import Hostile

FRAMES = int(os.environ.get("ARES_FUZZ_REQUESTS", "400"))
SEED = int(os.environ.get("ARES_FUZZ_SEED", "6"))
ROUNDS = 10
LINES = 4
# How a stream may end: its frame was refused, it began anew in the middle, or, in the words of the client's library, it
# was over when the client wrote.
_EXPECTED = ("INVALID_ARGUMENT", "OK", "FAILED_PRECONDITION", "INTERNAL Internal error from Core")
# From the first tenth of the frames to the last, however many they are, of the server and its planner together. What
# is remembered of frames is bounded in the first tenth of 100,000: half a KiB more of each would be over it.
GROWTH_MIB = 48
ANSWER_S = 60.0
_OPTIONS = (("grpc.max_send_message_length", 16 << 20), ("grpc.use_local_subchannel_pool", 1))


async def _credential(address: str, token: str, node: str) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        join: Any = channel.unary_unary("/ares.v1.AgentLink/Join")
        reply = await join(msgspec.msgpack.encode({"token": token, "node": node}), timeout=ANSWER_S)
        return msgspec.msgpack.decode(reply)["credential"]


class Line:
    """One hostile node: each frame is followed by a renewal, whose answer says that the frame was looked at."""

    def __init__(self, address: str, credential: str, hostile: Hostile) -> None:
        self._address = address
        self._channel = self._connect()
        self._proof = (("authorization", f"Bearer {credential}"),)
        self._hostile = hostile
        self._nonce = 1 << 40
        self.ends = Counter[str]()
        # How often a connection of its own making stood still, and it began another.
        self.stalls = 0

    async def attack(self, count: int) -> None:
        call: Any = None
        for _ in range(count):
            try:
                async with asyncio.timeout(ANSWER_S):
                    call = await self._strike(call)
            except TimeoutError:
                self.stalls += 1
                call = None
                await self._channel.close()
                self._channel = self._connect()
        if call is not None:
            call.cancel()

    async def _strike(self, call: Any) -> Any:
        """The stream for the next frame; None when this one ended it."""
        if call is None:
            call = self._open()
            await call.write(msgspec.msgpack.encode({"messages": [self._hostile.hello()]}))
        self._nonce += 1
        try:
            await call.write(self._hostile.next())
            await call.write(msgspec.msgpack.encode({"messages": [{"type": "renew", "nonce": self._nonce}]}))
            alive = await self._answered(call)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            alive = False
        if alive:
            return call
        details = await call.details() or ""
        self.ends[f"{(await call.code()).name} {details[:60]}"] += 1
        return None

    def _connect(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self._address, options=_OPTIONS)

    def _open(self) -> Any:
        return self._channel.stream_stream("/ares.v1.AgentLink/Session")(metadata=self._proof)

    async def _answered(self, call: Any) -> bool:
        while isinstance(frame := await call.read(), bytes):
            for message in msgspec.msgpack.decode(frame)["messages"]:
                if message.get("nonce") == self._nonce:
                    return True
        return False

    async def close(self) -> None:
        await self._channel.close()


async def _attack(address: str, nodes: dict[str, tuple[str, Hostile]], count: int) -> tuple[Counter[str], int]:
    """Each node sends its part of so many frames; how their streams ended, and how many connections stood still."""
    lines = [Line(address, credential, hostile) for credential, hostile in nodes.values()]
    await asyncio.gather(*(line.attack(count // len(lines)) for line in lines))
    ends = Counter[str]()
    for line in lines:
        ends += line.ends
        await line.close()
    return ends, sum(line.stalls for line in lines)


def _rss(server: Server) -> int:
    process = psutil.Process(server.pid)
    return sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) >> 20


@pytest.mark.timeout(7200)
def test_hostile_frames(tmp_path: Path) -> None:
    """`make fuzz REQUESTS=100000` is the same with more."""
    with Platform(tmp_path) as platform:
        server = platform.server()
        platform.agent("honest")
        client = platform.client()
        job = client.submit(command=["sleep", "7000"], name="neighbour").id
        eventually(lambda: client.get(job).state.phase == "RUNNING", "the neighbour", 60.0)
        before = client.get(job).state
        nodes = dict[str, tuple[str, Hostile]]()
        for number in range(LINES):
            node = f"hostile-{number}"
            token = client.create_join_token(node=node).token
            credential = asyncio.run(_credential(server.agents, token, node))
            nodes[node] = credential, Hostile(node, job, before.tenant, SEED + number)
        rss, ends, stalls = list[int](), Counter[str](), 0
        for number in range(ROUNDS):
            ended, stalled = asyncio.run(_attack(server.agents, nodes, FRAMES // ROUNDS))
            ends, stalls = ends + ended, stalls + stalled
            rss.append(_rss(server))
            say(
                f"fuzz: {(number + 1) * (FRAMES // ROUNDS):,} frames, RSS {rss[-1]} MiB, {sum(ends.values())} refused, "
                f"{stalls} connections stood still"
            )
        assert server.alive
        assert any(end.startswith("INVALID_ARGUMENT") for end in ends), "no frame was refused"
        odd = {end: many for end, many in ends.items() if not end.startswith(_EXPECTED)}
        assert not odd, f"seed {SEED}: {odd}"
        assert rss[-1] - rss[0] <= GROWTH_MIB, f"RSS after each round: {rss} MiB, {GROWTH_MIB} more allowed"
        # The neighbour has its lease and its log, and nothing was written about it.
        after = client.get(job).state
        assert (after.phase, after.fence, after.attempt, after.seq) == ("RUNNING", before.fence, 1, before.seq)
        assert b"".join(client.logs(job)) == b""
        assert {"agent-malformed"} <= {alert.kind for alert in client.alerts(platform=True)}
        # Whatever the hostile one wrote, a server starts with it and serves.
        server.kill()
        server.start()
        eventually(server.ready, "readiness", 60.0)
        assert platform.client().get(job).state.seq >= before.seq
