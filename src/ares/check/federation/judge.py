"""Judges a federation's history by F1 to F14, in one pass."""

from collections.abc import Iterable

import msgspec

from ares.check.federation.books import FederationBooks
from ares.check.federation.history import Happening
from ares.check.federation.rules import FEDERATION_RULES
from ares.check.invariants.history import Violation

TITLES: dict[str, str] = {rule.id: rule.title for rule in FEDERATION_RULES}


class FederationVerdict(msgspec.Struct, frozen=True):
    """What was broken, and how often each promise was put to the test."""

    violations: tuple[Violation, ...]
    counts: dict[str, int]


def check(events: Iterable[Happening]) -> FederationVerdict:
    books = FederationBooks()
    rules = [rule(books) for rule in FEDERATION_RULES]
    counts: dict[str, int] = {}
    for event in events:
        name = type(event).__name__
        counts[name] = counts.get(name, 0) + 1
        books.t = event.t
        for rule in rules:
            rule.before(event)
        books.take(event)
        for rule in rules:
            rule.after(event)
    broken = sorted((violation for rule in rules for violation in rule.broken), key=lambda violation: violation.t)
    return FederationVerdict(tuple(broken), counts | {rule.id: rule.tested for rule in rules})
