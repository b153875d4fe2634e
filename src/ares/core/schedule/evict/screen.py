"""The holders that may be evicted, as columns. Costs one look at each holder: once for all requests of one asker."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ares.core.schedule.evict.cost import lost_gpu_ms
from ares.core.schedule.evict.eligible import Exclusion, Rule, answerable, eligible
from ares.core.schedule.evict.holders import Asker, Freed, Holder, Ints
from ares.model.profile import PreemptionPolicy


@dataclass(frozen=True, slots=True)
class Parts:
    """What each holder frees on each node, sorted by slot: part i is of `holders[holder[i]]` on `slot[i]`."""

    holder: Ints
    slot: Ints
    cpu_milli: Ints
    memory_mib: Ints
    freed: tuple[Freed, ...]
    # Every GPU of every part: which part, which index, and how much of it.
    gpu_part: Ints
    gpu_index: Ints
    gpu_milli: Ints


@dataclass(frozen=True, slots=True)
class Screened:
    """Holders that may go, by job id, and what stays."""

    holders: tuple[Holder, ...]
    lost_gpu_ms: Ints
    # By holder: the account whose borrowing it is; empty where that does not matter.
    lenders: tuple[str, ...]
    parts: Parts
    excluded: Mapping[Exclusion, int]
    # Nodes where somebody stays.
    kept: frozenset[int]


def screen(holders: Iterable[Holder], asker: Asker, policy: PreemptionPolicy, rule: Rule) -> Screened:
    may_go: list[Holder] = []
    excluded: dict[Exclusion, int] = {}
    kept: set[int] = set()
    for holder in holders:
        why = eligible(holder, asker, policy, rule)
        if why is None:
            may_go.append(holder)
        else:
            excluded[why] = excluded.get(why, 0) + 1
            kept.update(slot for slot, _ in holder.at)
    may_go.sort(key=lambda holder: holder.job)
    reclaims = rule == "reclaim"
    return Screened(
        holders=tuple(may_go),
        lost_gpu_ms=np.fromiter(map(lost_gpu_ms, may_go), np.int64, len(may_go)),
        lenders=tuple((answerable(h.account, asker.account, asker) or "") if reclaims else "" for h in may_go),
        parts=_parts(may_go),
        excluded=excluded,
        kept=frozenset(kept),
    )


def together(one: Freed, other: Freed) -> Freed:
    """What two ranks on one node free."""
    gpus, devices = dict(one.gpus), dict(one.devices)
    for index, milli in other.gpus:
        gpus[index] = gpus.get(index, 0) + milli
    for kind, count in other.devices:
        devices[kind] = devices.get(kind, 0) + count
    return Freed(
        one.cpu_milli + other.cpu_milli, one.memory_mib + other.memory_mib, tuple(gpus.items()), tuple(devices.items())
    )


def _parts(holders: list[Holder]) -> Parts:
    rows: list[tuple[int, int, Freed]] = []
    for index, holder in enumerate(holders):
        if len(holder.at) == 1:
            rows.append((holder.at[0][0], index, holder.at[0][1]))
            continue
        by_slot: dict[int, Freed] = {}
        for slot, freed in holder.at:
            by_slot[slot] = together(by_slot[slot], freed) if slot in by_slot else freed
        rows += [(slot, index, freed) for slot, freed in by_slot.items()]
    rows.sort(key=lambda row: row[:2])
    count = len(rows)
    gpus = [(part, index, milli) for part, row in enumerate(rows) for index, milli in row[2].gpus]
    by_gpu = np.array(gpus, np.int64).reshape(-1, 3)
    return Parts(
        holder=np.fromiter((row[1] for row in rows), np.int64, count),
        slot=np.fromiter((row[0] for row in rows), np.int64, count),
        cpu_milli=np.fromiter((row[2].cpu_milli for row in rows), np.int64, count),
        memory_mib=np.fromiter((row[2].memory_mib for row in rows), np.int64, count),
        freed=tuple(row[2] for row in rows),
        gpu_part=by_gpu[:, 0],
        gpu_index=by_gpu[:, 1],
        gpu_milli=by_gpu[:, 2],
    )
