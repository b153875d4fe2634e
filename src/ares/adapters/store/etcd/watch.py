"""One watch: a stream to some member, opened again where it ended whenever it breaks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress

import grpc
import grpc.aio

from ares.adapters.store.etcd.cluster import METADATA, EtcdCluster, Member
from ares.adapters.store.etcd.messages import bounds, change
from ares.adapters.store.etcd.pb import rpc_pb2
from ares.ports.clock import Clock
from ares.ports.store import Changes, Compacted, StoreChange, StoreUnavailable

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
