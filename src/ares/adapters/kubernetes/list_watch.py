"""A list, and every change since. A watch ends often, and by design: it goes on where it ended, or begins anew with a
list when the server has forgotten that place."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Generic, Literal, Protocol

import msgspec
import structlog

from ares.model.kube import KubeRefusal, ListMeta, ObjectMeta
from ares.ports.kubernetes import AnswerTooLarge, Changed, KubeRefused, KubeUnavailable, Listed, T

_log = structlog.get_logger(__name__)

_PAGE = 500
# The server ends a watch after this time; a connection that says nothing for longer is dead.
WATCH_S = 60
_PAUSE_S, _PAUSE_MAX_S = 0.2, 10.0
_GONE = 410
_DIGITS_MAX = 20


class Gone(Exception):
    """The server does not remember the place any more."""


class _ListPage(msgspec.Struct, Generic[T], frozen=True):
    metadata: ListMeta
    items: tuple[T, ...] = ()


class _WatchLine(msgspec.Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


class KubeSource(Protocol):
    """Where lists and watches come from."""

    async def read(self, path: str, params: dict[str, str | int]) -> bytes: ...

    def lines(self, path: str, params: dict[str, str | int]) -> AsyncIterator[bytes]: ...


class ListWatch(Generic[T]):
    def __init__(
        self, source: KubeSource, path: str, kind: type[T], keep: Callable[[T], T] = lambda item: item
    ) -> None:
        """`keep`: what is left of each object, as soon as it was read."""
        self._source, self._path, self._kind, self._keep = source, path, kind, keep
        self._limit = _PAGE
        self._pages = msgspec.json.Decoder(_ListPage[kind])
        self._lines = msgspec.json.Decoder(_WatchLine)
        self._version = ""
        # The version was lower than before: the cluster's store came back from a backup.
        self._fell = False

    async def run(self) -> AsyncGenerator[Listed[T] | Changed[T], None]:
        """For ever. Trouble is told once, and waited out."""
        pause_s, listed = _PAUSE_S, False
        while True:
            try:
                if listed:
                    # A server that came back from a backup would be silent up to a version that it had before.
                    self._compare((await self._page({"limit": 1})).metadata.resource_version)
                else:
                    items = await self._list()
                    fell, self._fell = self._fell, False
                    yield Listed(items, restored=fell)
                    listed, pause_s = True, _PAUSE_S
                async with aclosing(self._watch()) as changes:
                    async for change in changes:
                        pause_s = _PAUSE_S
                        yield change
            except Gone:
                listed = False
            except KubeRefused as refusal:
                listed = False
                _log.error("kube.list_refused", path=self._path, why=str(refusal), next="it goes on trying")
            except KubeUnavailable as error:
                _log.warning("kube.watch_broken", path=self._path, why=str(error), next="it goes on trying")
            else:
                # The server ended it in time: it goes on at once.
                continue
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, pause_s * 2)

    def _compare(self, version: str) -> None:
        """Raises Gone when the server is at an earlier version than the one that is known."""
        if _number(version) < _number(self._version):
            _log.warning("kube.restored", path=self._path, version=version, before=self._version)
            self._fell = True
            raise Gone

    async def _page(self, params: dict[str, str | int]) -> _ListPage[T]:
        try:
            return self._pages.decode(await self._source.read(self._path, params))
        except msgspec.MsgspecError as error:
            raise KubeUnavailable(f"a list that cannot be read: {error}") from error

    async def _list(self) -> tuple[T, ...]:
        items, more, before = list[T](), "", self._version
        while True:
            try:
                page = await self._page({"limit": self._limit, **({"continue": more} if more else {})})
            except AnswerTooLarge:
                if self._limit == 1:
                    raise
                self._limit = max(1, self._limit // 4)
                continue
            except KubeRefused as refusal:
                if more and refusal.code == _GONE:
                    # It took too long: from the beginning.
                    items.clear()
                    more = ""
                    continue
                raise
            items += map(self._keep, page.items)
            self._version, more = page.metadata.resource_version, page.metadata.continue_
            if not more:
                self._fell = self._fell or _number(self._version) < _number(before)
                return tuple(items)

    async def _watch(self) -> AsyncGenerator[Changed[T], None]:
        params: dict[str, str | int] = {
            "watch": "1", "resourceVersion": self._version, "allowWatchBookmarks": "true", "timeoutSeconds": WATCH_S,
        }  # fmt: skip
        try:
            async for text in self._source.lines(self._path, params):
                line = self._lines.decode(text)
                if line.type == "ERROR":
                    refusal = msgspec.json.decode(line.object, type=KubeRefusal)
                    raise Gone if refusal.code == _GONE else KubeRefused(refusal)
                if line.type == "BOOKMARK":
                    self._take(msgspec.json.decode(line.object, type=_Bookmark).metadata.resource_version)
                    continue
                item = msgspec.json.decode(line.object, type=self._kind)
                self._take(item.metadata.resource_version)
                yield Changed(line.type, self._keep(item))
        except msgspec.MsgspecError as error:
            raise KubeUnavailable(f"a change that cannot be read: {error}") from error
        except KubeRefused as refusal:
            raise (Gone if refusal.code == _GONE else refusal) from None

    def _take(self, version: str) -> None:
        self._compare(version)
        self._version = version


def _number(version: str) -> int:
    """Versions of one server are numbers that grow; 0 where there is none, or one that cannot be read."""
    return int(version) if version.isdecimal() and len(version) < _DIGITS_MAX else 0
