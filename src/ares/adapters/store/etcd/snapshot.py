"""A snapshot of a store in etcd: every page is read at the revision that was the newest at `take`."""

import asyncio
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import grpc

from ares.adapters.store.etcd import messages
from ares.adapters.store.etcd.cluster import METADATA, EtcdCluster
from ares.adapters.store.etcd.pb import rpc_pb2
from ares.ports.clock import Clock
from ares.ports.store import KV, StoreError

_CONNECT_S = 2.0
_TRY_S = 5.0
_READ_S = 20.0
_KEYS_PER_PAGE = 500


class EtcdSnapshot:
    """Made by `take`. Calls block."""

    def __init__(self, runner: asyncio.Runner, cluster: EtcdCluster) -> None:
        self._runner = runner
        self._cluster = cluster
        self._revision = 0

    @classmethod
    def take(cls, endpoints: Sequence[str], clock: Clock, credentials: grpc.ChannelCredentials | None = None) -> Self:
        """Raises StoreError when no member answers, or one has a version that is not accepted."""
        runner = asyncio.Runner()

        async def connect() -> EtcdCluster:
            return EtcdCluster(endpoints, clock, connect_s=_CONNECT_S, credentials=credentials)

        snapshot = cls(runner, runner.run(connect()))
        try:
            answer = snapshot._ask(rpc_pb2.RangeRequest(key=b"/", count_only=True))
        except BaseException:
            snapshot.__exit__(None, None, None)
            raise
        snapshot._revision = answer.header.revision
        return snapshot

    @property
    def revision(self) -> int:
        return self._revision

    def rows(self, prefix: str) -> Iterator[KV]:
        first, end = messages.bounds(prefix)
        while True:
            page = self._ask(rpc_pb2.RangeRequest(key=first, range_end=end, limit=_KEYS_PER_PAGE))
            yield from map(messages.kv, page.kvs)
            if not page.more:
                return
            first = page.kvs[-1].key + b"\0"

    def get(self, key: str) -> KV | None:
        found = self._ask(rpc_pb2.RangeRequest(key=key.encode())).kvs
        return messages.kv(found[0]) if found else None

    def count(self, prefix: str) -> int:
        first, end = messages.bounds(prefix)
        return self._ask(rpc_pb2.RangeRequest(key=first, range_end=end, count_only=True)).count

    def damage(self) -> tuple[str, ...]:
        """Asks the members to compare their contents."""
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._runner.run(self._cluster.close())
        self._runner.close()

    def _ask(self, request: rpc_pb2.RangeRequest) -> rpc_pb2.RangeResponse:
        request.revision = self._revision
        asked = self._cluster.ask(lambda member: member.range(request, timeout=_TRY_S, metadata=METADATA), _READ_S)
        try:
            return self._runner.run(asked)
        except StoreError as error:
            if "compacted" in str(error):
                raise StoreError(
                    f"etcd compacted revision {self._revision} away while it was read; try again, or compact less often"
                ) from error
            raise
