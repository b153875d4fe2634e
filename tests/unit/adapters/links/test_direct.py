"""Files by signed URLs: whole, in order, never more than was asked for; by way of the control plane when that fails."""

import http.server
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from ares.adapters.links.direct import DirectFiles
from ares.model.base import AttemptRef, Fence
from ares.model.checkpoint import CheckpointAsk
from ares.model.link import FetchPiece, FetchRequest
from ares.ports.link import LinkBroken

DATA = bytes(range(256)) * 10_000
ASK = FetchRequest(ref=AttemptRef(job="j", tenant="t", fence=Fence()), rank=0, parts=("a", "b"))
SHA = "a" * 64


class _Store(http.server.BaseHTTPRequestHandler):
    """Has DATA at /whole, more than was asked for at /more, and sends elsewhere from /away."""

    def do_GET(self) -> None:
        first, _, last = self.headers["range"].removeprefix("bytes=").partition("-")
        answers = {
            "/whole": (206, DATA[int(first) : int(last) + 1]),
            "/more": (206, DATA),
            "/away": (302, b""),
            "/ranges-unknown": (200, DATA),
        }
        status, body = answers.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("location", "/whole")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Says nothing."""


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Store)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class _Plane:
    """Answers by URLs where that is asked for."""

    def __init__(self, *pieces: FetchPiece) -> None:
        self.pieces = pieces
        self.asked = list[bool]()

    async def fetch(self, credential: str, request: FetchRequest) -> AsyncIterator[FetchPiece]:
        assert credential == "c"
        self.asked.append(request.direct)
        for piece in self.pieces:
            yield piece if request.direct else FetchPiece(sha256=piece.sha256, data=b"from the plane")


async def test_parts_come_whole_and_ranges_in_order(store: str) -> None:
    whole = FetchPiece(sha256="a", data=b"", url=f"{store}/whole", size=8 << 20)
    files = DirectFiles(_Plane(whole, FetchPiece(sha256="b", data=b"sent")))
    assert [(piece.sha256, piece.data) async for piece in files.fetch("c", ASK)] == [("a", DATA), ("b", b"sent")]
    some = FetchPiece(sha256=SHA, data=b"", url=f"{store}/whole", offset=1000, size=1_500_000)
    ranged = DirectFiles(_Plane(some))
    restoring = FetchRequest(ref=ASK.ref, rank=0, checkpoint=CheckpointAsk(sha256=SHA, offset=1000, length=1_500_000))
    pieces = [piece.data async for piece in ranged.fetch("c", restoring)]
    assert b"".join(pieces) == DATA[1000:][:1_500_000]
    assert len(pieces) > 1
    await files.close()
    await ranged.close()


@pytest.mark.parametrize(
    ("path", "offset"), [("/none", 0), ("/away", 0), ("/more", 0), ("/ranges-unknown", 10), ("", 0)]
)
async def test_what_fails_is_asked_of_the_control_plane_for_a_while(store: str, path: str, offset: int) -> None:
    now = [100.0]
    url = f"{store}{path}" if path else "http://127.0.0.1:1/closed"
    plane = _Plane(FetchPiece(sha256="a", data=b"", url=url, offset=offset, size=100))
    files = DirectFiles(plane, lambda: now[0])
    with pytest.raises(LinkBroken, match="object store"):
        _ = [piece async for piece in files.fetch("c", ASK)]
    assert [piece.data async for piece in files.fetch("c", ASK)] == [b"from the plane"]
    now[0] += 61.0
    with pytest.raises(LinkBroken):
        _ = [piece async for piece in files.fetch("c", ASK)]
    assert plane.asked == [True, False, True]
    await files.close()
