"""Nodes as columns: one array per quantity, kept up to date row by row."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ares.core.capacity.codes import ON_DEMAND_MAX, Codes, OnDemand
from ares.core.energy import NodePower, Power, node_power
from ares.core.topology.cards import answering
from ares.core.topology.links import GPUS_MAX
from ares.core.topology.subset import MachineShape, machine_shape
from ares.model.isolation import BARE_PODS, LEVELS, POD_FILES, PODS
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.profile import EnergyPolicy, Pool

if TYPE_CHECKING:
    from ares.core.capacity.power import PoolPower

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

WHOLE = 1000
POOL_LABEL = "pool"
NODE_LABEL = "node"
# Rows, GPUs and NUMA nodes that the arrays have at first: they grow.
_ROWS, _GPUS, _NUMA = 16, 8, 2
# Label values that have a number; nodes that come and go bring new ones.
_VALUES_MAX = 1 << 16


# What speaks against a node for some jobs, as bits: its jobs are pods, without an image of their own, without files.
A_POD, NO_IMAGE, NO_FILES = 1, 2, 4


def pods_of(sandbox: tuple[str, ...]) -> int:
    if PODS not in sandbox:
        return 0
    return A_POD | (0 if BARE_PODS in sandbox else NO_IMAGE) | (0 if POD_FILES in sandbox else NO_FILES)


class NodeTable:
    """Every quantity of every row. A row that is not used does not exist and has nothing."""

    # Columns with one number per row, and the number of a row that is not used. Never 0 where scorers divide.
    PLAIN: dict[str, int] = {
        "cpu": 1, "cpu_free": 0, "memory": 1, "memory_free": 0, "cpu_extra": 0, "memory_extra": 0,
        "rack": 0, "zone": 0, "region": 0, "machine": 0, "gpu_count": 0, "gpu_idle": 0, "gpu_whole": 0,
        "pool": 0, "spot": 0, "cpu_mw": 0, "idle_uw": 0, "isolation": 0, "netless": 0, "images": 0,
        "cards": 0, "pods": 0,
    }  # fmt: skip
    REAL = ("network_gbps", "gpu_hour", "cpu_hour", "memory_gib_hour", "gpu_watts")
    BY_GPU: dict[str, int] = {"gpu_left": -1, "gpu_numa": -1, "gpu_mw": 0, "gpu_idle_mw": 0}
    # Names of every row's datasets; None when they have to be gathered again.
    _declared: frozenset[str] | None = None
    # What `wishes` made of the nodes, until one of them is another.
    kinds: object = None
    BY_NUMA = ("numa_cpu", "numa_memory", "numa_cpu_free", "numa_memory_free")

    def __init__(self) -> None:
        self.records: list[NodeRecord | None] = [None] * _ROWS
        # What machines draw where their pool does not say, and what pools may; None without any cap.
        self.policy = EnergyPolicy()
        self.power: PoolPower | None = None
        # No row from here on has ever had a node.
        self.used = 0
        self.exists: Bools = np.zeros(_ROWS, np.bool_)
        self.healthy: Bools = np.zeros(_ROWS, np.bool_)
        self.cpu = self.memory = np.ones(_ROWS, np.int64)
        self.cpu_free = self.memory_free = self.cpu_extra = self.memory_extra = np.zeros(_ROWS, np.int64)
        self.rack = self.zone = self.region = self.machine = self.gpu_count = np.zeros(_ROWS, np.int64)
        # Thousandths left on all GPUs of a row together, and the bits of the GPUs that are wholly free.
        self.gpu_idle = self.gpu_whole = np.zeros(_ROWS, np.int64)
        # The pool's number, milliwatts of a CPU in use, and microwatts of the whole row when nothing runs.
        self.pool = self.spot = self.cpu_mw = self.idle_uw = np.zeros(_ROWS, np.int64)
        # How well jobs are isolated, as an index of `LEVELS`; whether they can run without a network, and in images.
        # Pods: 1, with an image for jobs that name none; 2, without. Cards: rows with like sets of GPUs share a number.
        self.isolation = self.netless = self.images = self.cards = self.pods = np.zeros(_ROWS, np.int64)
        for name, nothing in self.PLAIN.items():
            setattr(self, name, np.full(_ROWS, nothing, np.int64))
        # What an hour costs, with the discount of spot pools.
        self.network_gbps = self.gpu_hour = self.cpu_hour = self.memory_gib_hour = np.zeros(_ROWS)
        # Watts of the row's thirstiest GPU.
        self.gpu_watts = np.zeros(_ROWS)
        for name in self.REAL:
            setattr(self, name, np.zeros(_ROWS))
        self.gpu_left: Ints = np.full((_ROWS, _GPUS), -1, np.int64)
        self.gpu_numa: Ints = np.full((_ROWS, _GPUS), -1, np.int64)
        # Milliwatts of each GPU at full load, and when idle.
        self.gpu_mw: Ints = np.zeros((_ROWS, _GPUS), np.int64)
        self.gpu_idle_mw: Ints = np.zeros((_ROWS, _GPUS), np.int64)
        # Microwatts of slices of GPUs by kind, for rows that have some.
        self.slices: dict[int, dict[str, Power]] = {}
        self.numa_cpu: Ints = np.zeros((_ROWS, _NUMA), np.int64)
        self.numa_memory: Ints = np.zeros((_ROWS, _NUMA), np.int64)
        self.numa_cpu_free: Ints = np.zeros((_ROWS, _NUMA), np.int64)
        self.numa_memory_free: Ints = np.zeros((_ROWS, _NUMA), np.int64)
        self.values, self.domains, self.pools = Codes(), Codes(), Codes()
        self._card_codes, self._card_sets = Codes(), dict[int, Sequence[Gpu]]()
        self.machines: list[MachineShape] = [machine_shape(NodeInfo(name="", cpu_milli=1, memory_mib=1))]
        # Numbers of their places in that list, and how often a shape came or went.
        self._shapes, self.shape_changes = Codes(), 0
        self.labels = OnDemand[str](self, lambda r, key: self.values.of(_label(r, key)), 0, np.int64)
        self.numbers = OnDemand[str](self, lambda r, key: _number(_label(r, key)), np.nan, np.float64)
        self.datasets = OnDemand[str](self, lambda r, name: name in r.datasets, False, np.bool_)
        self.devices = OnDemand[str](self, lambda r, kind: len(r.info.devices.get(kind, ())), 0, np.int64)
        # Rows with taints, and rows whose jobs are pods.
        self.tainted, self.podded = set[int](), set[int]()
        self.refusing = OnDemand[tuple[tuple[str, str | None], ...]](
            self, lambda r, tolerated: _tainted(r, tolerated, "no-schedule"), False, np.bool_, self.tainted
        )
        self.reluctant = OnDemand[tuple[tuple[str, str | None], ...]](
            self, lambda r, tolerated: _tainted(r, tolerated, "prefer-not"), False, np.bool_, self.tainted
        )
        # What is left of devices, by kind: which of the node's ids are taken, and how many are left.
        self.devices_taken: dict[str, list[int]] = {}
        self.devices_free: dict[str, Ints] = {}
        self._answers: dict[tuple[str | None, int], Bools] = {}
        self._answer_masks: dict[tuple[str | None, int], Ints] = {}

    @property
    def rows(self) -> int:
        return len(self.records)

    @property
    def gpus_wide(self) -> int:
        return self.gpu_left.shape[1]

    # ---- nodes

    def put(self, row: int, record: NodeRecord, pool: Pool) -> None:
        """Sets what a node is. What is free of it is set by `set_free`."""
        info = record.info
        gpus = [gpu for gpu in info.gpus if gpu.index < GPUS_MAX]
        self._widen(max([-1, *(gpu.index for gpu in gpus)]) + 1, len(info.numa))
        self.records[row] = record
        self.used = max(self.used, row + 1)
        self.exists[row] = True
        self.cpu[row], self.memory[row] = max(1, info.cpu_milli), max(1, info.memory_mib)
        self.cpu_extra[row] = int(info.cpu_milli * (pool.overcommit_cpu - 1.0))
        self.memory_extra[row] = int(info.memory_mib * (pool.overcommit_memory - 1.0))
        self.network_gbps[row] = info.network_gbps
        self.spot[row] = pool.spot
        self.isolation[row] = LEVELS.index(info.isolation_level)
        self.netless[row] = "net-namespace" in info.sandbox
        self.images[row] = "images" in info.sandbox
        self.pods[row] = pods_of(info.sandbox)
        due = pool.spot_factor if pool.spot else 1.0
        self.gpu_hour[row], self.cpu_hour[row] = due * pool.gpu_hour, due * pool.cpu_hour
        self.memory_gib_hour[row] = due * pool.memory_gib_hour
        self._name(row, info)
        self.gpu_count[row] = sum(not gpu.mig for gpu in gpus)
        self.gpu_left[row] = self.gpu_numa[row] = -1
        self.gpu_idle[row] = self.gpu_whole[row] = 0
        for gpu in gpus:
            self.gpu_numa[row, gpu.index] = _numa_place(info, gpu)
        self._put_power(row, node_power(info, pool, self.policy))
        self.numa_cpu[row] = self.numa_memory[row] = 0
        for place, numa in enumerate(info.numa):
            self.numa_cpu[row, place], self.numa_memory[row, place] = 1000 * len(numa.cpus), numa.memory_mib
        self._put_on_demand(row, record)

    def _name(self, row: int, info: NodeInfo | None) -> None:
        """Sets the numbers of the row's names. Old names are given back last, so that a name that stays keeps its
        number."""
        before = [
            column.item(row) for column in (self.pool, self.cards, self.region, self.zone, self.rack, self.machine)
        ]
        if info is not None:
            self.pool[row] = self.pools.of(info.pool)
            self.cards[row] = number = self._card_codes.of(_cards(info.gpus) if info.gpus else None)
            self._card_sets[number] = info.gpus
            # A rack belongs to its zone and a zone to its region: the same name elsewhere is another rack or zone.
            self.region[row] = self.domains.of(info.region or None)
            self.zone[row] = self.domains.of(f"{info.region}\n{info.zone}" if info.zone else None)
            self.rack[row] = self.domains.of(f"{info.region}\n{info.zone}\n{info.rack}" if info.rack else None)
            self.machine[row] = self._machine(info)
        pool, cards, *domains, machine = before
        self.pools.back(pool)
        if self._card_codes.back(cards):
            del self._card_sets[cards]
        for number in domains:
            self.domains.back(number)
        if self._shapes.back(machine):
            self.machines[machine] = self.machines[0]
            self.shape_changes += 1

    def _put_power(self, row: int, power: NodePower) -> None:
        self.cpu_mw[row], self.idle_uw[row] = power.cpu, power.idle
        self.gpu_mw[row] = self.gpu_idle_mw[row] = 0
        for index, watts in power.gpus.items():
            if index < GPUS_MAX:
                self.gpu_mw[row, index], self.gpu_idle_mw[row, index] = watts
        self.gpu_watts[row] = self.gpu_mw[row].max() / 1000
        self.slices.pop(row, None)
        if power.devices:
            self.slices[row] = power.devices

    def drop(self, row: int) -> None:
        self.records[row] = None
        self._name(row, None)
        self.slices.pop(row, None)
        self.exists[row] = self.healthy[row] = False
        for name, nothing in self.PLAIN.items():
            getattr(self, name)[row] = nothing
        for name in self.REAL:
            getattr(self, name)[row] = 0.0
        for name, nothing in self.BY_GPU.items():
            getattr(self, name)[row] = nothing
        for name in self.BY_NUMA:
            getattr(self, name)[row] = 0
        self._put_on_demand(row, None)

    def _put_on_demand(self, row: int, record: NodeRecord | None) -> None:
        self._declared = self.kinds = None
        tainted = record is not None and (record.info.taints or record.taints)
        (self.tainted.add if tainted else self.tainted.discard)(row)
        podded = record is not None and PODS in record.info.sandbox
        (self.podded.add if podded else self.podded.discard)(row)
        if len(self.values) > _VALUES_MAX:
            self.values = Codes()
            self.labels.clear()
        for columns in (self.labels, self.numbers, self.datasets, self.devices, self.refusing, self.reluctant):
            columns.put(row, record)
        for (model, memory), column in self._answers.items():
            column[row] = answering(() if record is None else record.info.gpus, model, memory, self.gpus_wide)
            self._answer_masks[model, memory][row] = _mask(column[row])
        self.devices_free.clear()

    def _machine(self, info: NodeInfo) -> int:
        shape = machine_shape(info)
        number = self._shapes.of(shape.id)
        if number == len(self.machines):
            self.machines.append(self.machines[0])
        if self.machines[number].id != shape.id:
            self.machines[number] = shape
            self.shape_changes += 1
        return number

    # ---- questions of asks

    def dataset_of(self, ref: str) -> str | None:
        """The dataset that a reference is, or is in: the nearest one that any row has."""
        if self._declared is None:
            held = (record.datasets for record in self.records if record is not None and record.datasets)
            self._declared = frozenset(name for names in held for name in names)
        while ref and self._declared:
            if ref in self._declared:
                return ref
            ref = ref.rpartition("/")[0]
        return None

    def answers(self, model: str | None, memory_mib: int) -> Bools:
        """Which GPUs answer to a wish for a model and a memory size: rows by GPU index."""
        key = (model, memory_mib)
        column = self._answers.get(key)
        if column is None:
            if len(self._answers) >= ON_DEMAND_MAX:
                self._answers.clear()
            sets: Bools = np.zeros((max(self._card_sets, default=0) + 1, self.gpus_wide), np.bool_)
            for number, gpus in self._card_sets.items():
                sets[number] = answering(gpus, model, memory_mib, self.gpus_wide)
            column = self._answers[key] = sets[self.cards]
            self._answer_masks[key] = _mask(sets)[self.cards]
        return column

    def answer_masks(self, model: str | None, memory_mib: int) -> Ints:
        """The same as one number for each row: bit i is GPU i."""
        found = self._answer_masks.get((model, memory_mib)) if (model, memory_mib) in self._answers else None
        if found is None:
            self.answers(model, memory_mib)
            found = self._answer_masks[model, memory_mib]
        return found

    def set_gpus_left(self, row: int, gpus: Sequence[int], millis: Sequence[int]) -> None:
        """What is left of some GPUs of a row, each named once; -1 for a GPU that cannot be had."""
        left = self.gpu_left[row]
        before, whole, idle = left.tolist(), self.gpu_whole.item(row), self.gpu_idle.item(row)
        for gpu, milli in zip(gpus, millis, strict=True):
            had = before[gpu]
            left[gpu] = milli
            idle += (milli if milli > 0 else 0) - (had if had > 0 else 0)
            if milli == WHOLE:
                whole |= 1 << gpu
            elif had == WHOLE:
                whole &= ~(1 << gpu)
        self.gpu_idle[row], self.gpu_whole[row] = idle, whole

    def set_rows_left(self, rows: Ints, taken: Ints) -> None:
        """What is left of every GPU of some rows, of each of which so much is taken."""
        before = self.gpu_left[rows]
        left = np.where(before >= 0, np.maximum(0, WHOLE - taken), before)
        self.gpu_left[rows] = left
        self.gpu_idle[rows] = np.maximum(left, 0).sum(axis=1)
        self.gpu_whole[rows] = _mask(left == WHOLE)

    def give_gpus(self, row: int, gpus: tuple[int, ...], milli: int) -> None:
        """So much more is left of each of the GPUs; less, where `milli` is negative."""
        left, whole, idle = self.gpu_left[row], self.gpu_whole.item(row), self.gpu_idle.item(row)
        for gpu in gpus:
            had = left.item(gpu)
            left[gpu] = now = had + milli
            idle += (now if now > 0 else 0) - (had if had > 0 else 0)
            if now == WHOLE:
                whole |= 1 << gpu
            elif had == WHOLE:
                whole &= ~(1 << gpu)
        self.gpu_idle[row], self.gpu_whole[row] = idle, whole

    def free_devices(self, kind: str) -> Ints:
        free = self.devices_free.get(kind)
        if free is None:
            taken = self.devices_taken.setdefault(kind, [0] * self.rows)
            free = self.devices_free[kind] = self.devices.of(kind) - np.array([t.bit_count() for t in taken], np.int64)
        return free

    def set_devices_taken(self, row: int, kind: str, taken: int) -> None:
        free = self.free_devices(kind)
        self.devices_taken[kind][row] = taken
        free[row] = self.devices.of(kind)[row] - taken.bit_count()

    # ---- growth

    def grow(self) -> None:
        """Twice the rows, with the same content."""
        more = self.rows
        self.records += [None] * more
        for name in ("exists", "healthy", *self.REAL):
            _lengthen(self, name, more, 0)
        for name, nothing in self.PLAIN.items():
            _lengthen(self, name, more, nothing)
        for name, nothing in self.BY_GPU.items():
            _lengthen(self, name, more, nothing)
        for name in self.BY_NUMA:
            _lengthen(self, name, more, 0)
        for taken in self.devices_taken.values():
            taken += [0] * more
        for columns in (self.labels, self.numbers, self.datasets, self.devices, self.refusing, self.reluctant):
            columns.clear()
        self.devices_free.clear()
        self._answers.clear()

    def _widen(self, gpus: int, numa: int) -> None:
        if gpus > self.gpus_wide:
            for name, nothing in self.BY_GPU.items():
                old = getattr(self, name)
                wider = np.full((self.rows, max(gpus, 2 * old.shape[1])), nothing, np.int64)
                wider[:, : old.shape[1]] = old
                setattr(self, name, wider)
            self._answers.clear()
        if numa > self.numa_cpu.shape[1]:
            for name in self.BY_NUMA:
                old = getattr(self, name)
                wider = np.zeros((self.rows, numa), np.int64)
                wider[:, : old.shape[1]] = old
                setattr(self, name, wider)


def _lengthen(columns: NodeTable, name: str, more: int, nothing: int) -> None:
    old = getattr(columns, name)
    setattr(columns, name, np.concatenate([old, np.full((more, *old.shape[1:]), nothing, old.dtype)]))


def _label(record: NodeRecord, key: str) -> str | None:
    """Every node has its pool and its own name as labels, unless it declares others of that name."""
    own = {POOL_LABEL: record.info.pool, NODE_LABEL: record.info.name}
    return record.info.labels.get(key, own.get(key))


def _number(text: str | None) -> float:
    try:
        return np.nan if text is None else float(text)
    except ValueError:
        return np.nan


def _tainted(record: NodeRecord, tolerated: tuple[tuple[str, str | None], ...], effect: str) -> bool:
    return bool(record.info.taints or record.taints) and any(
        taint.effect == effect
        and not any(key == taint.key and value in (None, taint.value) for key, value in tolerated)
        for taint in (*record.info.taints, *record.taints)
    )


def _cards(gpus: Sequence[Gpu]) -> str:
    """All that wishes for GPUs look at."""
    return "\n".join([f"{gpu.index} {gpu.memory_mib} {gpu.mig} {gpu.model!r}" for gpu in gpus])


def _numa_place(info: NodeInfo, gpu: Gpu) -> int:
    """The index of the GPU's NUMA node among the node's; NUMA ids may have gaps."""
    return next((place for place, numa in enumerate(info.numa) if numa.index == gpu.numa_node), -1)


def _mask(gpus: Bools) -> Any:
    return gpus @ (1 << np.arange(gpus.shape[-1], dtype=np.int64))
