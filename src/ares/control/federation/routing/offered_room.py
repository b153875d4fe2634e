"""Room of clusters that offers will take, and that their reports still show as free.

Without it every job of a moment would go to the same cluster. An offer counts until the cluster has told of the job and
has reported since: only then its report has seen it.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ares.core.routing.options import NOTHING, Kind, RoomSum
from ares.model.cluster import Owner
from ares.model.state import TERMINAL, JobState
from ares.model.uplink import ClusterReport

# A report's incarnation and number.
_Number = tuple[int, int]


class _OpenOffer(NamedTuple):
    epoch: int
    kind: Kind
    amounts: RoomSum


class _ClusterOffers:
    """Of one cluster, mutable."""

    __slots__ = ("number", "offers", "sums")

    def __init__(self) -> None:
        self.number: _Number = (0, 0)
        self.offers: dict[str, _OpenOffer] = {}
        self.sums: dict[Kind, RoomSum] = {}

    def add(self, amounts: RoomSum, kind: Kind, sign: int) -> None:
        was = self.sums.get(kind, NOTHING)
        self.sums[kind] = (was[0] + sign * amounts[0], was[1] + sign * amounts[1], was[2] + sign * amounts[2])


class OfferedRoom:
    def __init__(self) -> None:
        self._books: dict[str, _ClusterOffers] = {}

    def begin(self) -> None:
        """This replica leads, perhaps again."""
        self._books.clear()

    def of(self, cluster: str) -> Mapping[Kind, RoomSum]:
        book = self._books.get(cluster)
        return {} if book is None else book.sums

    def jobs(self, cluster: str) -> tuple[str, ...]:
        book = self._books.get(cluster)
        return () if book is None else tuple(book.offers)

    def offered(self, cluster: str, job: str, epoch: int, kind: Kind, amounts: RoomSum) -> None:
        book = self._books.setdefault(cluster, _ClusterOffers())
        self.forget(cluster, job)
        book.offers[job] = _OpenOffer(epoch, kind, amounts)
        book.add(amounts, kind, 1)

    def forget(self, cluster: str, job: str) -> None:
        book = self._books.get(cluster)
        offer = None if book is None else book.offers.pop(job, None)
        if book is not None and offer is not None:
            book.add(offer.amounts, offer.kind, -1)

    @contextmanager
    def aside(self, cluster: str, job: str) -> Generator[None]:
        """As if the job had not been offered."""
        book = self._books.get(cluster)
        offer = None if book is None else book.offers.get(job)
        self.forget(cluster, job)
        try:
            yield
        finally:
            if offer is not None:
                self.offered(cluster, job, *offer)

    def reported(self, report: ClusterReport, states: Iterable[tuple[str, JobState | None]]) -> None:
        """`states` are those of the jobs that are counted. A report that was looked at before says nothing new."""
        # Known before anything is offered: the report that a first offer was made by has not seen it.
        book, number = self._books.setdefault(report.cluster, _ClusterOffers()), (report.incarnation, report.seq)
        fresh, book.number = number != book.number, number
        for job, state in tuple(states):
            offer = book.offers.get(job)
            if offer is not None and _over(offer, report.cluster, state, fresh=fresh):
                self.forget(report.cluster, job)


def _over(offer: _OpenOffer, cluster: str, state: JobState | None, *, fresh: bool) -> bool:
    owner = None if state is None else state.owner or Owner()
    if state is None or owner is None or state.phase in TERMINAL:
        return True
    if owner.cluster != cluster:
        # Not before it was written: the offer may be on its way to this replica's view.
        return owner.epoch >= offer.epoch
    return fresh and owner.stage == "CONFIRMED" and state.owner_seq > 0
