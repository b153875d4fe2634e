"""The store on etcd. A read may be repeated on another member; a transaction is sent once; a watch is opened again."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress

import grpc
import grpc.aio

from ares.adapters.store.etcd import messages
from ares.adapters.store.etcd.cluster import METADATA, EtcdCluster, Member, describe, refusal
from ares.adapters.store.etcd.coalesce import Coalescer
from ares.adapters.store.etcd.messages import bounds, change
from ares.adapters.store.etcd.pb import rpc_pb2
from ares.adapters.store.limits import check_key, check_txn
from ares.ports.clock import Clock
from ares.ports.store import (
    KV,
    Changes,
    Committed,
    Compacted,
    Compare,
    Op,
    Page,
    StoreChange,
    StoreError,
    StoreUnavailable,
    Unknown,
)

# ---- a watch


_BACKOFF_FIRST_S = 0.05
_BACKOFF_MOST_S = 2.0
_CHECK_S = 3.0
_COMPACTED = "compacted"


class _Broken(Exception):
    """The stream ended: resume on another."""


async def watch(
    cluster: EtcdCluster, clock: Clock, prefix: str, from_revision: int
) -> AsyncIterator[Changes | Compacted]:
    wanted = max(1, from_revision)
    backoff = _BACKOFF_FIRST_S
    while True:
        with suppress(_Broken, StoreUnavailable):
            async with aclosing(_stream(cluster, prefix, wanted)) as stream:
                async for found in stream:
                    yield found
                    if isinstance(found, Compacted):
                        return
                    wanted = found.revision + 1
                    backoff = _BACKOFF_FIRST_S
        if cluster.closed:
            raise StoreUnavailable("the store was closed")
        await clock.sleep(backoff)
        backoff = min(backoff * 2, _BACKOFF_MOST_S)


async def _stream(cluster: EtcdCluster, prefix: str, wanted: int) -> AsyncGenerator[Changes | Compacted, None]:
    member = await cluster.ready()
    call = member.watch(metadata=METADATA)
    first, end = bounds(prefix)
    gathered: list[StoreChange] = []
    try:
        await call.write(
            rpc_pb2.WatchRequest(
                create_request=rpc_pb2.WatchCreateRequest(
                    key=first, range_end=end, start_revision=wanted, progress_notify=True, fragment=True
                )
            )
        )
        while isinstance(response := await call.read(), rpc_pb2.WatchResponse):
            if response.compact_revision:
                yield Compacted(response.compact_revision)
                return
            if response.canceled:
                raise _Broken(response.cancel_reason)
            if response.created:
                if await _compacted_at(member, wanted):
                    yield Compacted(wanted)
                    return
                continue
            gathered.extend(change(event) for event in response.events)
            if response.fragment:
                # A large revision comes in pieces; it is handed on whole.
                continue
            # The header may be ahead of the events; only without events does it say "complete up to here".
            complete = gathered[-1].kv.mod_revision if gathered else response.header.revision
            if complete >= wanted or gathered:
                yield Changes(complete, tuple(gathered))
            gathered = []
    except grpc.aio.AioRpcError as error:
        cluster.avoid(member, error)
        raise _Broken from error
    except grpc.aio.UsageError as error:
        # Another call gave the member up and closed its channel.
        raise _Broken from error
    except asyncio.CancelledError:
        # grpc raises this also when the channel is closed under the call.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _Broken from None
    finally:
        call.cancel()


async def _compacted_at(member: Member, wanted: int) -> bool:
    """Whether history was compacted at or after `wanted`.

    A server before 3.4.36 or 3.5.18 opens a watch exactly at the compacted revision without an
    error and leaves out deletions of that revision. Reading at the revision before tells.
    """
    if wanted == 1:
        return False
    try:
        await member.range(
            rpc_pb2.RangeRequest(key=b"/", revision=wanted - 1, count_only=True), timeout=_CHECK_S, metadata=METADATA
        )
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.OUT_OF_RANGE:
            # This code may also mean a revision that does not exist yet.
            return _COMPACTED in (error.details() or "")
        raise
    return False


# ---- the store


_CONNECT_S = 2.0
# One try of a read on one member, all tries together, and the only try of a transaction.
_TRY_S = 1.5
_READ_S = 6.0
_TXN_S = 3.0
_KEYS_PER_PAGE = 5_000
_TRIES_OF_A_LONG_RANGE = 3


class EtcdStore:
    """Made by `open`. Endpoints are `host:port`."""

    def __init__(
        self,
        endpoints: Sequence[str],
        clock: Clock,
        *,
        txn_s: float = _TXN_S,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self.endpoints = tuple(endpoints)
        self._cluster = EtcdCluster(endpoints, clock, connect_s=_CONNECT_S, credentials=credentials)
        self._clock = clock
        self._txn_s = txn_s
        self._coalescer = Coalescer(self._send)
        # The highest revision of any answer, and whether the latest answer was older.
        self._seen = 0
        self._doubtful = False

    @classmethod
    async def open(
        cls,
        endpoints: Sequence[str],
        clock: Clock,
        *,
        txn_s: float = _TXN_S,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> "EtcdStore":
        """Connects. StoreUnavailable when no member answers, StoreVersionRefused for a version not accepted."""
        store = cls(endpoints, clock, txn_s=txn_s, credentials=credentials)
        try:
            await store._cluster.ready()
            await store._cluster.check_versions()
        except BaseException:
            await store.close()
            raise
        return store

    async def get(self, key: str) -> KV | None:
        check_key(key)
        response = await self._range(rpc_pb2.RangeRequest(key=key.encode()))
        return messages.kv(response.kvs[0]) if response.kvs else None

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        first, end = messages.bounds(prefix)
        if after and after >= prefix:
            first = after.encode() + b"\0"
        for _ in range(_TRIES_OF_A_LONG_RANGE):
            request = rpc_pb2.RangeRequest(
                key=first, range_end=end, limit=limit or _KEYS_PER_PAGE, min_mod_revision=min_mod_revision
            )
            try:
                return await self._pages(request, all_of_it=not limit)
            except StoreError as error:
                # Compacted between two pages: read again at a newer revision.
                if "compacted" not in str(error):
                    raise
        raise StoreUnavailable(f"etcd compacted its history {_TRIES_OF_A_LONG_RANGE} times while {prefix!r} was read")

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> Committed | Unknown:
        check_txn(compares, then, otherwise)
        return await self._coalescer.submit(compares, then, otherwise)

    async def revision(self) -> int:
        response = await self._range(rpc_pb2.RangeRequest(key=b"/", count_only=True))
        return response.header.revision

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes | Compacted]:
        return watch(self._cluster, self._clock, prefix, from_revision)

    async def grant_lease(self, ttl_s: float) -> int:
        request = rpc_pb2.LeaseGrantRequest(TTL=math.ceil(ttl_s))
        # A grant whose answer was lost ends by itself, so it may be repeated.
        response = await self._cluster.ask(lambda m: m.grant(request, timeout=_TRY_S, metadata=METADATA), _READ_S)
        return response.ID

    async def keep_alive(self, lease: int) -> float:
        return await self._cluster.ask(lambda member: _keep_alive(member, lease), _READ_S)

    async def revoke_lease(self, lease: int) -> None:
        request = rpc_pb2.LeaseRevokeRequest(ID=lease)

        async def revoke(member: Member) -> None:
            try:
                await member.revoke(request, timeout=_TRY_S, metadata=METADATA)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise

        await self._cluster.ask(revoke, _READ_S)

    async def close(self) -> None:
        await self._cluster.close()
        await self._coalescer.close()

    async def _range(self, request: rpc_pb2.RangeRequest) -> rpc_pb2.RangeResponse:
        before = self._seen
        response = await self._cluster.ask(lambda m: m.range(request, timeout=_TRY_S, metadata=METADATA), _READ_S)
        behind = self._behind(before, response.header.revision)
        if behind:
            raise StoreUnavailable(behind)
        return response

    def _behind(self, before: int, now: int) -> str:
        """Why an answer is not valid: it lacks a commit from before the request. Empty when it is valid."""
        self._seen, self._doubtful = max(self._seen, now), now < before
        if not self._doubtful:
            return ""
        return (
            f"etcd answers from revision {now}, and {before} was seen before: a member is behind, or the store was "
            "restored under this server. If it was: stop all servers, run `ares store new-epoch`, start them again"
        )

    async def _pages(self, request: rpc_pb2.RangeRequest, *, all_of_it: bool) -> Page:
        found: list[KV] = []
        while True:
            response = await self._range(request)
            found.extend(map(messages.kv, response.kvs))
            # Further pages are of the same moment.
            request.revision = request.revision or response.header.revision
            if not response.more or not all_of_it:
                return Page(tuple(found), request.revision, response.more)
            request.key = response.kvs[-1].key + b"\0"

    async def _send(self, request: rpc_pb2.TxnRequest) -> rpc_pb2.TxnResponse | Unknown:
        """Sends a transaction once, to one member. Any error that is not certainly a refusal is Unknown."""
        if self._doubtful:
            # The cluster may have been replaced by another store: nothing more is written to it.
            await self.revision()
        member = await self._cluster.ready()
        before = self._seen
        try:
            response = await member.txn(request, timeout=self._txn_s, metadata=METADATA)
        except grpc.aio.AioRpcError as error:
            self._cluster.avoid(member, error)
            refused = refusal(error)
            if refused is not None:
                raise refused from error
            return Unknown(f"no answer from etcd at {member.endpoint}: {describe(error)}")
        except grpc.aio.UsageError as error:
            raise StoreUnavailable(
                f"the connection to etcd at {member.endpoint} was given up; nothing was sent"
            ) from error
        except asyncio.CancelledError:
            # The channel was closed under the call.
            return Unknown(f"the connection to etcd at {member.endpoint} was closed before an answer came")
        behind = self._behind(before, response.header.revision)
        return Unknown(behind) if behind else response


async def _keep_alive(member: Member, lease: int) -> float:
    call = member.keep_alive(timeout=_TRY_S, metadata=METADATA)
    try:
        await call.write(rpc_pb2.LeaseKeepAliveRequest(ID=lease))
        response = await call.read()
        return float(response.TTL) if isinstance(response, rpc_pb2.LeaseKeepAliveResponse) else 0.0
    finally:
        call.cancel()
