"""Nodes as one ask sees them: what filters and scorers get. Whole columns, or only the rows that changed."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np

from ares.core.ask import Ask, Near, Pairs
from ares.core.capacity.node_table import WHOLE, Bools, Floats, Ints, NodeTable
from ares.model.job import NodeTerm

T = TypeVar("T")


class lazily(Generic[T]):  # noqa: N801 - reads as a decorator
    """Computed when first asked for, then kept. `functools.cached_property` takes a lock, which costs more."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, rows: None, owner: type) -> "lazily[T]": ...
    @overload
    def __get__(self, rows: object, owner: type) -> T: ...
    def __get__(self, rows: object | None, owner: type) -> "T | lazily[T]":
        if rows is None:
            return self
        found = rows.__dict__[self._name] = self._make(rows)
        return found


class Wish(NamedTuple):
    """What a job asks of nodes by name, whatever it needs of them."""

    gpu_model: str | None = None
    gpu_memory_mib: int = 0
    selector: Pairs = ()
    # Those that are required.
    terms: tuple[NodeTerm, ...] = ()


class Typical(NamedTuple):
    """A shape that jobs with GPUs often have here, as a share of their ranks: what idle GPUs should stay good for."""

    cpu_milli: int
    gpus: int
    gpu_milli: int
    wish: Wish
    share: float


class ClusterFacts(NamedTuple):
    """What is true of the cluster as a whole and changes slowly: a change makes everything be computed anew."""

    typical: tuple[Typical, ...] = ()
    # The largest of each, so that scorers can compare with the rest of the cluster.
    gpu_hour_max: float = 0.0
    cpu_hour_max: float = 0.0
    gpu_watts_max: float = 0.0
    network_gbps_max: float = 0.0
    memory_gib_hour_max: float = 0.0
    # What jobs ask for by name.
    wishes: tuple[Wish, ...] = ()
    # What GPUs of each kind of node are worth to such jobs, by the wishes that the kind answers to: bit i is wish i.
    prices: tuple[tuple[int, float], ...] = ()


class NodeSlice:
    """The rows that an ask looks at. `emptied`: as if all were ready and nothing ran, which tells what could ever fit.

    All attributes are arrays over the chosen rows; they must not be changed.
    """

    def __init__(
        self,
        table: NodeTable,
        ask: Ask,
        at: Ints | slice,
        facts: ClusterFacts,
        matching: "Matching",
        emptied: bool = False,
    ) -> None:
        self.table = table
        self.ask = ask
        self.at = at
        self.facts = facts
        self.matching = matching
        self.emptied = emptied

    def __len__(self) -> int:
        return len(self.exists)

    @lazily
    def exists(self) -> Bools:
        return self.table.exists[self.at]

    @lazily
    def healthy(self) -> Bools:
        return self.exists if self.emptied else self.table.healthy[self.at]

    # ---- CPU and memory, with what the ask's class of service may over-commit

    @lazily
    def cpu(self) -> Ints:
        return self._with_extra(self.table.cpu, self.table.cpu_extra)

    @lazily
    def cpu_free(self) -> Ints:
        return self.cpu if self.emptied else self._with_extra(self.table.cpu_free, self.table.cpu_extra)

    @lazily
    def memory(self) -> Ints:
        return self._with_extra(self.table.memory, self.table.memory_extra)

    @lazily
    def memory_free(self) -> Ints:
        return self.memory if self.emptied else self._with_extra(self.table.memory_free, self.table.memory_extra)

    def _with_extra(self, column: Ints, extra: Ints) -> Ints:
        return column[self.at] if self.ask.qos == "guaranteed" else column[self.at] + extra[self.at]

    # ---- GPUs: rows by GPU index

    @lazily
    def gpu_answers(self) -> Bools:
        """Which GPUs are of the model and size asked for."""
        return self.table.answers(self.ask.gpu_model, self.ask.gpu_memory_mib)[self.at]

    @lazily
    def gpu_left(self) -> Ints:
        """Thousandths left of every GPU, whatever its model; -1 where there is none."""
        left = self.table.gpu_left[self.at]
        return np.where(left >= 0, 1000, -1) if self.emptied else left

    @lazily
    def gpu_fits(self) -> Bools:
        """Which GPUs the ask could have."""
        return self.gpu_answers & (self.gpu_left >= self.ask.gpu_milli)

    @lazily
    def gpu_answer_mask(self) -> Ints:
        """`gpu_answers` as one number per row: bit i is GPU i."""
        return self.table.answer_masks(self.ask.gpu_model, self.ask.gpu_memory_mib)[self.at]

    @lazily
    def gpu_fit_mask(self) -> Ints:
        """`gpu_fits` as one number per row."""
        if self.emptied:
            return self.gpu_answer_mask
        if self.ask.gpu_milli == WHOLE:
            return self.gpu_answer_mask & self.table.gpu_whole[self.at]
        return self.gpu_fits @ (1 << np.arange(self.gpu_fits.shape[1], dtype=np.int64))

    @lazily
    def gpus(self) -> Ints:
        """How many GPUs each node has of the kind asked for."""
        return np.bitwise_count(self.gpu_answer_mask).astype(np.int64)

    @lazily
    def gpus_free(self) -> Ints:
        """How many of them the ask could have now."""
        return np.bitwise_count(self.gpu_fit_mask).astype(np.int64)

    @lazily
    def gpu_count(self) -> Ints:
        """How many whole GPUs the node has, of whatever kind."""
        return self.table.gpu_count[self.at]

    @lazily
    def gpu_idle_milli(self) -> Ints:
        """Thousandths left on all GPUs together."""
        return WHOLE * self.gpu_count if self.emptied else self.table.gpu_idle[self.at]

    @lazily
    def shares_left(self) -> tuple[Floats, Floats, Floats]:
        """The shares of each node's CPU, memory and GPUs left after one rank. Without GPUs: as if all were in use."""
        ask = self.ask
        cpu = (self.cpu_free - ask.cpu_milli) / self.cpu
        memory = (self.memory_free - ask.memory_mib) / self.memory
        return cpu, memory, (self.gpu_idle_milli - ask.gpus_milli) / (1000 * np.maximum(self.gpu_count, 1))

    # ---- other devices

    def devices(self, kind: str) -> Ints:
        return self.table.devices.of(kind)[self.at]

    def devices_free(self, kind: str) -> Ints:
        return self.devices(kind) if self.emptied else self.table.free_devices(kind)[self.at]

    # ---- NUMA: rows by NUMA node

    @lazily
    def numa_cpu_free(self) -> Ints:
        return (self.table.numa_cpu if self.emptied else self.table.numa_cpu_free)[self.at]

    @lazily
    def numa_memory_free(self) -> Ints:
        return (self.table.numa_memory if self.emptied else self.table.numa_memory_free)[self.at]

    @lazily
    def numa_gpus_free(self) -> Ints:
        """How many fitting GPUs hang off each NUMA node."""
        places = self.table.numa_cpu.shape[1]
        numa = self.table.gpu_numa[self.at]
        return np.stack([np.count_nonzero(self.gpu_fits & (numa == place), axis=1) for place in range(places)], axis=1)

    # ---- labels, taints, places

    def label_is(self, key: str, value: str) -> Bools:
        return self.table.labels.of(key)[self.at] == self.table.values.known(value)

    def label_present(self, key: str) -> Bools:
        return self.table.labels.of(key)[self.at] > 0

    def label_number(self, key: str) -> Floats:
        return self.table.numbers.of(key)[self.at]

    @lazily
    def refused(self) -> Bools:
        """Rows with a taint that the ask does not tolerate."""
        return self.table.refusing.of(self.ask.tolerations)[self.at]

    @lazily
    def reluctant(self) -> Bools:
        return self.table.reluctant.of(self.ask.tolerations)[self.at]

    @lazily
    def region(self) -> Ints:
        return self.table.region[self.at]

    def domain(self, level: str) -> Ints:
        """The number of each row's rack, zone or region, or the row itself for "node"; 0 means not declared."""
        if level == "node":
            return np.arange(self.table.rows)[self.at] + 1
        return getattr(self.table, level)[self.at]

    def has_dataset(self, name: str) -> Bools:
        return self.table.datasets.of(name)[self.at]

    @lazily
    def network_gbps(self) -> Floats:
        return self.table.network_gbps[self.at]

    @lazily
    def gpu_hour(self) -> Floats:
        return self.table.gpu_hour[self.at]

    @lazily
    def cpu_hour(self) -> Floats:
        return self.table.cpu_hour[self.at]

    @lazily
    def memory_gib_hour(self) -> Floats:
        return self.table.memory_gib_hour[self.at]

    @lazily
    def gpu_watts(self) -> Floats:
        """Watts of the thirstiest GPU of the kind asked for, at full load."""
        return np.where(self.gpu_answers, self.table.gpu_mw[self.at], 0).max(axis=1) / 1000

    @lazily
    def machine(self) -> Ints:
        """The number of each row's machine shape in `table.machines`."""
        return self.table.machine[self.at]


class _Neighbour(NamedTuple):
    """A job that others may be near to or away from, or that must be away from others, with its rows."""

    tenant: str
    labels: dict[str, str]
    away: tuple[Near, ...]
    rows: tuple[int, ...]


class Matching:
    """Which labelled jobs run where, for job affinity."""

    def __init__(self) -> None:
        self._neighbours: dict[str, _Neighbour] = {}

    def put(
        self, job: str, tenant: str, labels: dict[str, str], rows: tuple[int, ...], away: tuple[Near, ...] = ()
    ) -> None:
        """The job runs on these rows, once for every rank."""
        self.drop(job)
        if labels or away:
            self._neighbours[job] = _Neighbour(tenant, labels, away, rows)

    def drop(self, job: str) -> None:
        self._neighbours.pop(job, None)

    def rows(self, near: Near, tenant: str) -> list[int]:
        """Rows with a job of the tenant that carries all the labels; for the term of others, that has this term."""
        return [
            row
            for neighbour in self._neighbours.values()
            if neighbour.tenant == tenant and (_has if near.theirs else _carries)(neighbour, near)
            for row in neighbour.rows
        ]


def _carries(neighbour: _Neighbour, near: Near) -> bool:
    return all(neighbour.labels.get(key) == value for key, value in near.labels)


def _has(neighbour: _Neighbour, near: Near) -> bool:
    return any(term.labels == near.labels and term.level == near.level for term in neighbour.away)
