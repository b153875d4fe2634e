"""What a node says of itself: whether it can be used, and what is left of a record that cannot."""

import msgspec

from ares.model.base import Note, Number, Record
from ares.model.node import NODE_BYTES_MAX, NodeInfo, NodeRecord, Taint


class _Kept(Record, frozen=True):
    """The part of a node's record that does not come from its agent."""

    incarnation: Number
    registered_at: float = 0.0
    cordoned: bool = False
    boot: Number = 0
    taints: tuple[Taint, ...] = ()
    drained_by: str = ""
    drain_reason: Note = ""
    drain_jobs: int = 0


def node_flaw(info: NodeInfo) -> str:
    """Why a node cannot be used as it says it is, or nothing. Bounds of single fields are their types' own."""
    indexes = {gpu.index for gpu in info.gpus}
    if len(indexes) < len(info.gpus):
        return f"it has {len(info.gpus)} GPUs with {len(indexes)} different indexes"
    if len(info.gpu_links) > len(info.gpus) or any(len(row) > len(info.gpus) for row in info.gpu_links):
        return f"its links are between more GPUs than the {len(info.gpus)} it has"
    if len({numa.index for numa in info.numa}) < len(info.numa):
        return f"it has {len(info.numa)} NUMA nodes, and some have the same index"
    if (taken := len(msgspec.json.encode(info))) > NODE_BYTES_MAX:
        return f"what it says of itself takes {taken:,} bytes, at most {NODE_BYTES_MAX:,} are kept"
    return ""


def usable_node(value: bytes) -> NodeRecord:
    """A stored record, decoded. Raises ValueError when it cannot be used."""
    record = msgspec.json.decode(value, type=NodeRecord)
    if flaw := node_flaw(record.info):
        raise ValueError(flaw)
    return record


def salvaged_node(value: bytes, name: str, revision: int) -> NodeRecord:
    """The same as `usable_node`; of a record that cannot be used, what operators set and its incarnation count. Where
    nothing can be read, the store's `revision` is above every incarnation it may have had."""
    try:
        return usable_node(value)
    except ValueError:
        nothing = NodeInfo(name=name, cpu_milli=0, memory_mib=0)
    try:
        kept = msgspec.json.decode(value, type=_Kept)
    except ValueError:
        return NodeRecord(info=nothing, incarnation=revision, registered_at=0.0, cordoned=True)
    return NodeRecord(info=nothing, **msgspec.structs.asdict(kept))
