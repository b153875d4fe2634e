"""What needs no agreement: values that merge, whatever is lost, repeated or late on the way.

Each merge is commutative, associative and idempotent, so every reader comes to the same value. A merge keeps no promise
between writers: owners, fences, results and quotas are compared and swapped instead.
"""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from ares.model.base import Record

Value = TypeVar("Value")


class Version(NamedTuple):
    """Given by the one writer of a register: how often it began anew, and how often it has written since. Never a time
    of day: two clocks do not agree, and one clock is set back."""

    incarnation: int
    seq: int


class Register(Record, Generic[Value], frozen=True):
    """The latest value of one writer: a cluster's report, its health, its topology."""

    version: Version
    value: Value


def latest(left: Register[Value], right: Register[Value]) -> Register[Value]:
    """One writer never gives one version to two values, so equal versions are equal registers."""
    return right if right.version > left.version else left


# Use by (cluster, incarnation): a cluster that begins anew counts from zero beside what it counted before.
Counter = Mapping[tuple[str, int], int]


def counted(left: Counter, right: Counter) -> dict[tuple[str, int], int]:
    """The greater of each part: a part only grows, and has one writer."""
    return {writer: max(left.get(writer, 0), right.get(writer, 0)) for writer in sorted({*left, *right})}


def total(counter: Counter) -> int:
    return sum(counter.values())


# Cancelled jobs, drained and dead clusters, by name: with the highest epoch they are about.
Tombstones = Mapping[str, int]


def buried(left: Tombstones, right: Tombstones) -> dict[str, int]:
    """What was said once is never unsaid; only a higher epoch goes on after it."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in sorted({*left, *right})}


def is_buried(tombstones: Tombstones, name: str, epoch: int) -> bool:
    return name in tombstones and epoch <= tombstones[name]


class EntryKey(NamedTuple):
    """Names one event, or one piece of a log by its offset, of one attempt, however often it is sent."""

    job: str
    epoch: int
    fence: tuple[int, int]
    seq: int


Entries = Mapping[EntryKey, Value]


def joined(left: Entries[Value], right: Entries[Value]) -> dict[EntryKey, Value]:
    """In their order. One key never names two entries."""
    both = {**left, **right}
    return {key: both[key] for key in sorted(both)}
