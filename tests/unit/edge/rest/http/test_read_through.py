"""Answers of a cluster under this server's name: in this server's own types, and within its bounds."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from ares.control.federation.asking import AskStreams
from ares.edge.rest.http.problems import Problem
from ares.edge.rest.http.read_through import through
from ares.model.access import Principal
from ares.model.cluster import Owner
from ares.model.cluster_link import AskBody, AskCommand, AskMessage, AskStart
from tests.clocks import settle

WHO = Principal(token_id="t", tenant="alpha", role="submitter")
CLUSTER = Principal(token_id="", tenant="", role="cluster", cluster="east")
STATE = SimpleNamespace(
    id="j", tenant="alpha", phase="RUNNING", owner=Owner(cluster="east", epoch=1, stage="CONFIRMED")
)  # fmt: skip


class Scene:
    """A request about a job of cluster east, and what that cluster answers."""

    def __init__(self) -> None:
        self.asks = AskStreams()
        self.sent: list[Any] = []
        self.commands: list[AskCommand] = []
        self._said: asyncio.Queue[AskMessage] = asyncio.Queue()
        self._task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        async for command in self.asks.serve(CLUSTER, self._messages()):
            self.commands.append(command)

    async def _messages(self) -> AsyncIterator[AskMessage]:
        while True:
            yield await self._said.get()

    async def ask(self, operation: str, *answers: AskMessage, pieces: bool = False) -> None:
        await settle()
        for answer in answers:
            self._said.put_nowait(answer)
        view = SimpleNamespace(entries={"j": SimpleNamespace(state=STATE)})
        federation = SimpleNamespace(asks=self.asks, clusters=SimpleNamespace(age_s=dict[str, float]().get))
        edge = SimpleNamespace(services=SimpleNamespace(view=view, federation=federation), streams=self)
        scope: Any = {"headers": [], "query_string": b""}
        call: Any = SimpleNamespace(
            edge=edge, path={"id": "j"}, who=WHO, token="", raw=b"", scope=scope, query=SimpleNamespace(pieces=pieces)
        )
        answer = through(operation, call)
        assert answer is not None
        await answer(scope, self._nothing, self._send)

    async def _nothing(self) -> Any:
        await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    # As the server's streams do it.
    async def run(self, _token: str, _who: Principal, work: Any, gone: Any) -> None:
        gone.close()
        await work

    async def send(self, sending: Any) -> None:
        await sending

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


HTML = {"content-type": "text/html", "content-disposition": "inline", "set-cookie": "a=b", "location": "//evil"}


@pytest.mark.parametrize(
    ("operation", "pieces", "media"),
    [
        ("getJobLogs", False, b"text/plain; charset=utf-8"),
        ("getJobLogs", True, b"application/jsonl"),
        ("getOutput", False, b"application/octet-stream"),
        ("explainJob", False, b"application/json"),
    ],
)
async def test_the_type_of_an_answer_is_this_servers_own(operation: str, pieces: bool, media: bytes) -> None:
    scene = Scene()
    start = AskStart(id=1, status=200, headers={**HTML, "Content-Length": "2", "etag": '"ab"', "x-ares-attempt": "<b>"})
    await scene.ask(operation, start, AskBody(id=1, data=b"{}", more=False), pieces=pieces)
    headers = scene.headers
    expected = {b"content-type": media, b"content-length": b"2", b"etag": b'"ab"'}
    assert headers == (expected | {b"content-disposition": b"attachment"} if operation == "getOutput" else expected)
    assert b"".join(sent.get("body", b"") for sent in scene.sent) == b"{}"


async def test_a_refusal_is_a_problem_and_short() -> None:
    scene = Scene()
    await scene.ask("getOutput", AskStart(id=1, status=409, headers=HTML), AskBody(id=1, data=b"{}", more=False))
    assert scene.headers == {b"content-type": b"application/problem+json"}
    long = [AskBody(id=2, data=b"x" * 200_000) for _ in range(2)]
    with pytest.raises(ConnectionError, match="more than it may"):
        await Scene().ask("getOutput", AskStart(id=1, status=409), *(AskBody(id=1, data=body.data) for body in long))


async def test_an_answer_longer_than_it_said_is_cut_off() -> None:
    scene = Scene()
    with pytest.raises(ConnectionError, match="more than it may"):
        await scene.ask(
            "getOutput", AskStart(id=1, status=200, headers={"content-length": "3"}), AskBody(id=1, data=b"four")
        )


@pytest.mark.parametrize("status", [301, 399])
async def test_a_status_that_no_operation_has_is_no_answer(status: int) -> None:
    with pytest.raises(Problem) as refused:
        await Scene().ask("explainJob", AskStart(id=1, status=status, headers=HTML))
    assert "which is no answer" in (refused.value.detail or "")


async def test_a_cluster_that_does_not_wait_for_its_reader_fills_no_memory() -> None:
    scene = Scene()
    await settle()
    answer = scene.asks.ask("east", lambda number: SimpleNamespace(id=number))  # type: ignore[arg-type,return-value]
    assert answer is not None
    answer.take(AskStart(id=1, status=200))
    for _ in range(3):
        answer.take(AskBody(id=1, data=b"x" * 1024 * 1024))
    with pytest.raises(ConnectionError, match="went away"):
        [piece async for piece in answer.pieces()]
    # Many that are empty count as well.
    empty = scene.asks.ask("east", lambda number: SimpleNamespace(id=number))  # type: ignore[arg-type,return-value]
    assert empty is not None
    for _ in range(40_000):
        empty.take(AskBody(id=2, data=b""))
    assert empty.broken
