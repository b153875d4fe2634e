"""Where ranks meet: neither side believes the other before it has shown that it knows the attempt's key."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ares.agent.helper.hub import Hub, Wire, call_hub
from ares.agent.helper.orders import HelperOrders, HelperScene
from ares.agent.helper.rank import HelperRank
from ares.agent.helper.slot import HelperEnd
from ares.core.runtime.kind import RuntimePlan

KEY = "the attempt's key"
WITHIN_S = 60.0


def timely(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    def run(*given: Any) -> None:
        async def limited() -> None:
            await asyncio.wait_for(test(*given), WITHIN_S)

        asyncio.run(limited())

    return run


@asynccontextmanager
async def hub_of(size: int) -> AsyncGenerator[tuple[Hub, int]]:
    hub = Hub(KEY, size, lambda place, why: None)
    await hub.open("127.0.0.1", 0)
    server = hub._server  # pyright: ignore[reportPrivateUsage]
    assert server is not None
    try:
        yield hub, server.sockets[0].getsockname()[1]
    finally:
        await hub.close(0)


@asynccontextmanager
async def impostor(heard: list[bytes], answers: list[bytes]) -> AsyncGenerator[int]:
    """Listens at the port of the first rank, keeps all it is told, and answers without the key."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for said in answers:
            heard.append(await reader.readline())
            writer.write(said + b"\n")
        while line := await reader.readline():
            heard.append(line)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def between(port: int, heard: list[bytes], turned_away: int = 0) -> AsyncGenerator[int]:
    """A door to the hub where all is heard, and the first callers are turned away."""
    left = [None] * turned_away

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            heard.append(line)
            writer.write(line)
        writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if left:
            left.pop()
            writer.close()
            return
        far, near = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(relay(reader, near), relay(far, writer))

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def welcomed(port: int) -> AsyncGenerator[None]:
    """The second rank, which has been welcomed."""
    wire = await call_hub("127.0.0.1", port, KEY, 5.0, place=1)
    assert isinstance(wire, Wire), wire
    yield
    await wire.close()


def rank_of(folder: Path, port: int, monkeypatch: pytest.MonkeyPatch, **plan: Any) -> HelperOrders:
    """The orders of the second rank of two."""
    peers = [{"rank": rank, "node": f"n{rank}", "address": "127.0.0.1"} for rank in (0, 1)]
    world = {"generation": 0, "rank": 1, "peers": peers, "masterPort": port}
    (folder / "world.json").write_text(json.dumps(world))
    monkeypatch.setenv("ARES_WORLD_FILE", str(folder / "world.json"))
    told = {
        "plan": structs.asdict(RuntimePlan(meets=True, **plan)), "command": ["true"], "key": KEY,
        "folder": str(folder), "meetS": 0.3, "elasticS": 20.0,
    }  # fmt: skip
    (folder / "runtime.json").write_text(json.dumps(told))
    return HelperOrders(str(folder / "runtime.json"))


async def ended(orders: HelperOrders) -> HelperEnd:
    return await HelperRank(HelperScene(orders, orders.world(), [], [])).run()


@pytest.mark.parametrize(
    "answers",
    [
        [{"run": 1, "command": "touch {}"}],
        [{"nonce": "0" * 32, "proof": "0" * 64}, {"run": 1, "command": "touch {}"}],
        [{"nonce": "0" * 32, "proof": "\ud800"}, {"welcome": True}, {"run": 1, "command": "touch {}"}],
        [{"welcome": True}, {"run": 1, "command": "touch {}"}, {"end": 0}],
        # Deeper than a reader of JSON goes.
        ["[" * 100_000],
    ],
)
def test_an_impostor_hears_no_key_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[Any]
) -> None:
    struck, heard = tmp_path / "struck", list[bytes]()
    lines = [said if isinstance(said, str) else json.dumps(said).replace("{}", str(struck)) for said in answers]

    async def met() -> HelperEnd:
        async with impostor(heard, [line.encode() for line in lines]) as port:
            return await ended(rank_of(tmp_path, port, monkeypatch, calls=True))

    end = asyncio.run(asyncio.wait_for(met(), WITHIN_S))
    assert (end.failure, "does not show that it knows the attempt's key" in end.message) == ("staging", True), end
    assert heard
    assert not [line for line in heard if KEY.encode() in line or b"place" in line]
    assert not struck.exists()


@pytest.mark.parametrize("calls", [True, False])
def test_commands_are_run_only_for_a_runtime_that_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: bool
) -> None:
    begun = list[str]()

    async def called(_: HelperRank, wire: Wire, said: dict[str, Any]) -> None:
        wire.say(ran=said["run"], code=0)

    def noted(rank: HelperRank, wire: Wire, said: dict[str, Any]) -> Awaitable[None]:
        begun.append(said["command"])
        return called(rank, wire, said)

    monkeypatch.setattr(HelperRank, "_called", noted)

    async def met() -> None:
        async with hub_of(2) as (hub, port):
            rank = asyncio.ensure_future(ended(rank_of(tmp_path, port, monkeypatch, calls=calls)))
            await hub.greet(first=[])
            await hub.all_ready(1)
            answer = asyncio.ensure_future(hub.run(1, "true"))
            if calls:
                assert await answer == 0
            await asyncio.sleep(0)
            # Said after the command on the same connection: by its end the rank has heard both.
            await hub.close(0)
            assert not (await rank).failed
            answer.cancel()

    asyncio.run(asyncio.wait_for(met(), WITHIN_S))
    assert begun == (["true"] if calls else [])


@asynccontextmanager
async def meddler(port: int, change: Callable[[list[bytes]], bytes]) -> AsyncGenerator[int]:
    """A door to the hub where what the hub says after its welcome is changed: `change` has all its lines so far."""
    tasks = list[asyncio.Future[Any]]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = list[bytes]()
        far, near = await asyncio.open_connection("127.0.0.1", port)

        async def up() -> None:
            while line := await reader.readline():
                near.write(line)
            near.close()

        async def down() -> None:
            while line := await far.readline():
                seen.append(line)
                writer.write(line if len(seen) <= 2 else change(seen))
            writer.close()

        await asyncio.gather(up(), down(), return_exceptions=True)
        for side in (near, writer):
            side.close()
        await asyncio.gather(near.wait_closed(), writer.wait_closed(), return_exceptions=True)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.ensure_future(answer(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("change", "heard"),
    [
        (lambda seen: seen[-1], True),
        (lambda seen: seen[-1].replace(b"true", b"evil"), False),
        (lambda seen: seen[-1].partition(b" ")[2], False),
        (lambda seen: seen[1], False),
        (lambda seen: b"", False),
        (lambda seen: seen[-1] * 2, False),
    ],
    ids=["as it was", "changed", "without a seal", "an earlier one", "left out", "twice"],
)
def test_what_is_changed_on_the_way_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[list[bytes]], bytes], heard: bool
) -> None:
    monkeypatch.setattr("ares.agent.helper.hub.SPEAK_S", 0.05)

    async def met() -> None:
        async with hub_of(2) as (hub, port), meddler(port, change) as door:
            wire = await call_hub("127.0.0.1", door, KEY, 5.0, place=1)
            assert isinstance(wire, Wire)
            said = list[dict[str, Any]]()
            with contextlib.suppress(EOFError):
                while len(said) < 3:
                    said.append(await wire.read(2.0))
                    hub.tell(1, run=len(said), command="true")
            numbers = [message["run"] for message in said if "run" in message]
            assert numbers == sorted(set(numbers))
            assert (len(said) == 3) == heard, said
            await wire.close()

    asyncio.run(asyncio.wait_for(met(), WITHIN_S))


@timely
async def test_a_caller_without_the_key_is_not_taken_for_a_rank() -> None:
    async with hub_of(2) as (hub, port):
        assert isinstance(await call_hub("127.0.0.1", port, "another key", 0.0, place=1), str)
        assert not hub.wires
        async with welcomed(port):
            assert set(hub.wires) == {1}


@timely
async def test_what_was_said_on_another_connection_proves_nothing() -> None:
    heard = list[bytes]()
    async with hub_of(2) as (hub, port), between(port, heard) as door, welcomed(door):
        shown = next(line for line in heard if b"place" in line)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(json.dumps({"nonce": "1" * 32}).encode() + b"\n")
        await reader.readline()
        writer.write(shown)
        assert await reader.read() == b""
        assert set(hub.wires) == {1}
        writer.close()


@pytest.mark.parametrize(
    "line",
    [
        b'{"nonce": "\\ud800"}\n',
        b'{"nonce": "' + b"\\ud800" * 32 + b'"}\n{"proof": "\\ud800"}\n',
        b'{"nonce": "' + b"1" * 32 + b'"}\n{"proof": "\\ud800"}\n',
        b'{"nonce": "' + b"1" * 32 + b'"}\n' + b'{"a":' + b"[" * 900 + b"]" * 900 + b"}\n",
        b"[" * 100_000 + b"\n",
        b'{"a":' * 20_000 + b"\n",
        b'{"key": "x", "place": "y"}\n',
    ],
)
def test_a_stranger_is_hung_up_on_whatever_it_says(line: bytes) -> None:
    async def met() -> None:
        async with hub_of(2) as (hub, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(line)
            # Ends only when the hub has closed its side.
            await reader.read()
            writer.close()
            assert not hub.wires

    asyncio.run(asyncio.wait_for(met(), WITHIN_S))


def test_idle_strangers_do_not_keep_a_rank_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.agent.helper.hub._HELLO_S", 2 * WITHIN_S)

    async def met() -> None:
        async with hub_of(2) as (hub, port):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
            async with welcomed(port):
                assert set(hub.wires) == {1}
            for _, writer in idle:
                writer.close()

    asyncio.run(asyncio.wait_for(met(), WITHIN_S))


@timely
async def test_a_silent_stranger_is_let_go_of() -> None:
    async with hub_of(2) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()


@timely
async def test_a_rank_calls_again_when_it_is_turned_away_before_it_is_welcome() -> None:
    heard = list[bytes]()
    async with hub_of(2) as (hub, port), between(port, heard, turned_away=2) as door, welcomed(door):
        assert set(hub.wires) == {1}
        assert len([line for line in heard if b"place" in line]) == 1
