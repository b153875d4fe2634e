"""Conversion between the values of the port and the messages of etcd."""

from collections.abc import Sequence

from ares.adapters.store.etcd.pb import kv_pb2, rpc_pb2
from ares.adapters.store.limits import prefix_end
from ares.ports.store import KV, Committed, Compare, Delete, Get, Op, Put, StoreChange

_TARGETS = {
    "mod_revision": rpc_pb2.Compare.MOD,
    "create_revision": rpc_pb2.Compare.CREATE,
    "version": rpc_pb2.Compare.VERSION,
    "value": rpc_pb2.Compare.VALUE,
}
# As a range's end: no end. As its beginning: the first key of all.
_NO_BOUND = b"\0"


def bounds(prefix: str) -> tuple[bytes, bytes]:
    """The first key under `prefix` and the first one after all of them."""
    end = prefix_end(prefix)
    return prefix.encode() or _NO_BOUND, _NO_BOUND if end is None else end.encode()


def txn_request(compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op]) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(
        compare=[_compare(compare) for compare in compares],
        success=[_op(op) for op in then],
        failure=[_op(op) for op in otherwise],
    )


def merged(requests: Sequence[rpc_pb2.TxnRequest]) -> rpc_pb2.TxnRequest:
    """One transaction that always runs, holding each of `requests` with its own compares."""
    return rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_txn=request) for request in requests])


def committed(response: rpc_pb2.TxnResponse, revision: int) -> Committed:
    # Only Get operations are answered by ranges.
    gets = tuple(
        kv(op.response_range.kvs[0]) if op.response_range.kvs else None
        for op in response.responses
        if op.HasField("response_range")
    )
    return Committed(response.succeeded, revision, gets)


def kv(found: kv_pb2.KeyValue) -> KV:
    return KV(found.key.decode(), found.value, found.create_revision, found.mod_revision, found.version, found.lease)


def change(event: kv_pb2.Event) -> StoreChange:
    if event.type == kv_pb2.Event.DELETE:
        return StoreChange(KV(event.kv.key.decode(), b"", 0, event.kv.mod_revision, 0), deleted=True)
    return StoreChange(kv(event.kv))


def _compare(compare: Compare) -> rpc_pb2.Compare:
    message = rpc_pb2.Compare(result=rpc_pb2.Compare.EQUAL, target=_TARGETS[compare.target], key=compare.key.encode())
    setattr(message, compare.target, compare.equals)
    return message


def _op(op: Op) -> rpc_pb2.RequestOp:
    key = op.key.encode()
    match op:
        case Put():
            return rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=key, value=op.value, lease=op.lease))
        case Get():
            return rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=key))
        case Delete():
            first, end = bounds(op.key) if op.prefix else (key, b"")
            return rpc_pb2.RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=first, range_end=end))
