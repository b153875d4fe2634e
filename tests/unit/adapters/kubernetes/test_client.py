"""An API server that hangs, lies, or says too much: none of it is an answer, and none of it takes the agent along."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from ares.adapters.kubernetes import client as kube_client
from ares.adapters.kubernetes.client import KubeClient
from ares.model.kube import Pod
from ares.ports.kubernetes import AnswerTooLarge, KubeUnavailable, Listed

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
_CONFIG = """{{"apiVersion": "v1", "kind": "Config", "current-context": "t",
"clusters": [{{"name": "t", "cluster": {{"server": "http://127.0.0.1:{port}"}}}}],
"users": [{{"name": "t", "user": {{}}}}], "contexts": [{{"name": "t", "context": {{"cluster": "t", "user": "t"}}}}]}}"""


@asynccontextmanager
async def against(tmp_path: Path, answer: Answer) -> AsyncIterator[KubeClient]:
    under_way = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                await answer(head.split(" ")[1], writer)
                await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    file = tmp_path / "kubeconfig"
    file.write_text(_CONFIG.format(port=server.sockets[0].getsockname()[1]))
    client = KubeClient("ares", "ares/collect", "job", str(file))
    try:
        yield client
    finally:
        await client.close()
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way)


def reply(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"<html>", b'{"metadata": 7}', b'{"spec": {"containers": {}}}'])
async def test_what_cannot_be_read_is_no_answer(tmp_path: Path, body: bytes) -> None:
    """Otherwise an attempt would end with an error of the agent's own."""

    async def answer(path: str, writer: asyncio.StreamWriter) -> None:
        reply(writer, body)

    async with against(tmp_path, answer) as client:
        for ask in (lambda: client.get("p"), lambda: client.create({}), lambda: client.change("p", [])):
            with pytest.raises(KubeUnavailable):
                await ask()


async def test_a_server_that_drips_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "_WHOLE_ANSWER_S", 0.3)

    async def answer(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with against(tmp_path, answer) as client:
        with pytest.raises(KubeUnavailable):
            await client.get("p")


async def test_an_answer_without_an_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "_ANSWER_MAX", 100_000)

    async def answer(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"2710\r\n" + b" " * 10_000 + b"\r\n")
            await writer.drain()

    async with against(tmp_path, answer) as client:
        with pytest.raises(AnswerTooLarge):
            await client.get("p")


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of others' pods only what counts is kept: a large cluster has very many of them."""
    monkeypatch.setattr(kube_client, "_ANSWER_MAX", 20_000)
    pods = [
        {"metadata": {"name": f"p{n:03}", "namespace": "ares" if n == 7 else "x", "uid": str(n),
                      "annotations": {"long": "y" * 1000}}}
        for n in range(100)
    ]  # fmt: skip

    async def answer(path: str, writer: asyncio.StreamWriter) -> None:
        asked = dict(part.split("=") for part in path.partition("?")[2].split("&"))
        if "watch" in asked:
            writer.close()
            return
        begin, limit = int(asked.get("continue", 0)), int(asked["limit"])
        more = str(begin + limit) if begin + limit < len(pods) else ""
        page = {"metadata": {"resourceVersion": "9", "continue": more}, "items": pods[begin : begin + limit]}
        reply(writer, msgspec.json.encode(page))

    async with against(tmp_path, answer) as client:
        news = client.pods()
        listed = await anext(news)
        await news.aclose()
    assert isinstance(listed, Listed)
    found: tuple[Pod, ...] = listed.items
    assert [pod.metadata.name for pod in found] == [pod["metadata"]["name"] for pod in pods]
    assert [pod.metadata.name for pod in found if pod.metadata.annotations] == ["p007"]
