"""Datasets for other nodes: what the control plane sealed for this node is answered, and nothing else."""

import asyncio
import hashlib
import http.client
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from ares.adapters.clocks import SystemClock
from ares.adapters.links.direct import DirectFiles
from ares.adapters.links.peer_door import HttpPeerDoor
from ares.agent.staging.dataset_shelf import DatasetShelf
from ares.agent.staging.peer_files import PeerFiles
from ares.agent.transfer.transfers import Transfers
from ares.api.projects import ProjectEntry, ProjectManifest
from ares.core.transfer.peers import PeerAsk, peer_ask, peer_target
from ares.model.base import AttemptRef, Fence
from ares.model.link import FetchPiece, FetchRequest
from ares.ports.link import LinkBroken

KEY, NOW = "the key of this node", 1_000_000.0
DATA, OTHER = b"the first film", b"of another tenant"
SHA = hashlib.sha256(DATA).hexdigest()
VERSION, ELSE = "a" * 64, "b" * 64
ASK = PeerAsk("acme", VERSION, "films/one", 4, 5, int(NOW) + 60)


class Wall(SystemClock):
    def __init__(self, wall: float = NOW) -> None:
        self._wall = wall

    def wall(self) -> float:
        return self._wall


def shelved(shelf: DatasetShelf, tenant: str, version: str, data: bytes) -> None:
    entries = (
        ProjectEntry("films", "dir", 0o755, 0, ()),
        ProjectEntry("films/one", "file", 0o644, len(data), (hashlib.sha256(data).hexdigest(),)),
        ProjectEntry("out", "link", 0o777, 0, (), "films/one"),
    )
    draft = shelf.draft(tenant, version, ProjectManifest(entries=entries))
    draft.begin(lambda: True)
    draft.write(hashlib.sha256(data).hexdigest(), data)
    shelf.add(tenant, version, draft)


@dataclass
class Node:
    files: PeerFiles
    transfers: Transfers
    port: int

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def get(self, target: str, method: str = "GET") -> tuple[int, bytes]:
        def asked() -> tuple[int, bytes]:
            line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            line.request(method, target)
            answer = line.getresponse()
            found = answer.status, answer.read()
            line.close()
            return found

        return await asyncio.to_thread(asked)


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    shelf = DatasetShelf(tmp_path / "cache", 1 << 30)
    shelved(shelf, "acme", VERSION, DATA)
    shelved(shelf, "other", ELSE, OTHER)
    (tmp_path / "cache" / "acme" / "secret").write_bytes(b"not data")
    transfers = Transfers(SystemClock())
    files, door = PeerFiles(shelf, lambda: KEY, transfers, Wall()), HttpPeerDoor(0, "127.0.0.1")
    serving = asyncio.create_task(door.serve(files.answer))
    while not door.listens_at:
        await asyncio.sleep(0.005)
    yield Node(files, transfers, door.listens_at)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_what_was_sealed_is_answered_and_counted(node: Node) -> None:
    assert await node.get(peer_target(KEY, ASK)) == (200, DATA[4:9])
    assert node.transfers.moved() == {("acme", "data"): 5}
    assert await node.get(peer_target(KEY, ASK._replace(tenant="other", version=ELSE))) == (200, OTHER[4:9])


SEALED = peer_target(KEY, ASK)
MISUSES = {
    "another tenant": SEALED.replace("/acme/", "/other/"),
    "another version": SEALED.replace(VERSION, ELSE),
    "another tenant's version": SEALED.replace(f"/acme/{VERSION}", f"/other/{ELSE}"),
    "another file": SEALED.replace("films%2Fone", "films%2Ftwo"),
    "another place": SEALED.replace("at=4", "at=0"),
    "more bytes": SEALED.replace("size=5", "size=14"),
    "a later end": SEALED.replace(f"until={ASK.until}", f"until={ASK.until + 600}"),
    "it is over": peer_target(KEY, ASK._replace(until=int(NOW) - 1)),
    "the key of another node": peer_target("another key", ASK),
    "no seal": SEALED.partition("&seal=")[0],
    "a word too many": SEALED + "&at=0",
    # Sealed, by a mistake of the control plane's: there is no such place all the same.
    "a path that climbs": peer_target(KEY, ASK._replace(path="../../../secret", at=0)),
    "a tenant that climbs": peer_target(KEY, ASK._replace(tenant="..", at=0)),
    "a link": peer_target(KEY, ASK._replace(path="out")),
    "not here": peer_target(KEY, ASK._replace(tenant="other")),
    "too much": peer_target(KEY, ASK._replace(size=9 << 20)),
}


@pytest.mark.parametrize("misuse", MISUSES)
async def test_nothing_else_is_answered(node: Node, misuse: str) -> None:
    assert await node.get(MISUSES[misuse]) == (403, b"")
    assert await node.get(SEALED) == (200, DATA[4:9])


async def test_it_is_only_read(node: Node) -> None:
    for method in ("PUT", "DELETE", "HEAD"):
        assert (await node.get(SEALED, method))[0] == 403


@pytest.mark.parametrize("off_s", [-300.0, 300.0])
def test_clocks_may_be_minutes_apart(off_s: float) -> None:
    whole = ASK._replace(until=int(NOW) + 900)
    assert peer_ask(KEY, peer_target(KEY, whole), NOW + off_s) == whole
    assert peer_ask("", peer_target("", whole), NOW) is None


# ---- the node that asks


class Plane:
    """Names another node where that is asked for, and sends the bytes itself otherwise."""

    def __init__(self, url: str, sha256: str = SHA) -> None:
        self._piece = FetchPiece(sha256=sha256, data=b"", url=url, size=len(DATA), peer=True)
        self.asked = list[tuple[bool, bool]]()

    async def fetch(self, credential: str, request: FetchRequest) -> AsyncIterator[FetchPiece]:
        self.asked.append((request.peers, request.direct))
        yield self._piece if request.peers else FetchPiece(sha256=SHA, data=DATA)


REQUEST = FetchRequest(ref=AttemptRef(job="j", tenant="acme", fence=Fence()), rank=0, parts=(SHA,))


async def test_a_part_comes_from_another_node(node: Node) -> None:
    whole = peer_target(KEY, ASK._replace(at=0, size=len(DATA)))
    files = DirectFiles(Plane(node.origin + whole))
    assert [piece.data async for piece in files.fetch("c", REQUEST)] == [DATA]
    await files.close()


@pytest.mark.parametrize("wrong", ["other bytes", "refused", "gone"])
async def test_a_node_that_cannot_or_lies_is_left_alone_for_a_while(node: Node, wrong: str) -> None:
    now = [100.0]
    url = {
        "other bytes": node.origin + peer_target(KEY, ASK),
        "refused": node.origin + MISUSES["another place"],
        "gone": "http://127.0.0.1:1/acme",
    }[wrong]
    plane = Plane(url)
    files = DirectFiles(plane, lambda: now[0])
    with pytest.raises(LinkBroken, match="from another node"):
        _ = [piece async for piece in files.fetch("c", REQUEST)]
    assert [piece.data async for piece in files.fetch("c", REQUEST)] == [DATA]
    now[0] += 61.0
    with pytest.raises(LinkBroken):
        _ = [piece async for piece in files.fetch("c", REQUEST)]
    # An object store is asked all the while.
    assert plane.asked == [(True, True), (False, True), (True, True)]
    await files.close()
