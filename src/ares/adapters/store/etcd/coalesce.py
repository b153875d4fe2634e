"""Concurrent transactions share one request to etcd: one raft proposal and one fsync for all of them.

etcd evaluates the compares of a merged request against the state before it, and refuses two writes
of one key in it. So two transactions share a request, or are under way at the same time, only if
neither touches a key that the other writes. The others wait in the order they came.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Struct, field

from ares.adapters.store.etcd.messages import committed, merged, txn_request
from ares.adapters.store.etcd.pb import rpc_pb2
from ares.ports.store import Committed, Compare, Delete, Get, Op, StoreError, StoreRefused, Unknown

# etcd allows 128 operations in a request and, nested, what the outer level leaves: 64 leave room for 60.
_TXNS_PER_REQUEST = 64
_BYTES_PER_REQUEST = 1_400_000
_IN_FLIGHT = 4
# How far down the queue to look for transactions that can go now.
_LOOK_AHEAD = 512

Send = Callable[[rpc_pb2.TxnRequest], Awaitable[rpc_pb2.TxnResponse | Unknown]]


class WaitingTransaction(Struct, eq=False):
    """One caller's transaction and what it touches; `touched` includes `written`."""

    request: rpc_pb2.TxnRequest
    size: int
    touched: set[str]
    written: set[str]
    prefixes: list[str]
    future: asyncio.Future[Committed | Unknown]
    # Its request was refused because of one of the transactions in it: each is now sent alone to find which.
    alone: bool = False


class TouchedKeys(Struct, eq=False):
    """The keys that a set of transactions touches."""

    touched: Counter[str] = field(default_factory=Counter[str])
    written: Counter[str] = field(default_factory=Counter[str])
    prefixes: list[str] = field(default_factory=list[str])

    def add(self, waiting: WaitingTransaction) -> None:
        self.touched.update(waiting.touched)
        self.written.update(waiting.written)
        self.prefixes.extend(waiting.prefixes)

    def remove(self, waiting: WaitingTransaction) -> None:
        _subtract(self.touched, waiting.touched)
        _subtract(self.written, waiting.written)
        for prefix in waiting.prefixes:
            self.prefixes.remove(prefix)

    def clash(self, waiting: WaitingTransaction) -> bool:
        if not self.written.keys().isdisjoint(waiting.touched) or not self.touched.keys().isdisjoint(waiting.written):
            return True
        return (
            _any_under(self.prefixes, waiting.touched)
            or _any_under(waiting.prefixes, self.touched)
            or _any_under(self.prefixes, waiting.prefixes)
            or _any_under(waiting.prefixes, self.prefixes)
        )


class Coalescer:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._queue: deque[WaitingTransaction] = deque()
        self._held = TouchedKeys()
        self._requests: set[asyncio.Task[None]] = set()
        self._scheduled = False

    def submit(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op]
    ) -> asyncio.Future[Committed | Unknown]:
        request = txn_request(compares, then, otherwise)
        waiting = WaitingTransaction(request, request.ByteSize(), set(), set(), [], self._loop.create_future())
        waiting.touched.update(compare.key for compare in compares)
        _claim(waiting, then)
        _claim(waiting, otherwise)
        self._queue.append(waiting)
        if not self._scheduled:
            # After every task that is ready to run now has had the chance to submit.
            self._scheduled = True
            self._loop.call_soon(self._pump)
        return waiting.future

    async def close(self) -> None:
        """Waits for the requests under way; their send is expected to end."""
        while self._requests:
            await asyncio.wait(self._requests)

    def _pump(self) -> None:
        self._scheduled = False
        while self._queue and len(self._requests) < _IN_FLIGHT:
            batch = self._next_batch()
            if not batch:
                return
            task = self._loop.create_task(self._carry(batch))
            self._requests.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._pump()

    def _next_batch(self) -> list[WaitingTransaction]:
        """The transactions that can be sent now. One that must wait holds back later ones on the same keys."""
        batch: list[WaitingTransaction] = []
        size = 0
        passed: list[WaitingTransaction] = []
        passed_claims = TouchedKeys()
        for _ in range(min(len(self._queue), _LOOK_AHEAD)):
            waiting = self._queue.popleft()
            fits = not batch or (size + waiting.size <= _BYTES_PER_REQUEST and not waiting.alone)
            if not fits or self._held.clash(waiting) or (passed and passed_claims.clash(waiting)):
                passed.append(waiting)
                passed_claims.add(waiting)
                continue
            batch.append(waiting)
            self._held.add(waiting)
            size += waiting.size
            if len(batch) == _TXNS_PER_REQUEST or waiting.alone:
                break
        self._queue.extendleft(reversed(passed))
        return batch

    async def _carry(self, batch: list[WaitingTransaction]) -> None:
        try:
            outcome = await self._send(batch[0].request if len(batch) == 1 else merged([w.request for w in batch]))
            _answer(batch, outcome)
        except StoreError as refused:
            # The request was refused as a whole and nothing was done: sending each transaction alone repeats none.
            if len(batch) > 1 and isinstance(refused, StoreRefused):
                for waiting in batch:
                    waiting.alone = True
                self._queue.extendleft(reversed(batch))
            else:
                _refuse(batch, refused)
        finally:
            for waiting in batch:
                self._held.remove(waiting)


def _answer(batch: Sequence[WaitingTransaction], outcome: rpc_pb2.TxnResponse | Unknown) -> None:
    for index, waiting in enumerate(batch):
        if waiting.future.done():
            continue
        if isinstance(outcome, Unknown):
            waiting.future.set_result(outcome)
        else:
            mine = outcome if len(batch) == 1 else outcome.responses[index].response_txn
            waiting.future.set_result(committed(mine, outcome.header.revision))


def _refuse(batch: Sequence[WaitingTransaction], refused: StoreError) -> None:
    for waiting in batch:
        if not waiting.future.done():
            waiting.future.set_exception(type(refused)(*refused.args))


def _claim(waiting: WaitingTransaction, ops: Sequence[Op]) -> None:
    for op in ops:
        if isinstance(op, Delete) and op.prefix:
            waiting.prefixes.append(op.key)
            continue
        waiting.touched.add(op.key)
        if not isinstance(op, Get):
            waiting.written.add(op.key)


def _any_under(prefixes: Iterable[str], keys: Iterable[str]) -> bool:
    return any(key.startswith(prefix) for prefix in prefixes for key in keys)


def _subtract(counter: Counter[str], keys: Iterable[str]) -> None:
    for key in keys:
        if counter[key] == 1:
            del counter[key]
        else:
            counter[key] -= 1
