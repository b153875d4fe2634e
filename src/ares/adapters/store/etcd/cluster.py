"""The members of an etcd cluster: which one to talk to, and what its errors mean.

A request goes only to a member whose connection is up, so "cannot be reached" is told from "no
answer came": the first is a refusal, the second is an unknown outcome.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import grpc
import grpc.aio
from grpc import ChannelConnectivity, StatusCode

from ares.adapters.store.etcd.pb import rpc_pb2
from ares.ports.clock import Clock
from ares.ports.store import StoreError, StoreRefused, StoreUnavailable, StoreVersionRefused

# ---- etcd versions that do not lose acknowledged writes


_OLDEST = (3, 4, 22)
_LOSES_WRITES_FROM = (3, 5, 0)
_LOSES_WRITES_TO = (3, 5, 5)


def check_version(version: str, endpoint: str) -> None:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        raise StoreVersionRefused(f"etcd at {endpoint} reports version {version!r}: install 3.5.6 or newer")
    number = (int(found[1]), int(found[2]), int(found[3]))
    if number < _OLDEST:
        raise StoreVersionRefused(
            f"etcd at {endpoint} is version {version}, older than 3.4.22, and may lose acknowledged writes: "
            "install 3.4.22 or newer in 3.4, or 3.5.6 or newer"
        )
    if _LOSES_WRITES_FROM <= number <= _LOSES_WRITES_TO:
        raise StoreVersionRefused(
            f"etcd at {endpoint} is version {version}; 3.5.0 to 3.5.5 lose acknowledged writes in a crash: "
            "install 3.5.6 or newer"
        )


_T = TypeVar("_T")

_OPTIONS: Sequence[tuple[str, int]] = (
    # No retries by the library: a transaction is sent at most once.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # etcd ends connections that ping more often than every 5 s, or without a call under way.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
# A member cut off from the others answers "no leader" instead of letting the request hang.
METADATA = (("hasleader", "true"),)

# Codes that etcd answers with before it proposes the transaction.
_REFUSED_CODES = frozenset(
    {
        StatusCode.INVALID_ARGUMENT,
        StatusCode.NOT_FOUND,
        StatusCode.OUT_OF_RANGE,
        StatusCode.PERMISSION_DENIED,
        StatusCode.UNAUTHENTICATED,
        StatusCode.UNIMPLEMENTED,
    }
)
_NO_LEADER = "etcdserver: no leader"
# Pause between two tries of a read: members that refuse at once must not be asked in a tight loop.
_PAUSE_S = 0.05


class Member:
    """One endpoint's connection."""

    def __init__(self, endpoint: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.endpoint = endpoint
        self.trusted = False
        self.channel = (
            grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
        )
        unary, stream = self.channel.unary_unary, self.channel.stream_stream
        pb = rpc_pb2
        self.range = unary("/etcdserverpb.KV/Range", pb.RangeRequest.SerializeToString, pb.RangeResponse.FromString)
        self.txn = unary("/etcdserverpb.KV/Txn", pb.TxnRequest.SerializeToString, pb.TxnResponse.FromString)
        self.grant = unary(
            "/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantRequest.SerializeToString, pb.LeaseGrantResponse.FromString
        )
        self.revoke = unary(
            "/etcdserverpb.Lease/LeaseRevoke",
            pb.LeaseRevokeRequest.SerializeToString,
            pb.LeaseRevokeResponse.FromString,
        )
        self.status = unary(
            "/etcdserverpb.Maintenance/Status", pb.StatusRequest.SerializeToString, pb.StatusResponse.FromString
        )
        self.keep_alive = stream(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            pb.LeaseKeepAliveRequest.SerializeToString,
            pb.LeaseKeepAliveResponse.FromString,
        )
        self.watch = stream("/etcdserverpb.Watch/Watch", pb.WatchRequest.SerializeToString, pb.WatchResponse.FromString)

    def usable(self) -> bool:
        return self.trusted and self.channel.get_state() is ChannelConnectivity.READY

    async def connect(self, timeout_s: float) -> None:
        """Returns once the connection is up and the server's version is accepted."""
        async with asyncio.timeout(timeout_s):
            while (state := self.channel.get_state(try_to_connect=True)) is not ChannelConnectivity.READY:
                await self.channel.wait_for_state_change(state)
            if not self.trusted:
                status = await self.status(rpc_pb2.StatusRequest(), timeout=timeout_s)
                check_version(status.version, self.endpoint)
                self.trusted = True


class EtcdCluster:
    def __init__(
        self,
        endpoints: Sequence[str],
        clock: Clock,
        *,
        connect_s: float,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """With credentials every connection uses TLS."""
        self._clock = clock
        self._credentials = credentials
        self._members = [Member(endpoint, credentials) for endpoint in endpoints]
        self._current = 0
        self._connect_s = connect_s
        self._connecting: asyncio.Task[Member] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.closed = False

    async def ready(self) -> Member:
        """A member with a connection that is up."""
        if self.closed:
            raise StoreUnavailable("the store was closed")
        member = self._members[self._current]
        if member.usable():
            return member
        # All callers that wait share one try to connect. A cancelled caller does not end it.
        connecting = self._connecting
        if connecting is None or connecting.done():
            connecting = self._connecting = asyncio.get_running_loop().create_task(self._first_to_connect())
        await asyncio.wait([connecting])
        if self.closed:
            raise StoreUnavailable("the store was closed")
        return connecting.result()

    async def check_versions(self) -> None:
        """Refuses a cluster with a member of a version that is not accepted: its crash could lose any write."""
        tried = await asyncio.gather(*(m.connect(self._connect_s) for m in self._members), return_exceptions=True)
        for error in tried:
            if isinstance(error, StoreError):
                raise error

    def avoid(self, member: Member, error: grpc.aio.AioRpcError) -> None:
        """The next request goes to another member. A member that did not answer gets a new connection."""
        if member not in self._members or self.closed:
            return
        index = self._members.index(member)
        if error.code() is StatusCode.DEADLINE_EXCEEDED:
            self._members[index] = Member(member.endpoint, self._credentials)
            # Closed with grace: other calls on it may still be answered.
            closing = asyncio.get_running_loop().create_task(member.channel.close(self._connect_s))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        if index == self._current:
            self._current = (index + 1) % len(self._members)

    async def ask(self, call: Callable[[Member], Awaitable[_T]], deadline_s: float) -> _T:
        """For calls that may be repeated: asks one member after another until the deadline."""
        last = ""
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while True:
                    member = await self.ready()
                    try:
                        return await call(member)
                    except grpc.aio.AioRpcError as error:
                        refused = refusal(error)
                        if refused is not None and not isinstance(refused, StoreUnavailable):
                            raise refused from error
                        last = f"{member.endpoint}: {describe(error)}"
                        self.avoid(member, error)
                    except grpc.aio.UsageError:
                        # Another call gave this member up in the meantime.
                        last = f"{member.endpoint}: connection closed"
                    except asyncio.CancelledError:
                        if self.closed:
                            # Closing a channel cancels the calls on it.
                            raise StoreUnavailable("the store was closed") from None
                        raise
                    await self._clock.sleep(_PAUSE_S)
        raise StoreUnavailable(f"etcd gave no answer within {deadline_s:g} s ({last or 'no error'}): {self._advice()}")

    async def close(self) -> None:
        self.closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        for member in self._members:
            await member.channel.close()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _first_to_connect(self) -> Member:
        order = self._members[self._current :] + self._members[: self._current]
        tasks = {asyncio.get_running_loop().create_task(m.connect(self._connect_s)): m for m in order}
        refused: list[str] = []
        try:
            pending = set(tasks)
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=list(tasks).index):
                    error = task.exception()
                    # A member that was given up in the meantime is not chosen.
                    if error is None and tasks[task] in self._members:
                        self._current = self._members.index(tasks[task])
                        return tasks[task]
                    if isinstance(error, StoreError):
                        raise error
                    refused.append(f"{tasks[task].endpoint}: {_why(error)}")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        raise StoreUnavailable(f"etcd cannot be reached ({'; '.join(refused)}): {self._advice()}")

    def _advice(self) -> str:
        return f"check that a majority of {', '.join(m.endpoint for m in self._members)} runs and is reachable"


def refusal(error: grpc.aio.AioRpcError) -> StoreError | None:
    """The exception for an answer that means nothing was done; None when that is not certain."""
    if error.code() in _REFUSED_CODES:
        return StoreRefused(f"etcd refused the request: {describe(error)}")
    if error.code() is StatusCode.RESOURCE_EXHAUSTED:
        return StoreUnavailable(f"etcd refused the request: {describe(error)}; free space or slow down")
    if error.code() is StatusCode.UNAVAILABLE and error.details() == _NO_LEADER:
        return StoreUnavailable("etcd has no leader: a majority of its members must run and reach each other")
    return None


def describe(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"


def _why(error: BaseException | None) -> str:
    if error is None or isinstance(error, TimeoutError):
        return "no connection in time"
    return describe(error) if isinstance(error, grpc.aio.AioRpcError) else str(error)
