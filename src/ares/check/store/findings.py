"""The findings of each check: how many records it read, and what was wrong."""

import msgspec

# In the order they are told, each with what it means to be clean.
CHECKS = {
    "storage": "the storage itself is sound",
    "records": "every record can be read, and its key names it",
    "ledger": "every job's ledger is whole, was never rewritten, and gives its state",
    "fences": "fences grow, and none is of an epoch to come",
    "results": "one result for each job that succeeded or failed, by its last grant, and none for others",
    "requests": "every request id stands for the one job it made, with the payload it was sent with",
    "arrays": "arrays have all their tasks and no others",
    "budgets": "nothing was repeated more often than allowed",
    "capacity": "no machine is given away more than it has",
    "nodes": "machines and their leases agree",
    "reservations": "no device is booked twice for the same time",
    "books": "books of days were written once, and nothing in them counts twice",
    "tokens": "tokens are well formed",
    "outputs": "files handed over are there, as long and as they were committed",
    "projects": "files that jobs start with are there, as they were shipped",
}
_SHOWN_MAX = 20


class Check(msgspec.Struct, frozen=True, rename="camel"):
    """`looked_at` counts records; `first` has the first violations in words."""

    name: str
    promise: str
    looked_at: int
    violations: int
    first: tuple[str, ...] = ()


class VerifyReport(msgspec.Struct, frozen=True, rename="camel"):
    revision: int
    epoch: int
    jobs: int
    checks: tuple[Check, ...]
    # What could not be judged, and why.
    notes: tuple[str, ...] = ()

    @property
    def violations(self) -> int:
        return sum(check.violations for check in self.checks)


class Findings:
    """Collects findings. It keeps a bounded number, however much is wrong."""

    def __init__(self) -> None:
        self._looked: dict[str, int] = {}
        self._count: dict[str, int] = {}
        self._first: dict[str, list[str]] = {name: [] for name in CHECKS}
        self.notes: list[str] = []

    def looked(self, check: str, count: int = 1) -> None:
        self._looked[check] = self._looked.get(check, 0) + count

    def wrong(self, check: str, what: str) -> None:
        self._count[check] = self._count.get(check, 0) + 1
        if len(self._first[check]) < _SHOWN_MAX:
            self._first[check].append(what)

    def checks(self) -> tuple[Check, ...]:
        """Those that looked at anything or found anything."""
        return tuple(
            Check(
                name=name,
                promise=promise,
                looked_at=self._looked.get(name, 0),
                violations=self._count.get(name, 0),
                first=tuple(self._first[name]),
            )
            for name, promise in CHECKS.items()
            if name in self._looked or name in self._count
        )
