"""Numbered reports, kept until the control plane says they are settled."""

from collections.abc import Callable, Iterable

import msgspec

from ares.model.link import AttemptRef, Exited, Fenced, Started

# What a file takes in the list of an attempt's outputs, about.
_FILE_BYTES = 256

Report = Started | Exited | Fenced
Key = tuple[AttemptRef, int]


def key_of(report: Report) -> Key:
    return report.ref, report.rank


class Outbox:
    """Sends in order, again after every reconnect. A final report waits for its attempt's log."""

    def __init__(self) -> None:
        self._next = 1
        self._kept: dict[int, Report] = {}
        self._unsent: dict[int, Report] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def number(self) -> int:
        self._next += 1
        return self._next - 1

    def add(self, report: Report) -> None:
        self._kept[report.number] = report
        self._unsent[report.number] = report

    def resend(self, number: int) -> None:
        if number in self._kept:
            self._unsent[number] = self._kept[number]

    def amend(self, number: int, log_lost: int) -> None:
        """Adds to an attempt's end, not settled yet, what of its output was given up."""
        report = self._kept.get(number)
        if isinstance(report, Exited | Fenced):
            self._kept[number] = self._unsent[number] = msgspec.structs.replace(report, log_lost=log_lost)

    def rewind(self) -> None:
        """A new session: everything not settled goes out again."""
        self._unsent = dict(self._kept)

    @property
    def waiting(self) -> bool:
        """Whether something was not sent yet in this session."""
        return bool(self._unsent)

    def take(self, limit: int, bytes_max: int, may_go: Callable[[Report], bool]) -> list[Report]:
        """The next to send, at most so many and with results of about so many bytes together."""
        taken, size = list[Report](), 0
        for report in self._unsent.values():
            if len(taken) == limit or size >= bytes_max:
                break
            if may_go(report):
                taken.append(report)
                size += len(report.value) + _FILE_BYTES * len(report.outputs) if isinstance(report, Exited) else 0
        for report in taken:
            del self._unsent[report.number]
        return taken

    def settle(self, numbers: Iterable[int]) -> list[Report]:
        """The reports these numbers belong to, forgotten from now on."""
        settled = list[Report]()
        for number in numbers:
            self._unsent.pop(number, None)
            report = self._kept.pop(number, None)
            if report is not None:
                settled.append(report)
        return settled
