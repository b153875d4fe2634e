"""Files that a node fetches by itself, from an object store or another node, by URLs that the control plane signed."""

import hashlib
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog
from msgspec.structs import replace

from ares.model.link import FetchPiece, FetchRequest
from ares.ports.link import FileLink, LinkBroken

if TYPE_CHECKING:
    import httpx2

log = structlog.get_logger()

_PIECE_BYTES: Final = 1 << 20
_CONNECT_S, _READ_S = 5.0, 60.0
# A node that is frozen takes connections and answers none.
_PEER_READ_S: Final = 10.0
# How long files come through the control plane after the store could not be reached.
_AWAY_S: Final = 60.0
_CONNECTIONS: Final = 16


class DirectFiles:
    """The FileLink port: asks another link, and fetches what that answers by a URL. Callers compare digests."""

    def __init__(self, link: FileLink, now: Callable[[], float] = time.monotonic) -> None:
        self._link = link
        self._now = now
        self._not_before = self._no_peer_before = 0.0
        self._http: httpx2.AsyncClient | None = None

    async def fetch(self, credential: str, request: FetchRequest) -> AsyncIterator[FetchPiece]:
        now = self._now()
        asked = replace(request, direct=now >= self._not_before, peers=now >= self._no_peer_before)
        async for piece in self._link.fetch(credential, asked):
            if not piece.url:
                yield piece
                continue
            if not (asked.peers if piece.peer else asked.direct):
                raise LinkBroken("a URL came that was not asked for")
            # A part of a project comes whole, a range of a checkpoint in order.
            if request.checkpoint is None:
                data = b"".join([part async for part in self._bytes(piece)])
                if piece.peer and hashlib.sha256(data).hexdigest() != piece.sha256:
                    raise LinkBroken(self._away(piece, "it sends other bytes than it should have"))
                yield FetchPiece(sha256=piece.sha256, data=data)
            else:
                async for data in self._bytes(piece):
                    yield FetchPiece(sha256=piece.sha256, data=data)

    async def _bytes(self, piece: FetchPiece) -> AsyncIterator[bytes]:
        """At most `piece.size` bytes, from its offset. Raises LinkBroken: the same is asked for again then, by way of
        the control plane."""
        # Nodes without an object store do not load it.
        import httpx2

        if self._http is None:
            limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
            self._http = httpx2.AsyncClient(limits=limits, follow_redirects=False)
        headers = {"range": f"bytes={piece.offset}-{piece.offset + piece.size - 1}", "accept-encoding": "identity"}
        left, wanted = piece.size, {HTTPStatus.PARTIAL_CONTENT, *((HTTPStatus.OK,) if not piece.offset else ())}
        try:
            within = httpx2.Timeout(_PEER_READ_S if piece.peer else _READ_S, connect=_CONNECT_S)
            async with self._http.stream("GET", piece.url, headers=headers, timeout=within) as answer:
                if answer.status_code not in wanted:
                    raise LinkBroken(self._away(piece, f"it answers {answer.status_code}"))
                async for data in answer.aiter_raw(_PIECE_BYTES):
                    left -= len(data)
                    if left < 0:
                        raise LinkBroken(self._away(piece, "it sends more than was asked for"))
                    yield data
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise LinkBroken(self._away(piece, str(error) or type(error).__name__)) from None

    def _away(self, piece: FetchPiece, why: str) -> str:
        again = self._now() + _AWAY_S
        if piece.peer:
            self._no_peer_before = again
            where = f"another node ({urlsplit(piece.url).netloc})"
        else:
            self._not_before, where = again, "the object store"
        log.warning("files.away", where=where, why=why, again_s=_AWAY_S)
        return f"files cannot be fetched from {where}: {why}"

    async def close(self) -> None:
        if self._http is not None:
            opened, self._http = self._http, None
            await opened.aclose()
