"""Numbered reports, kept until the control plane acknowledges them."""

from collections.abc import Callable, Iterable

import msgspec

from ares.model.checkpoint import Checkpointed, DamageFound
from ares.model.link import AttemptRef, Exited, Fenced, Started

# About the size of one file in a report's list of outputs.
_FILE_BYTES = 256

Report = Started | Exited | Fenced | Checkpointed | DamageFound
Key = tuple[AttemptRef, int]


def key_of(report: Report) -> Key:
    return report.ref, report.rank


class Outbox:
    """Reports in order, sent again after every reconnect. A final report waits for its attempt's log."""

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
        """Adds the bytes of log that were given up to a final report that is not acknowledged yet."""
        report = self._kept.get(number)
        if isinstance(report, Exited | Fenced):
            self._kept[number] = self._unsent[number] = msgspec.structs.replace(report, log_lost=log_lost)

    def rewind(self) -> None:
        """A new session: every report without an acknowledgement is sent again."""
        self._unsent = dict(self._kept)

    @property
    def waiting(self) -> bool:
        """Whether a report was not sent yet in this session."""
        return bool(self._unsent)

    def take(self, limit: int, bytes_max: int, may_go: Callable[[Report], bool]) -> list[Report]:
        """The next reports to send: at most `limit`, with results of about `bytes_max` bytes together."""
        taken, size = list[Report](), 0
        for report in self._unsent.values():
            if len(taken) == limit or size >= bytes_max:
                break
            if may_go(report):
                taken.append(report)
                size += _size(report)
        for report in taken:
            del self._unsent[report.number]
        return taken

    def settle(self, numbers: Iterable[int]) -> list[Report]:
        """Removes acknowledged reports and returns them."""
        settled = list[Report]()
        for number in numbers:
            self._unsent.pop(number, None)
            report = self._kept.pop(number, None)
            if report is not None:
                settled.append(report)
        return settled


def _size(report: Report) -> int:
    """Beside that of an ordinary message."""
    if isinstance(report, Exited):
        return len(report.value) + _FILE_BYTES * len(report.outputs)
    return _FILE_BYTES * len(report.files) if isinstance(report, Checkpointed) else 0
