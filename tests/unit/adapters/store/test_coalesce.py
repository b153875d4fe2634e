"""Which transactions may share a request to etcd."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ares.adapters.store.etcd import coalesce
from ares.adapters.store.etcd.coalesce import Coalescer
from ares.adapters.store.etcd.pb import rpc_pb2
from ares.ports.store import (
    TXN_OPS_MAX,
    Committed,
    Compare,
    Delete,
    Get,
    Op,
    Put,
    StoreRefused,
    StoreUnavailable,
    Unknown,
)

NAMES = ("a", "a/1", "a/2", "b", "b/1", "c")
names = st.sampled_from(NAMES)
ops = st.one_of(st.builds(Put, names, st.just(b"")), st.builds(Get, names), st.builds(Delete, names, st.booleans()))
txns = st.tuples(st.lists(names, max_size=2), st.lists(ops, max_size=3), st.lists(ops, max_size=2))

Txn = tuple[list[str], Sequence[Op], Sequence[Op]]


def parts(request: rpc_pb2.TxnRequest) -> list[rpc_pb2.TxnRequest]:
    nested = [op.request_txn for op in request.success if op.HasField("request_txn")]
    return nested or [request]


def reads_and_writes(request: rpc_pb2.TxnRequest) -> tuple[set[str], set[str]]:
    """By asking of each name whether the request touches it: another way than the code under test."""
    read = {compare.key.decode() for compare in request.compare}
    written: set[str] = set()
    for op in (*request.success, *request.failure):
        if op.HasField("request_range"):
            read.add(op.request_range.key.decode())
        elif op.HasField("request_put"):
            written.add(op.request_put.key.decode())
        else:
            first, end = op.request_delete_range.key, op.request_delete_range.range_end
            written |= {n for n in NAMES if (first <= n.encode() < end if end else first == n.encode())}
    return read, written


class Server:
    """Answers each request when told to, and judges what is under way together."""

    def __init__(self) -> None:
        self.requests: list[rpc_pb2.TxnRequest] = []
        self.waiting: list[tuple[rpc_pb2.TxnRequest, asyncio.Future[rpc_pb2.TxnResponse | Unknown]]] = []

    async def send(self, request: rpc_pb2.TxnRequest) -> rpc_pb2.TxnResponse | Unknown:
        self.requests.append(request)
        future: asyncio.Future[rpc_pb2.TxnResponse | Unknown] = asyncio.get_running_loop().create_future()
        self.waiting.append((request, future))
        self.judge()
        return await future

    def judge(self) -> None:
        alive = [reads_and_writes(part) for request, _ in self.waiting for part in parts(request)]
        for index, (read, written) in enumerate(alive):
            for other_read, other_written in alive[index + 1 :]:
                assert written.isdisjoint(other_read | other_written)
                assert other_written.isdisjoint(read)

    def answer(self) -> None:
        request, future = self.waiting.pop(0)
        response = rpc_pb2.TxnResponse(header=rpc_pb2.ResponseHeader(revision=len(self.requests)), succeeded=True)
        if request.success and request.success[0].HasField("request_txn"):
            for _ in request.success:
                response.responses.add().response_txn.succeeded = True
        future.set_result(response)


async def run(server: Server, transactions: list[Txn]) -> list[object]:
    coalescer = Coalescer(server.send)
    futures = [
        coalescer.submit([Compare(name, "version", 0) for name in compared], then, otherwise)
        for compared, then, otherwise in transactions
    ]
    for _ in range(1_000):
        await asyncio.sleep(0)
        if server.waiting:
            server.answer()
        elif all(future.done() for future in futures):
            break
    return [future.result() for future in futures]


@given(st.lists(txns, min_size=1, max_size=30))
async def test_together_only_when_apart(transactions: list[Txn]) -> None:
    server = Server()
    outcomes = await run(server, transactions)
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert sum(len(parts(request)) for request in server.requests) == len(transactions)


async def test_disjoint_ones_share_requests_within_the_servers_limits() -> None:
    server = Server()
    many: list[Txn] = [([], [Put(f"k/{n}/{m}", b"") for m in range(TXN_OPS_MAX)], []) for n in range(200)]
    await run(server, many)
    sizes = [len(parts(request)) for request in server.requests]
    assert sum(sizes) == 200
    assert max(sizes) == 64
    assert len(sizes) == 4


async def test_large_ones_are_spread() -> None:
    server = Server()
    await run(server, [([], [Put(f"k/{n}", bytes(500_000))], []) for n in range(7)])
    assert [len(parts(request)) for request in server.requests] == [2, 2, 2, 1]
    assert max(request.ByteSize() for request in server.requests) < 1_500_000


async def test_one_key_keeps_its_order() -> None:
    server = Server()
    await run(server, [([], [Put("a", b"%d" % n)], []) for n in range(20)])
    assert [request.success[0].request_put.value for request in server.requests] == [b"%d" % n for n in range(20)]


async def test_who_waits_is_not_overtaken_for_ever() -> None:
    """One that needs two busy keys gets its turn before those that came after it."""
    server = Server()
    both = ([], [Put("x", b"both"), Put("y", b"both")], [])
    await run(server, [([], [Put("x", b"0")], []), both, *(([], [Put("y", b"%d" % n)], []) for n in range(5))])
    order = [[op.request_put.value for op in request.success] for request in server.requests]
    assert order == [[b"0"], [b"both", b"both"], [b"0"], [b"1"], [b"2"], [b"3"], [b"4"]]


async def test_one_unknown_batch_is_unknown_for_all_of_it() -> None:
    async def send(_request: rpc_pb2.TxnRequest) -> Unknown:
        return Unknown("no answer")

    coalescer = Coalescer(send)
    outcomes = await asyncio.gather(*(coalescer.submit([], [Put(f"k/{n}", b"")], []) for n in range(5)))
    assert outcomes == [Unknown("no answer")] * 5


async def test_a_refused_batch_is_sent_one_by_one_and_an_unreachable_server_is_not_asked_again() -> None:
    sent: list[int] = []

    async def send(request: rpc_pb2.TxnRequest) -> rpc_pb2.TxnResponse:
        sent.append(len(parts(request)))
        if b"bad" in request.SerializeToString():
            raise StoreRefused("one of them is bad")
        return rpc_pb2.TxnResponse(succeeded=True)

    coalescer = Coalescer(send)
    outcomes = await asyncio.gather(
        *(coalescer.submit([], [Put(key, b"")], []) for key in ("a", "bad", "c")), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [Committed, StoreRefused, Committed]
    assert sent == [3, 1, 1, 1]

    async def nobody(_request: rpc_pb2.TxnRequest) -> rpc_pb2.TxnResponse:
        sent.append(0)
        raise StoreUnavailable("nobody there")

    sent.clear()
    coalescer = Coalescer(nobody)
    outcomes = await asyncio.gather(
        *(coalescer.submit([], [Put(key, b"")], []) for key in "abc"), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
    assert sent == [0]


def test_the_limits_fit_the_servers_default_of_128_operations() -> None:
    assert coalesce._TXNS_PER_REQUEST + TXN_OPS_MAX <= 128
