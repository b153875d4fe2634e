"""What jobs have to have in common to tell anything about each other's run time, from most to least."""

from collections.abc import Iterable
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

# Those that do not go by a job's name.
_WIDER = LEVELS[4:]

# What jobs have in common, by the letter that their key begins with.
WORDS = {letter: level.words for letter, level in zip("abcdefghijkl", LEVELS, strict=True)}


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
    return (
        _key("a", account, name, shape, limit),
        _key("b", account, name, limit),
        _key("c", account, name, shape),
        name_key(kind),
        *_wider_keys(account, shape, limit_s),
    )


def levels_of(kind: JobKind, *, named: bool = True) -> Iterable[tuple[KindLevel, str]]:
    """What may tell about the job, from most to least; without `named`, nothing that goes by its name."""
    if named:
        return zip(LEVELS, keys_of(kind), strict=True)
    return zip(_WIDER, _wider_keys(kind.account, kind.shape, kind.limit_s), strict=True)


def name_key(kind: JobKind) -> str:
    """The widest of the levels that go by a job's name: without runs there, the narrower ones have none either."""
    return _key("d", kind.account, kind.name)


@lru_cache(maxsize=4096)
def _wider_keys(account: str, shape: str, limit_s: float | None) -> tuple[str, ...]:
    """One key for each level that does not go by a name. Jobs that differ in their names alone have them in common."""
    limit = "" if limit_s is None else f"{limit_s:g}"
    tenant = account.split("/", 1)[0]
    return (
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
