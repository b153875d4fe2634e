"""Advance reservations: booked, listed, extended and given back. What becomes of them in time is `windows`."""

from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from ares.api.reservations import ReservationView
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.reservation_windows import Book, Windows
from ares.control.state.ids import base32
from ares.control.state.records import Records
from ares.control.state.view import View
from ares.core.access.table import sees_all
from ares.core.refusal import Refusal
from ares.core.reserve.booking import NotBooked, book, extendable
from ares.core.reserve.window import cancelled, turned
from ares.core.text import clock
from ares.model.access import Principal
from ares.model.base import Record
from ares.model.reservation import BOOKED, Reservation, RoomAsked, Turn
from ares.ports.clock import Clock, Rng
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# A moment that has just passed is meant as now.
_JUST_NOW_S = 60.0
_NONE = Refusal(code="not-found", message="no reservation of yours has this name; `ares reservations` lists them")


class ReservationWish(Record, frozen=True):
    """A request for a reservation. Without `start` it begins now; without `name` one is drawn."""

    asked: RoomAsked
    length_s: float
    tenant: str
    start: float | None = None
    name: str = ""
    teams: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    note: str = ""
    unused_release_s: float = 600.0


class Reservations:
    def __init__(
        self,
        book: Book,
        records: Records,
        view: View,
        planner: LiveCluster,
        windows: Windows,
        clock: Clock,
        rng: Rng,
        telemetry: Telemetry,
    ) -> None:
        self._book = book
        self._records = records
        self._view = view
        self._planner = planner
        self._windows = windows
        self._clock = clock
        self._rng = rng
        self._telemetry = telemetry

    # ---- reading

    async def list(self, who: Principal, *, over: bool = False) -> tuple[ReservationView, ...]:
        """By start; those that are over only if asked for."""
        await self._view.catch_up()
        records = [
            reservation for reservation, _ in self._view.reservations.values() if over or reservation.state in BOOKED
        ]
        return tuple(
            self.seen_by(reservation, who)
            for reservation in sorted(records, key=lambda reservation: (reservation.start, reservation.name))
        )

    async def get(self, who: Principal, name: str) -> ReservationView | Refusal:
        await self._view.catch_up()
        reservation, _ = self._view.reservations.get(name, (None, 0))
        return _NONE if reservation is None or not _whose(reservation, who) else self.seen_by(reservation, who)

    def seen_by(self, reservation: Reservation, who: Principal) -> ReservationView:
        mine = _whose(reservation, who)
        running, waiting = self._windows.jobs(reservation.name)
        return ReservationView(
            name=reservation.name if mine else "",
            tenant=reservation.tenant if mine else "",
            state=reservation.state,
            start=reservation.start,
            until=reservation.until,
            gpus=reservation.gpus,
            cpu_milli=reservation.cpu_milli,
            memory_mib=reservation.memory_mib,
            placements=reservation.placements,
            asked=reservation.asked,
            teams=reservation.teams if mine else (),
            users=reservation.users if mine else (),
            created_by=reservation.created_by if mine else "",
            created_at=reservation.created_at,
            note=reservation.note if mine else "",
            unused_release_s=reservation.unused_release_s,
            used_at=reservation.used_at,
            running=running if mine else 0,
            waiting=waiting if mine else 0,
            strangers=len(self._windows.strangers(reservation)) if mine else 0,
            missing=self._windows.missing(reservation),
            history=reservation.history if mine else (),
        )

    # ---- booking

    async def reserve(self, who: Principal, wish: ReservationWish) -> ReservationView | Refusal:
        """Books the room. It tries again whenever another booking came in between."""
        name = wish.name or f"r-{base32(self._rng, 6)}"

        async def attempt() -> ReservationView | Refusal | None:
            turn = await self._book.turn()
            taken, revision = self._view.reservations.get(name, (None, 0))
            if taken is not None and taken.state in BOOKED:
                return _exists(taken, self._clock.wall())
            made = self._made(who, name, wish)
            if isinstance(made, Refusal):
                return made
            if not await self._book.write(made, revision, turn):
                return None
            self._told(made, made.history[-1], who.token_id)
            return self.seen_by(made, who)

        return await self._records.settle(f"reservation {name}", attempt, seen=False)

    def _made(self, who: Principal, name: str, wish: ReservationWish) -> Reservation | Refusal:
        now = self._clock.wall()
        start = now if wish.start is None or 0 < now - wish.start <= _JUST_NOW_S else wish.start
        tenants = self._tenants() | {who.tenant}
        if wish.tenant not in tenants:
            known = ", ".join(sorted(tenants)[:8])
            message = f"nobody has heard of tenant {wish.tenant!r}"
            fix = f"there are {known}; a tenant begins with its first token or share"
            return Refusal(code="reservation-invalid", message=message, fix=fix)
        self._planner.refresh_ready()
        booked = book(self._planner.cluster, self._all(), wish.asked, start, start + wish.length_s, now)
        if isinstance(booked, NotBooked):
            return booked
        by = who.author
        return Reservation(
            name=name,
            tenant=wish.tenant,
            start=start,
            until=start + wish.length_s,
            asked=wish.asked,
            placements=booked,
            teams=wish.teams,
            users=wish.users,
            created_by=by,
            created_at=now,
            note=wish.note,
            unused_release_s=wish.unused_release_s,
            history=(Turn(at=now, state="planned", by=by, why=wish.note),),
        )

    async def cancel(self, who: Principal, name: str, why: str = "") -> ReservationView | Refusal:
        """Releases the room for all jobs. Jobs that run in it go on."""

        async def attempt() -> ReservationView | Refusal | None:
            await self._view.catch_up()
            reservation, revision = self._view.reservations.get(name, (None, 0))
            if reservation is None:
                return _NONE
            if reservation.state not in BOOKED:
                return _over(reservation, self._clock.wall())
            after = cancelled(reservation, who.author, why, self._clock.wall())
            if not await self._book.write(after, revision):
                return None
            self._told(after, after.history[-1], who.token_id)
            return self.seen_by(after, who)

        return await self._records.settle(f"the end of reservation {name}", attempt, seen=False)

    async def extend(self, who: Principal, name: str, more_s: float) -> ReservationView | Refusal:
        """Lets it last longer, in the same room."""

        async def attempt() -> ReservationView | Refusal | None:
            turn = await self._book.turn()
            reservation, revision = self._view.reservations.get(name, (None, 0))
            now = self._clock.wall()
            if reservation is None:
                return _NONE
            if reservation.state not in BOOKED or reservation.until <= now:
                return _over(reservation, now)
            until = reservation.until + more_s
            no = extendable(self._planner.cluster, self._all(), reservation, until)
            if no is not None:
                return no
            why = f"extended until {clock(until, now)}"
            made = Turn(at=now, state=reservation.state, by=who.author, why=why)
            after = turned(replace(reservation, until=until), made)
            if not await self._book.write(after, revision, turn):
                return None
            self._told(after, made, who.token_id)
            return self.seen_by(after, who)

        return await self._records.settle(f"the change of reservation {name}", attempt, seen=False)

    # ---- helpers

    def _all(self) -> Sequence[Reservation]:
        return [reservation for reservation, _ in self._view.reservations.values()]

    def _tenants(self) -> set[str]:
        shares = self._view.profile.profile.shares
        known = {token.tenant for token in self._view.tokens.values()} | {path.split("/")[0] for path in shares}
        return known | self._view.order.keys()

    def _told(self, reservation: Reservation, turn: Turn, token: str) -> None:
        self._telemetry.count("ares_reservations_total", 1, turn.state)
        log.info(
            "reservation.changed",
            name=reservation.name, tenant=reservation.tenant, state=turn.state, by=turn.by, token=token, why=turn.why,
            gpus=reservation.gpus, start=reservation.start, until=reservation.until,
        )  # fmt: skip


def _whose(reservation: Reservation, who: Principal) -> bool:
    return sees_all(who) or reservation.tenant == who.tenant


def _exists(reservation: Reservation, now: float) -> Refusal:
    message = f"reservation {reservation.name} exists: {reservation.gpus} GPUs until {clock(reservation.until, now)}"
    return Refusal(code="reservation-conflict", message=message, fix="choose another name, or cancel it first")


def _over(reservation: Reservation, now: float) -> Refusal:
    at = reservation.history[-1].at if reservation.state not in BOOKED and reservation.history else reservation.until
    state = "over" if reservation.state in BOOKED else reservation.state
    message = f"reservation {reservation.name} is {state} since {clock(at, now)}"
    return Refusal(code="reservation-conflict", message=message, fix="book another")
