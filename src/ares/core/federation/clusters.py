"""A cluster's record: a table from (state, input) to the next state, and the codes of its job ids.

`JOINING → ACTIVE → DRAINING → LEFT`; from all of them a person may *declare dead*. A name may join again when its last
cluster has left or is dead, with the next generation and a code that no cluster ever had.
"""

from collections.abc import Iterable
from itertools import count
from typing import Literal

import msgspec

from ares.core.refusal import Refusal
from ares.model.cluster import ClusterRecord, ClusterState

# "checked": version, clock, shapes and region were looked at and accepted. "emptied": it has no job left.
ClusterInput = Literal["checked", "drain", "resume", "emptied", "declare-dead"]
CLUSTER_STEPS: dict[tuple[ClusterState, ClusterInput], ClusterState] = {
    ("JOINING", "checked"): "ACTIVE",
    ("ACTIVE", "drain"): "DRAINING",
    ("DRAINING", "resume"): "ACTIVE",
    ("DRAINING", "emptied"): "LEFT",
    ("JOINING", "declare-dead"): "DEAD",
    ("ACTIVE", "declare-dead"): "DEAD",
    ("DRAINING", "declare-dead"): "DEAD",
}
# Asked for twice is done once.
_ALREADY: dict[ClusterInput, ClusterState] = {
    "checked": "ACTIVE",
    "drain": "DRAINING",
    "resume": "ACTIVE",
    "emptied": "LEFT",
    "declare-dead": "DEAD",
}
# In these states the name is free for another cluster.
OVER: frozenset[ClusterState] = frozenset({"LEFT", "DEAD"})

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_CODE_CHARS = 3
_CODES_MAX = len(_ALPHABET) ** _CODE_CHARS
# Clusters that may join between a backup and its restore.
_CODES_APART = 512
# No letter of ordinary job ids: what begins with it was submitted to a cluster, not to the global plane.
LOCAL_MARK = "l"


def step(record: ClusterRecord, asked: ClusterInput, now: float, note: str = "") -> ClusterRecord | Refusal:
    """`now` by wall clock, for people."""
    if record.state == _ALREADY[asked]:
        return record
    state = CLUSTER_STEPS.get((record.state, asked))
    if state is None:
        message = f"cluster {record.name} is {record.state}: {asked} is not possible"
        return Refusal(code="not-allowed", message=message)
    return msgspec.structs.replace(record, state=state, note=note, since=now)


def hello(record: ClusterRecord, generation: int, store_epoch: int) -> ClusterRecord | Refusal:
    """A cluster connects. One that has left or was declared dead, or that another one of its name replaced, is told to
    join anew; a store that went back without a new epoch has lost what it acknowledged."""
    if record.state in OVER or generation != record.generation:
        current = (
            "was declared dead" if record.state == "DEAD" else f"is {record.state}, generation {record.generation}"
        )
        message = f"cluster {record.name} {current}; generation {generation} does not count any more"
        return Refusal(code="stale-epoch", message=message, fix="join again with a new token")
    if store_epoch < record.epoch:
        message = f"cluster {record.name} shows store epoch {store_epoch}, and has shown {record.epoch}"
        fix = "restore its store with `ares restore`, which begins a new epoch"
        return Refusal(code="stale-epoch", message=message, fix=fix)
    return record if store_epoch == record.epoch else msgspec.structs.replace(record, epoch=store_epoch)


def takes_offers(record: ClusterRecord) -> bool:
    return record.state == "ACTIVE"


# ---- the ids of local jobs


def code_of(number: int) -> str:
    """The code of the cluster with this number. The number comes from a counter of the store that only grows: a code is
    never given to a second cluster, so that no two jobs ever have one id."""
    if not 0 <= number < _CODES_MAX:
        raise ValueError(f"there are {_CODES_MAX} codes of clusters, and {number} is not one of them")
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(_CODE_CHARS)))


def next_code(given: Iterable[str], store_epoch: int, had: str = "") -> str:
    """The code of a cluster that joins. Records stay when clusters leave, so the greatest code only grows. A restored
    global plane has forgotten codes that it gave: it begins beyond them, and a cluster that comes back keeps its own
    (`had`), for its local jobs carry it."""
    taken = set(given)
    if had and had not in taken:
        return had
    first = min((store_epoch - 1) * _CODES_APART, _CODES_MAX - _CODES_APART)
    return next(code for number in count(max(1, first)) if (code := code_of(number)) > max(taken, default=""))


def local_id(code: str, job_id: str) -> str:
    """The id of a job that was submitted to the cluster itself."""
    return f"{LOCAL_MARK}{code}{job_id}"


def code_in(job_id: str) -> str:
    """The code of the cluster that a job was submitted to; empty for a job of the global plane."""
    return job_id[1 : 1 + _CODE_CHARS] if job_id.startswith(LOCAL_MARK) else ""
