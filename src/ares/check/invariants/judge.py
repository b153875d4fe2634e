"""Judges a whole history by every rule, in one pass."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ares.check.invariants.books import LedgerBooks
from ares.check.invariants.history import Answered, Commit, Event, Restored, Violation
from ares.check.invariants.rule import Rule
from ares.check.invariants.rules.budget import Budget
from ares.check.invariants.rules.calls import OneOrder
from ares.check.invariants.rules.checkpoints import Checkpoints
from ares.check.invariants.rules.children import Children
from ares.check.invariants.rules.crons import OneFiring
from ares.check.invariants.rules.ends import Cancelled, Liveness, Recovery
from ares.check.invariants.rules.fencing import Guarded, Monotone, Terminal
from ares.check.invariants.rules.gangs import WholeGang
from ares.check.invariants.rules.inputs import GivenData
from ares.check.invariants.rules.ledger import Ledger, Ownership
from ares.check.invariants.rules.logs import WholeLog
from ares.check.invariants.rules.processes import Overlap, StartOnce, Zombie
from ares.check.invariants.rules.quota import Quota
from ares.check.invariants.rules.reads import MonotoneReads
from ares.check.invariants.rules.releases import Released
from ares.check.invariants.rules.requests import Dedup
from ares.check.invariants.rules.results import OneResult
from ares.check.invariants.rules.shares import OwnShare
from ares.check.invariants.rules.updates import AsAsked
from ares.check.invariants.scene import Scene

_CHECKERS: tuple[type[Rule], ...] = (
    Dedup, Terminal, Monotone, Guarded, OneResult, Checkpoints, Budget, Quota, Zombie, Overlap, Liveness, Recovery,
    Cancelled, Ownership, Ledger, MonotoneReads, WholeGang, StartOnce, Released, OwnShare, OneOrder, WholeLog, AsAsked,
    OneFiring, Children, GivenData,
)  # fmt: skip

# Every rule by its id: its title in words, and what checks it.
RULES: dict[str, tuple[str, type[Rule]]] = {rule.id: (rule.title, rule) for rule in _CHECKERS}


class Verdict(msgspec.Struct, frozen=True):
    """What was broken, and how much there was to judge. A rule's own count says how often it was put to the test."""

    violations: tuple[Violation, ...]
    counts: dict[str, int]


def check(events: Iterable[Event]) -> Verdict:
    """Everything wrong with the history, in the order it was noticed."""
    return _Pass().run(events)


class _Pass:
    def __init__(self) -> None:
        self._books, self._scene = LedgerBooks(), Scene()
        self._rules = [checker(self._books, self._scene) for checker in _CHECKERS]
        self._steppers = [rule.step for rule in self._rules if type(rule).step is not Rule.step]
        self._noters: dict[str, list[Callable[[Any, Any, Any], None]]] = {}
        self._hearers: dict[type, list[Callable[[Event], None]]] = {}
        for rule in self._rules:
            for kind in rule.hears:
                self._hearers.setdefault(kind, []).append(rule.hear)
            for prefix in rule.notes:
                self._noters.setdefault(prefix, []).append(rule.note)
        self._counts: Counter[str] = Counter()

    def run(self, events: Iterable[Event]) -> Verdict:
        books, scene, counts, hearers = self._books, self._scene, self._counts, self._hearers
        for event in events:
            kind = type(event)
            if kind is Commit:
                self._commit(event)  # type: ignore[arg-type]
                continue
            books.t = event.t
            counts[kind.__name__] += 1
            scene.take(event)
            if kind is Restored:
                books.restore(event.revision)  # type: ignore[union-attr]
                for rule in self._rules:
                    rule.restored()
            elif kind is Answered and event.outcome == "unknown":  # type: ignore[union-attr]
                counts["unanswered"] += 1
            for hear in hearers.get(kind, ()):
                hear(event)
        for rule in self._rules:
            rule.finish()
        return self._verdict()

    def _commit(self, event: Commit) -> None:
        change = self._books.take(event)
        counts = self._counts
        counts["commits"] += 1
        for step in change.steps.values():
            for entry in step.entries:
                counts[entry.kind] += 1
            for look in self._steppers:
                look(step)
        for kind, name, before, after in change.others:
            for note in self._noters.get(kind, ()):
                note(name, before, after)

    def _verdict(self) -> Verdict:
        kinds = self._counts
        counts = {word: kinds.get(source, 0) for word, source in _COUNTED.items()}
        counts["jobs"] = len(self._books.created)
        counts["revocations"] = sum(kinds.get(kind, 0) for kind in _REVOKING)
        counts["results"] = kinds.get("succeeded", 0) + kinds.get("failed", 0)
        counts |= {rule.id: rule.tested for rule in self._rules}
        broken = [violation for rule in self._rules for violation in rule.broken]
        broken.sort(key=lambda violation: violation.t)
        return Verdict(tuple(broken), counts)


_REVOKING = ("lease-lost", "preempted", "requeue-requested", "retrying", "restarted", "cancelled")
# Words for what is counted, and the name of the event, or the kind of the ledger's entry, that is counted for them.
_COUNTED = {
    "commits": "commits", "grants": "bound", "retries": "retrying", "restarts": "restarted", "losses": "lease-lost",
    "preemptions": "preempted", "cancels": "cancelled", "calls": "Asked", "unknown": "unanswered",
    "processes": "ProcessStarted", "effects": "Effect", "faults": "Fault", "freezes": "Frozen", "lost nodes": "Lost",
    "restores": "Restored",
}  # fmt: skip
