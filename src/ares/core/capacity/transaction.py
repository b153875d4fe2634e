"""Changes to the columns that can be rolled back: every action and every what-if works in a transaction."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.fit import Evaluations
from ares.core.capacity.node_table import WHOLE, Ints, NodeTable
from ares.core.topology.subset import GpuSet, best, best_in_domain
from ares.model.state import Placement


class Allocation(NamedTuple):
    """What one rank took from one row; given back with the sign turned."""

    row: int
    cpu_milli: int
    memory_mib: int
    gpus: tuple[int, ...]
    gpu_milli: int
    # (kind, bits of the node's ids)
    devices: tuple[tuple[str, int], ...]
    # Place among the row's NUMA nodes.
    numa: int | None


class TakenEach(NamedTuple):
    """One rank alike from each of several rows, with whole GPUs or none."""

    rows: Ints
    cpu_milli: int
    memory_mib: int
    # Bits of the GPUs taken from each row; and each of these GPUs with its row.
    masks: Ints
    gpu_rows: Ints
    gpus: Ints


class Transaction:
    """Nothing else changes the columns while a transaction is open; `rollback(0)` leaves them as they were."""

    def __init__(self, evaluations: Evaluations) -> None:
        self._evaluations = evaluations
        self._table: NodeTable = evaluations.table
        self._done: list[tuple[Allocation | TakenEach, int]] = []

    def checkpoint(self) -> int:
        return len(self._done)

    def rollback(self, checkpoint: int) -> None:
        while len(self._done) > checkpoint:
            taken, sign = self._done.pop()
            if isinstance(taken, TakenEach):
                self._apply_each(taken, -sign)
            else:
                self._apply(taken, -sign)

    def take(self, taken: Allocation) -> None:
        self._apply(taken, +1)
        self._done.append((taken, +1))

    def give(self, taken: Allocation) -> None:
        self._apply(taken, -1)
        self._done.append((taken, -1))

    def take_each(self, taken: TakenEach) -> None:
        """Takes one rank from each of several different rows."""
        self._apply_each(taken, +1)
        self._done.append((taken, +1))

    def _apply_each(self, taken: TakenEach, sign: int) -> None:
        table, rows = self._table, taken.rows
        table.cpu_free[rows] -= sign * taken.cpu_milli
        table.memory_free[rows] -= sign * taken.memory_mib
        if len(taken.gpus):
            table.gpu_left[taken.gpu_rows, taken.gpus] = 0 if sign > 0 else WHOLE
            table.gpu_idle[rows] -= sign * (len(taken.gpus) // len(rows)) * WHOLE
            table.gpu_whole[rows] ^= taken.masks
        self._evaluations.touch_each(rows)

    def _apply(self, taken: Allocation, sign: int) -> None:
        table, row = self._table, taken.row
        cpu, memory = sign * taken.cpu_milli, sign * taken.memory_mib
        table.cpu_free[row] -= cpu
        table.memory_free[row] -= memory
        if taken.gpus:
            table.give_gpus(row, taken.gpus, -sign * taken.gpu_milli)
        if taken.numa is not None:
            table.numa_cpu_free[row, taken.numa] -= cpu
            table.numa_memory_free[row, taken.numa] -= memory
        for kind, bits in taken.devices:
            held = table.devices_taken[kind][row]
            table.set_devices_taken(row, kind, held | bits if sign > 0 else held & ~bits)
        self._evaluations.touch(row)


def fit(table: NodeTable, ask: Ask, row: int, inside: int = -1) -> Allocation | None:
    """Which of the row's GPUs, devices and NUMA node one rank would get; None when they do not go together.

    `inside` has the bits of the GPUs that may be used."""
    gpus: tuple[int, ...] | None = ()
    numa: int | None = None
    mask = _fit_mask(table, ask, row) & inside if ask.gpus else 0
    if ask.numa != "none":
        numa, gpus = _aligned(table, ask, row, mask)
        if numa is None and ask.numa == "required":
            return None
    if numa is None:
        gpus = _gpus(table, ask, row, mask) if ask.gpus else ()
    devices = _devices(table, ask, row) if ask.devices else ()
    if gpus is None or devices is None:
        return None
    return Allocation(row, ask.cpu_milli, ask.memory_mib, gpus, ask.gpu_milli, devices, numa)


def fit_each(table: NodeTable, ask: Ask, rows: Ints) -> tuple[list[Allocation], TakenEach]:
    """`fit` for one rank on each of several rows that all have room; for asks without shares, devices or NUMA."""
    picks: list[GpuSet] = []
    if ask.gpus:
        free = table.answer_masks(ask.gpu_model, ask.gpu_memory_mib)[rows] & table.gpu_whole[rows]
        # Of most rows the same GPUs are free on machines of one shape.
        kinds: list[tuple[int, int]] = list(zip(table.machine[rows].tolist(), free.tolist(), strict=True))
        found = {kind: best(table.machines[kind[0]], kind[1], ask.gpus) for kind in set(kinds)}
        picks = [found[kind] for kind in kinds]
    gpus: list[tuple[int, ...]] = [pick.gpus for pick in picks] if picks else [()] * len(rows)
    cpu, memory = ask.cpu_milli, ask.memory_mib
    taken = [Allocation(row, cpu, memory, mine, WHOLE, (), None) for row, mine in zip(rows.tolist(), gpus, strict=True)]
    each = TakenEach(
        rows,
        cpu,
        memory,
        np.array([pick.mask for pick in picks], np.int64),
        np.repeat(rows, ask.gpus),
        np.array([gpu for mine in gpus for gpu in mine], np.int64),
    )
    return taken, each


def alike(ask: Ask) -> bool:
    """Whether `fit_each` applies: whole GPUs or none, and nothing that ties them together."""
    tied = ask.level == "nvlink" and ask.level_required
    return ask.gpu_milli == WHOLE and ask.numa == "none" and not ask.devices and not tied


def placements(table: NodeTable, taken: Sequence[Allocation]) -> list[Placement]:
    """Of several jobs with one rank each."""
    records = table.records
    if any(place.devices or place.numa is not None for place in taken):
        return [placement(table, place, 0) for place in taken]
    return [
        Placement(
            node=record.info.name, incarnation=record.incarnation, cpu_milli=cpu, memory_mib=memory, gpus=gpus,
            gpu_milli=milli,
        )
        for row, cpu, memory, gpus, milli, _, _ in taken
        if (record := records[row]) is not None
    ]  # fmt: skip


def placement(table: NodeTable, taken: Allocation, rank: int) -> Placement:
    record = table.records[taken.row]
    assert record is not None, f"row {taken.row} was given away and has no node"
    info = record.info
    if not taken.devices and taken.numa is None:
        return Placement(
            node=info.name, incarnation=record.incarnation, cpu_milli=taken.cpu_milli, memory_mib=taken.memory_mib,
            gpus=taken.gpus, rank=rank, gpu_milli=taken.gpu_milli,
        )  # fmt: skip
    devices = {
        kind: tuple(name for bit, name in enumerate(info.devices[kind]) if bits >> bit & 1)
        for kind, bits in taken.devices
    }
    numa = None if taken.numa is None else info.numa[taken.numa].index
    return Placement(
        node=info.name, incarnation=record.incarnation, cpu_milli=taken.cpu_milli, memory_mib=taken.memory_mib,
        gpus=taken.gpus, rank=rank, gpu_milli=taken.gpu_milli, devices=devices, numa=numa,
    )  # fmt: skip


def taken_by(table: NodeTable, row: int, place: Placement) -> Allocation:
    """What a placement holds of its node's row."""
    record = table.records[row]
    assert record is not None, f"row {row} has no node"
    info = record.info
    # A node may have come back with less than an attempt on it holds: what is not there cannot be given back.
    devices = tuple(
        (kind, sum(1 << bit for bit, name in enumerate(info.devices[kind]) if name in names))
        for kind, names in place.devices.items()
        if kind in info.devices
    )
    gpus = place.gpus
    if gpus and not set(gpus) <= (there := {gpu.index for gpu in info.gpus if not gpu.mig}):
        gpus = tuple(gpu for gpu in gpus if gpu in there)
    numa = next((at for at, domain in enumerate(info.numa) if domain.index == place.numa), None)
    return Allocation(row, place.cpu_milli, place.memory_mib, gpus, place.gpu_milli, devices, numa)


def _fit_mask(table: NodeTable, ask: Ask, row: int) -> int:
    """The bits of the GPUs that are of the kind asked for and have the share left."""
    answers = table.answer_masks(ask.gpu_model, ask.gpu_memory_mib).item(row)
    if ask.gpu_milli == WHOLE:
        return answers & table.gpu_whole.item(row)
    left = table.gpu_left[row].tolist()
    return sum(1 << gpu for gpu in _bits(answers) if left[gpu] >= ask.gpu_milli)


def _bits(mask: int) -> list[int]:
    found: list[int] = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def _gpus(table: NodeTable, ask: Ask, row: int, mask: int) -> tuple[int, ...] | None:
    """The best of the GPUs in the mask; None when there are too few, or too few together."""
    count = mask.bit_count()
    if count < ask.gpus:
        return None
    together = ask.level == "nvlink" and ask.level_required and ask.gpus > 1
    if ask.gpu_milli < WHOLE and not together:
        # The tightest first, so that whole GPUs stay whole; for a gang the emptiest, so that most ranks fit.
        left, sign = table.gpu_left[row].tolist(), -1 if ask.ranks > 1 and ask.gpus > 1 else 1
        return tuple(sorted(sorted(_bits(mask), key=lambda gpu: (sign * left[gpu], gpu))[: ask.gpus]))
    shape = table.machines[table.machine.item(row)]
    if together:
        close = best_in_domain(shape, mask, ask.gpus)
        return None if close is None else close.gpus
    return tuple(_bits(mask)) if count == ask.gpus else best(shape, mask, ask.gpus).gpus


def _aligned(table: NodeTable, ask: Ask, row: int, mask: int) -> tuple[int | None, tuple[int, ...] | None]:
    """The NUMA node with the CPUs, memory and GPUs of one rank, and the GPUs: the tightest node, then the first."""
    cpu, memory = table.numa_cpu_free[row].tolist(), table.numa_memory_free[row].tolist()
    where = table.gpu_numa[row].tolist()
    masks = [sum(1 << gpu for gpu in _bits(mask) if where[gpu] == at) for at in range(len(cpu))]
    fits = [
        at
        for at in range(len(cpu))
        if cpu[at] >= ask.cpu_milli and memory[at] >= ask.memory_mib and masks[at].bit_count() >= ask.gpus
    ]
    for at in sorted(fits, key=lambda at: (masks[at].bit_count(), cpu[at], at)):
        gpus = _gpus(table, ask, row, masks[at]) if ask.gpus else ()
        if gpus is not None:
            return at, gpus
    return None, None


def _devices(table: NodeTable, ask: Ask, row: int) -> tuple[tuple[str, int], ...] | None:
    chosen: list[tuple[str, int]] = []
    for kind, count in ask.devices:
        table.free_devices(kind)
        taken, total = table.devices_taken[kind][row], int(table.devices.of(kind)[row])
        free = [bit for bit in range(total) if not taken >> bit & 1]
        if len(free) < count:
            return None
        chosen.append((kind, sum(1 << bit for bit in free[:count])))
    return tuple(chosen)
