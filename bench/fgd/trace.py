"""The trace: nodes, lists of pods, and what was published about them."""

import csv
import gzip
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "fgd"
LISTS = ("default", "cpu050", "gpushare40", "gpuspec10", "multigpu20")
PERCENTS = (80, 90, 95, 100, 110, 120, 130)
WHOLE = 1000


class Pod(NamedTuple):
    """What a pod asks for. `models`: any of these GPU models, or any at all when empty."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]

    @property
    def gpus_milli(self) -> int:
        return self.gpus * self.gpu_milli


class Machine(NamedTuple):
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class Shape(NamedTuple):
    """A kind of pod with its share of all pods."""

    cpu_milli: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]
    share: float


class Published(NamedTuple):
    """Unallocated GPU in percent of all GPU: mean and standard deviation over ten seeds."""

    mean: float
    deviation: float


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(FOLDER / name, "rt") as lines:
        return list(csv.DictReader(lines))


@lru_cache
def machines() -> tuple[Machine, ...]:
    rows = _rows("openb_node_list_gpu_node.csv.gz")
    return tuple(
        Machine(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"]) for row in rows
    )


@lru_cache
def listed(name: str) -> tuple[Pod, ...]:
    """In the order of their names."""
    rows = sorted(_rows(f"openb_pod_list_{name}.csv.gz"), key=lambda row: row["name"])
    return tuple(map(_pod, rows))


def _pod(row: dict[str, str]) -> Pod:
    gpus = int(row["num_gpu"])
    models = tuple(sorted(set(filter(None, row.get("gpu_spec", "").split("|")))))
    milli = int(row["gpu_milli"]) if gpus else 0
    return Pod(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, models)


@lru_cache
def published() -> dict[tuple[str, str, int], Published]:
    """By list, policy and arrived percent."""
    with (FOLDER / "published.csv").open() as lines:
        return {
            (row["workload"].removeprefix("openb_pod_list_"), row["policy"], int(row["arrived_pct_of_capacity"])):
            Published(float(row["unallocated_gpu_pct_mean"]), float(row["sd_over_10_seeds"]))
            for row in csv.DictReader(lines)
        }  # fmt: skip


def shuffled(seed: int) -> list[Machine]:
    """The nodes in the order of this run: the first of equals is another one each time."""
    known = machines()
    return [known[at] for at in np.random.default_rng([seed, 1]).permutation(len(known)).tolist()]
