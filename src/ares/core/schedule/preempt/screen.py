"""Running jobs as columns, and the ones among them that may be evicted for one asker."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from operator import attrgetter

import numpy as np

from ares.core.schedule.preempt.eligible import Exclusion, Rule, answerable, eligible, leniency
from ares.core.schedule.preempt.holders import Asker, Bools, EvictionCandidate, Freed, Ints, lost_gpu_ms
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
class Census:
    """All holders by job id. Made once for all askers of one moment."""

    holders: tuple[EvictionCandidate, ...]
    lost_gpu_ms: Ints
    parts: Parts


@dataclass(frozen=True, slots=True)
class Screened:
    """Holders that may go, by job id, and what stays."""

    holders: tuple[EvictionCandidate, ...]
    lost_gpu_ms: Ints
    # By holder: the account whose borrowing it counts as; empty where that does not matter.
    lenders: tuple[str, ...]
    # By holder: how often its size is halved for the disruption bound.
    leniency: tuple[int, ...]
    parts: Parts
    excluded: Mapping[Exclusion, int]
    # Nodes where a job stays.
    kept: frozenset[int]


def census(holders: Iterable[EvictionCandidate]) -> Census:
    ordered = sorted(holders, key=attrgetter("job"))
    return Census(tuple(ordered), np.fromiter(map(lost_gpu_ms, ordered), np.int64, len(ordered)), _parts(ordered))


def screen(counted: Census, asker: Asker, policy: PreemptionPolicy, rule: Rule) -> Screened:
    """One look at each holder: once for all requests of one asker."""
    whys: list[Exclusion | None] = [eligible(holder, asker, policy, rule) for holder in counted.holders]
    goes = np.fromiter((why is None for why in whys), np.bool_, len(whys))
    may_go = tuple(holder for holder, why in zip(counted.holders, whys, strict=True) if why is None)
    excluded: dict[Exclusion, int] = {}
    for why in whys:
        if why is not None:
            excluded[why] = excluded.get(why, 0) + 1
    reclaims = rule == "reclaim"
    parts_stay = ~goes[counted.parts.holder]
    return Screened(
        holders=may_go,
        lost_gpu_ms=counted.lost_gpu_ms[goes],
        lenders=tuple((answerable(h.account, asker.account, asker) or "") if reclaims else "" for h in may_go),
        leniency=tuple(leniency(holder, asker, policy, rule) for holder in may_go),
        parts=_parts_of(counted.parts, goes),
        excluded=excluded,
        kept=frozenset(counted.parts.slot[parts_stay].tolist()),
    )


def without(screened: Screened, jobs: Container[str]) -> Screened:
    """The same, where these jobs stay after all."""
    goes = np.fromiter((holder.job not in jobs for holder in screened.holders), np.bool_, len(screened.holders))
    gone = goes.tolist()
    return replace(
        screened,
        holders=tuple(compress(screened.holders, gone)),
        lost_gpu_ms=screened.lost_gpu_ms[goes],
        lenders=tuple(compress(screened.lenders, gone)),
        leniency=tuple(compress(screened.leniency, gone)),
        parts=_parts_of(screened.parts, goes),
        kept=screened.kept | frozenset(screened.parts.slot[~goes[screened.parts.holder]].tolist()),
    )


def _parts_of(parts: Parts, goes: Bools) -> Parts:
    """The parts of the holders that go, with holders and parts numbered anew."""
    mine = goes[parts.holder]
    holder_now, part_now = np.cumsum(goes) - 1, np.cumsum(mine) - 1
    gpus = mine[parts.gpu_part]
    return Parts(
        holder=holder_now[parts.holder[mine]],
        slot=parts.slot[mine],
        cpu_milli=parts.cpu_milli[mine],
        memory_mib=parts.memory_mib[mine],
        freed=tuple(compress(parts.freed, mine.tolist())),
        gpu_part=part_now[parts.gpu_part[gpus]],
        gpu_index=parts.gpu_index[gpus],
        gpu_milli=parts.gpu_milli[gpus],
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


def _parts(holders: list[EvictionCandidate]) -> Parts:
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
