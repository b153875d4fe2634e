"""What jobs have to have in common to tell anything about each other's run time, from most to least."""

from functools import lru_cache
from typing import NamedTuple

from ares.model.job import JobSpec

# Part of no name and of no account.
_PART = "\x1f"
# Jobs of other accounts tell little: it takes more of them.
OTHERS_MIN = 8


class JobKind(NamedTuple):
    """`account` is "tenant/team/user"; `gpu_model` is the model it got, None while it waits."""

    account: str
    name: str
    shape: str
    limit_s: float | None
    gpu_model: str | None = None


class KindLevel(NamedTuple):
    """What jobs have in common. `others`: also jobs of other accounts."""

    words: str
    others: bool = False


# The first level with enough runs is used.
LEVELS = (
    KindLevel("of that name, shape and time limit"),
    KindLevel("of that name and time limit"),
    KindLevel("of that name and shape"),
    KindLevel("of that name"),
    KindLevel("of that user, shape and time limit"),
    KindLevel("of that user and time limit"),
    KindLevel("of that user"),
    KindLevel("of that tenant, shape and time limit", others=True),
    KindLevel("of that tenant and time limit", others=True),
    KindLevel("of that tenant", others=True),
    KindLevel("of that shape and time limit", others=True),
    KindLevel("of all kinds", others=True),
)


def kind_of(spec: JobSpec, account: str, gpu_model: str | None = None) -> JobKind:
    asks, gang = spec.resources, spec.gang
    ranks = 1 if gang is None else gang.ranks
    devices = "".join(f"+{count}{kind}" for kind, count in sorted(asks.devices.items())) if asks.devices else ""
    shape = _shape(ranks, asks.cpu_milli, asks.memory_mib, asks.gpus, asks.gpu_milli, devices)
    return JobKind(account, spec.name, shape, spec.time_limit_s, gpu_model)


@lru_cache(maxsize=4096)
def _shape(ranks: int, cpu_milli: int, memory_mib: int, gpus: int, gpu_milli: int, devices: str) -> str:
    """Jobs of one shape share its name."""
    return f"{ranks}x{cpu_milli}c{memory_mib}m{gpus}g{gpu_milli}{devices}"


@lru_cache(maxsize=4096)
def keys_of(kind: JobKind) -> tuple[str, ...]:
    """One key for each level."""
    account, name, shape, limit_s, _ = kind
    limit = "" if limit_s is None else f"{limit_s:g}"
    tenant = account.split("/", 1)[0]
    return (
        _key("a", account, name, shape, limit),
        _key("b", account, name, limit),
        _key("c", account, name, shape),
        _key("d", account, name),
        _key("e", account, shape, limit),
        _key("f", account, limit),
        _key("g", account),
        _key("h", tenant, shape, limit),
        _key("i", tenant, limit),
        _key("j", tenant),
        _key("k", shape, limit),
        _key("l"),
    )


def on_model(kind: JobKind, gpu_model: str) -> str:
    """The key of jobs alike in everything, on one GPU model."""
    limit = "" if kind.limit_s is None else f"{kind.limit_s:g}"
    return _key("m", gpu_model, kind.account, kind.name, kind.shape, limit)


def _key(*parts: str) -> str:
    return _PART.join(parts)
