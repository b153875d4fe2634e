"""One bucket of an S3-compatible store: objects by key, with the digests that they must have.

The store is not believed: what it says of an object counts only where it was seen to refuse wrong bytes (`prove`), and
readers compare digests in any case.
"""

import asyncio
import email.utils
import errno
import hashlib
import re
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Final
from xml.etree import ElementTree

import httpx2
import structlog
from msgspec import Struct

from ares.adapters.objects.signing import (
    EMPTY_SHA256,
    StoreCredentials,
    checksum,
    encoded_path,
    encoded_query,
    signed_headers,
    signed_url,
)

log = structlog.get_logger()

_TRIES: Final = 4
_AGAIN_S: Final = 0.2
_TIMEOUT: Final = httpx2.Timeout(60.0, connect=10.0)
_CONNECTIONS: Final = 32
# What it has to say of itself, and the largest object that is read at once: the manifest of a large dataset.
_ANSWER_BYTES_MAX: Final = 8 << 20
_WHOLE_BYTES_MAX: Final = 256 << 20
# Answers that may be different in a moment. Of two that write the same at once, one may be told of the other.
_LATER: Final = frozenset({408, 409, 429, 500, 502, 503, 504})
_NO_ROOM: Final = frozenset({507})
_SKEWED: Final = "RequestTimeTooSkewed"
_TAGGED: Final = re.compile(r"\{[^}]*\}")

Body = bytes | Callable[[], AsyncIterable[bytes]]


class StoredObject(Struct, frozen=True, gc=False):
    """`changed_at`: when it was last written, by the store's clock."""

    key: str
    size: int
    changed_at: float


class StoreAnswer(Struct, frozen=True, gc=False):
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def done(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class ObjectStoreError(OSError):
    """The store said no, or nothing. `status` is 0 when it did not answer."""

    def __init__(self, number: int, message: str, status: int = 0) -> None:
        super().__init__(number, message)
        self.status = status


class Bucket:
    """`origin`: such as "https://s3.eu-west-1.amazonaws.com"; `prefix` stands before every key and ends with a slash.
    `public_origin`: where nodes and clients reach it, if that is another address."""

    def __init__(
        self,
        origin: str,
        bucket: str,
        credentials: StoreCredentials,
        *,
        prefix: str = "",
        public_origin: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self.origin, self.name, self.prefix = origin.rstrip("/"), bucket, prefix
        self._public = (public_origin or origin).rstrip("/")
        self._credentials = credentials
        self._now = now
        # What the store's clock is ahead of ours, by its last answer to `prove` and as far as it complained.
        self._ahead_s = 0.0
        self._http: httpx2.AsyncClient | None = None
        # Whether wrong bytes were refused when that was tried; None before.
        self.compares: bool | None = None
        # Why the last request failed; empty when it did not.
        self.trouble = ""

    async def close(self) -> None:
        if self._http is not None:
            opened, self._http = self._http, None
            await opened.aclose()

    async def make(self) -> None:
        """Makes the bucket, unless it is there."""
        await self._ask("PUT", "", passes=(HTTPStatus.CONFLICT,))

    # ---- objects

    async def put(self, key: str, body: Body, size: int, sha256: str) -> bool:
        """False when it is there already. Raises OSError, also when what arrived has another digest."""
        headers = _written_once(size, sha256)
        answer = await self._ask("PUT", key, headers=headers, body=body, payload=sha256, passes=(412,))
        return answer.status != HTTPStatus.PRECONDITION_FAILED

    async def replace(self, key: str, data: bytes) -> None:
        """Writes a small object, whatever is there."""
        headers = {"content-length": str(len(data))}
        await self._ask("PUT", key, headers=headers, body=data, payload=hashlib.sha256(data).hexdigest())

    async def size(self, key: str) -> int | None:
        """None when it is not there."""
        found = await self.look(key)
        return None if found is None else found.size

    async def look(self, key: str) -> StoredObject | None:
        """None when it is not there."""
        answer = await self._ask("HEAD", key, passes=(404,))
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        try:
            size, changed = int(answer.headers["content-length"]), answer.headers["last-modified"]
            return StoredObject(key, size, email.utils.parsedate_to_datetime(changed).timestamp())
        except (KeyError, ValueError):
            raise ObjectStoreError(errno.EIO, f"{self.origin} does not say what {key} is") from None

    async def read(self, key: str, offset: int = 0, limit: int | None = None) -> bytes:
        """Raises FileNotFoundError when it is not there."""
        headers = {} if limit is None else {"range": f"bytes={offset}-{offset + limit - 1}"}
        span = (0, _WHOLE_BYTES_MAX) if limit is None else (offset, limit)
        answer = await self._ask("GET", key, headers=headers, passes=(416,), span=span)
        return b"" if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE else answer.content

    async def remove(self, key: str) -> None:
        await self._ask("DELETE", key, passes=(404,))

    async def copy(self, source: str, target: str) -> None:
        """Also onto itself: it then counts as written now. Raises FileNotFoundError when there is no source."""
        headers = {
            "x-amz-copy-source": encoded_path(f"/{self.name}/{self.prefix}{source}"),
            "x-amz-metadata-directive": "REPLACE",
        }
        await self._ask("PUT", target, headers=headers)

    async def listed(self, prefix: str) -> AsyncIterator[StoredObject]:
        """In the order of keys."""
        async for page in self._pages(prefix):
            for entry in page.iter("Contents"):
                key, size = entry.findtext("Key") or "", entry.findtext("Size") or "0"
                # What is listed may be removed: nothing else is taken for it.
                if not key.startswith(self.prefix + prefix) or not size.isdecimal():
                    raise ObjectStoreError(errno.EIO, f"{self.origin} lists what was not asked for")
                changed = entry.findtext("LastModified") or ""
                yield StoredObject(key.removeprefix(self.prefix), int(size), _instant(changed))

    async def folders(self, prefix: str) -> list[str]:
        """What stands in keys between this prefix and the next slash."""
        found = list[str]()
        async for page in self._pages(prefix, delimiter="/"):
            for entry in page.iter("CommonPrefixes"):
                whole = (entry.findtext("Prefix") or "").removeprefix(self.prefix)
                found.append(whole.removeprefix(prefix).rstrip("/"))
        return found

    async def _pages(self, prefix: str, **more: str) -> AsyncIterator[ElementTree.Element]:
        token = ""
        while True:
            query = {"list-type": "2", "prefix": self.prefix + prefix, **more}
            answer = await self._ask("GET", "", query=query | ({"continuation-token": token} if token else {}))
            page = _xml(answer.content)
            yield page
            before, token = token, page.findtext("NextContinuationToken") or ""
            if page.findtext("IsTruncated") != "true" or not token:
                return
            if token == before:
                raise ObjectStoreError(errno.EIO, f"{self.origin} lists the same again and again")

    # ---- large ones, in parts

    async def begin_parts(self, key: str) -> str:
        answer = await self._ask("POST", key, query={"uploads": ""}, headers={"x-amz-checksum-algorithm": "SHA256"})
        return _xml(answer.content).findtext("UploadId") or ""

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        """Returns what it is called when the parts are put together."""
        sha256 = await asyncio.to_thread(_sha256, data)
        headers = {"content-length": str(len(data)), "x-amz-checksum-sha256": checksum(sha256)}
        query = {"partNumber": str(number), "uploadId": upload}
        answer = await self._ask("PUT", key, query=query, headers=headers, body=data, payload=sha256)
        named = f"<ChecksumSHA256>{checksum(sha256)}</ChecksumSHA256>"
        return f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['etag']}</ETag>{named}</Part>"

    async def end_parts(self, key: str, upload: str, parts: list[str]) -> None:
        body = f"<CompleteMultipartUpload>{''.join(parts)}</CompleteMultipartUpload>".encode()
        await self._ask("POST", key, query={"uploadId": upload}, body=body, payload=_sha256(body))

    async def drop_parts(self, key: str, upload: str) -> None:
        await self._ask("DELETE", key, query={"uploadId": upload}, passes=(404,))

    # ---- URLs for others

    def put_url(self, key: str, size: int, sha256: str, expires_s: int) -> tuple[str, dict[str, str]]:
        """A URL to write this object by, once, and the headers that have to be sent with it."""
        headers = _written_once(size, sha256)
        return self._url("PUT", key, headers, expires_s), headers

    def get_url(self, key: str, expires_s: int) -> str:
        return self._url("GET", key, {}, expires_s)

    def _url(self, method: str, key: str, headers: Mapping[str, str], expires_s: int) -> str:
        path = f"/{self.name}/{self.prefix}{key}"
        return signed_url(
            self._credentials, method, self._public, path, headers=headers, expires_s=expires_s, stamp=self._stamp()
        )

    # ---- whether it can be believed

    async def prove(self) -> str:
        """Tries the store out: empty when it keeps what is written and gives it back, else what is wrong. Whether it
        refuses bytes of another digest is then known."""
        key, data, wrong = f"+probe/{secrets.token_hex(8)}", b"these are the bytes", b"THESE ARE THE BYTES"
        sha256 = _sha256(data)
        try:
            answer = await self._once("PUT", key, {}, _written_once(len(data), sha256), wrong, sha256)
            # A URL that is signed by a clock that is behind would have ended before it is used.
            self._ahead_s = _date(answer, self._now()) - self._now()
            if answer.status in _LATER:
                raise self._refused(answer, key)
            await self.remove(key)
            await self.put(key, data, len(data), sha256)
            # It refused those bytes, and nothing else about the request.
            self.compares = not answer.done
            if await self.read(key) != data:
                return "it does not give back what was written"
            if await self.put(key, data, len(data), sha256):
                log.warning("objects.overwrites", origin=self.origin, why="it does not honour If-None-Match")
            await self.remove(key)
        except (OSError, httpx2.HTTPError) as error:
            return f"{error.strerror if isinstance(error, OSError) else error or type(error).__name__}"
        return ""

    # ---- one request

    def _client(self) -> httpx2.AsyncClient:
        if self._http is None:
            limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
            self._http = httpx2.AsyncClient(timeout=_TIMEOUT, limits=limits, follow_redirects=False)
        return self._http

    def _stamp(self) -> str:
        return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now() + self._ahead_s))

    async def _ask(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body = b"",
        payload: str = EMPTY_SHA256,
        passes: tuple[int, ...] = (),
        span: tuple[int, int] = (0, _ANSWER_BYTES_MAX),
    ) -> StoreAnswer:
        """Repeats what may be different in a moment: every request of ours may be made twice."""
        # A copy, and parts that are put together, may fail after the store has begun to answer.
        fails_late = method == "POST" or "x-amz-copy-source" in (headers or {})
        for tried in range(_TRIES):
            last = tried == _TRIES - 1
            try:
                answer = await self._once(method, key, query or {}, headers or {}, body, payload, span)
            except httpx2.HTTPError as error:
                self.trouble = f"{self.origin} does not answer: {error or type(error).__name__}"
                if last:
                    raise ObjectStoreError(errno.EIO, self.trouble) from None
            else:
                status = answer.status
                if (answer.done and not (fails_late and _code(answer))) or status in passes:
                    self.trouble = ""
                    return answer
                if _code(answer) == _SKEWED and not last:
                    self._ahead_s = _date(answer, self._now()) - self._now()
                elif (status not in _LATER and not answer.done) or last:
                    raise self._refused(answer, key)
            await asyncio.sleep(_AGAIN_S * 2**tried)
        raise AssertionError("the last try returns or raises")

    async def _once(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: Body,
        payload: str,
        span: tuple[int, int] = (0, _ANSWER_BYTES_MAX),
    ) -> StoreAnswer:
        """`span`: where what is wanted of an object begins, and how many bytes that are."""
        path = f"/{self.name}/{self.prefix}{key}" if key else f"/{self.name}"
        sent = signed_headers(
            self._credentials, method, self.origin.split("://", 1)[1], path,
            query=query, headers=headers, payload=payload, stamp=self._stamp(),
        )  # fmt: skip
        url = f"{self.origin}{encoded_path(path)}" + (f"?{encoded_query(query)}" if query else "")
        content = body if isinstance(body, bytes) else body()
        sent["accept-encoding"] = "identity"
        async with self._client().stream(method, url, headers=sent, content=content or None) as answer:
            # A store may answer a range with the whole.
            skips = span[0] if answer.status_code == HTTPStatus.OK else 0
            taken = await self._taken(answer, skips, span[1]) if method != "HEAD" else b""
            return StoreAnswer(answer.status_code, answer.headers, taken)

    async def _taken(self, answer: httpx2.Response, skips: int, most: int) -> bytes:
        """What comes after so many bytes. Of what was not asked for no more than a piece is held."""
        taken = bytearray()
        async for data in answer.aiter_raw():
            taken += data[skips:]
            skips = max(0, skips - len(data))
            if len(taken) > most:
                if "range" in answer.request.headers:
                    break
                raise ObjectStoreError(errno.EIO, f"{self.origin} answers with more than {most:,} bytes")
        return bytes(taken[:most])

    def _refused(self, answer: StoreAnswer, key: str) -> OSError:
        status, code = answer.status, _code(answer)
        if status == HTTPStatus.NOT_FOUND and code != "NoSuchBucket":
            return FileNotFoundError(errno.ENOENT, f"the object store has no {key}")
        number = errno.ENOSPC if status in _NO_ROOM else errno.EACCES if status == HTTPStatus.FORBIDDEN else errno.EIO
        why = f"the object store {self.origin} answers {status} {code}".rstrip()
        self.trouble = f"{why} for bucket {self.name}"
        return ObjectStoreError(number, self.trouble, status)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _written_once(size: int, sha256: str) -> dict[str, str]:
    """Headers: these bytes, and only where nothing is."""
    return {"content-length": str(size), "if-none-match": "*", "x-amz-checksum-sha256": checksum(sha256)}


def _code(answer: StoreAnswer) -> str:
    try:
        return _xml(answer.content).findtext("Code") or ""
    except OSError:
        return ""


def _date(answer: StoreAnswer, otherwise: float) -> float:
    try:
        return email.utils.parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return otherwise


def _xml(data: bytes) -> ElementTree.Element:
    """Without name spaces. Raises OSError for what is none, or is more than a store has to say."""
    if len(data) > _ANSWER_BYTES_MAX or b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ObjectStoreError(errno.EIO, "the object store answers what it should not")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise ObjectStoreError(errno.EIO, f"the object store answers what is no XML: {error}") from None
    for entry in root.iter():
        entry.tag = _TAGGED.sub("", entry.tag)
    return root


def _instant(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
