"""Moves reservations through their windows: begun, ended, released when unused; and preempts jobs in their way.

Leader only. Every change is written by compare-and-swap together with the leader's fence.
"""

import asyncio
from collections import Counter

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.execution.transitions import JobChange, Transitions, Written
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.lifecycle.inputs import Preempt
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.core.reserve.booking import NotBooked, book
from ares.core.reserve.window import due, outgoing, strangers, turned
from ares.core.schedule.preempt.record import moved_record
from ares.core.text import clock as moment
from ares.model.reservation import BOOKED, Reservation, Turn
from ares.model.state import BOUND, TERMINAL, JobState
from ares.ports.clock import Clock, happens
from ares.ports.store import Committed, Compare, Delete, Op, Put, Store, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_LOOK_EVERY_S = 1.0
_LOOK_AGAIN_S = 0.02
# While a reservation is in use its record says so this often.
_NOTE_USE_EVERY_S = 30.0
# A reservation whose nodes are gone is tried to be had elsewhere this often.
_MOVE_EVERY_S = 30.0
_BY = "the platform"


class Book:
    """How reservations are written: each alone by compare-and-swap, and bookings of room one after the other. A booking
    reads `turn` first and is written with it: of two at once, one looks again."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view

    async def turn(self) -> int:
        """The revision of the latest booking, with a view that knows of it."""
        kv = await self._store.get(keys.BOOKINGS)
        await self._view.catch_up()
        return 0 if kv is None else kv.mod_revision

    async def write(
        self, reservation: Reservation, revision: int, turn: int | None = None, guards: tuple[Compare, ...] = ()
    ) -> bool:
        """Whether it was written; with `turn` only if there was no booking since. Returns when the view has it."""
        key = keys.reservation(reservation.name)
        compares = [*guards, Compare(key, "mod_revision", revision)]
        ops: list[Op] = [Put(key, msgspec.json.encode(reservation))]
        if turn is not None:
            compares.append(Compare(keys.BOOKINGS, "mod_revision", turn))
            ops.append(Put(keys.BOOKINGS, reservation.name.encode()))
        written = await self._store.txn(compares, ops)
        if isinstance(written, Committed):
            await self._view.reach(written.revision)
            return written.succeeded
        # The outcome is unknown: the record under its name tells.
        kv = await self._store.get(key)
        await self._view.catch_up()
        return kv is not None and msgspec.json.decode(kv.value, type=Reservation) == reservation


class Windows:
    """`keep_s` counts from the end of a reservation to when its record is forgotten."""

    def __init__(
        self,
        store: Store,
        bookings: Book,
        view: View,
        planner: LiveCluster,
        transitions: Transitions,
        clock: Clock,
        telemetry: Telemetry,
        keep_s: float,
        keeping: Clock,
    ) -> None:
        self._keeping = keeping
        self._store = store
        self._book = bookings
        self._view = view
        self._planner = planner
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry
        self._keep_s = keep_s
        self._asked = asyncio.Event()
        # Jobs that have not ended, by the reservation they name; and the other way round.
        self._jobs: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}
        # Reservations that were in use at the last look, and when one is next tried to be had elsewhere.
        self._in_use: set[str] = set()
        self._again_at: dict[str, float] = {}
        view.subscribe(self._on_delta)

    # ---- jobs of reservations

    def jobs(self, name: str) -> tuple[int, int]:
        """How many of its jobs run, and how many are on their way to."""
        states = [self._view.entries[job].state for job in self._jobs.get(name, ())]
        running = sum(state.phase in BOUND for state in states)
        return running, len(states) - running

    def strangers(self, reservation: Reservation) -> tuple[str, ...]:
        """Jobs that hold its room though its window has begun."""
        if reservation.state != "active":
            return ()
        return strangers(self._planner.cluster, reservation, self._active())

    def _active(self) -> set[str]:
        return {
            reservation.name for reservation, _ in self._view.reservations.values() if reservation.state == "active"
        }

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._jobs.clear()
            self._names.clear()
        for before, entry in delta.states:
            self._follow(before, entry.state)
        for state in delta.removed:
            self._drop(state.id)
        if delta.reservations or delta.relisted:
            self._asked.set()

    def _follow(self, before: JobState | None, state: JobState) -> None:
        """A job names its reservation when it is submitted or updated."""
        live, updated = state.phase not in TERMINAL, before is not None and before.updates != state.updates
        if updated or not live:
            self._drop(state.id)
        if live and (updated or before is None or before.phase in TERMINAL):
            spec = self._view.spec(state)
            if spec is not None and spec.reservation is not None:
                self._names[state.id] = spec.reservation
                self._jobs.setdefault(spec.reservation, set()).add(state.id)

    def _drop(self, job: str) -> None:
        name = self._names.pop(job, None)
        if name is not None:
            self._jobs[name].discard(job)
            if not self._jobs[name]:
                del self._jobs[name]

    # ---- begin and end of windows

    async def run(self, guard: Compare) -> None:
        """Until cancelled; `guard` ties every change to this leadership."""
        while True:
            try:
                await self.look(guard)
            except StoreError as error:
                log.warning("reservations.delayed", error=str(error))
            await happens(self._asked, self._clock, self._pause_s())
            self._asked.clear()

    def _pause_s(self) -> float:
        """Until the next window begins or ends, if that is soon."""
        now = self._clock.wall()
        booked = [reservation for reservation, _ in self._view.reservations.values() if reservation.state in BOOKED]
        moments = [reservation.start if reservation.state == "planned" else reservation.until for reservation in booked]
        return max(_LOOK_AGAIN_S, min([_LOOK_EVERY_S, *(moment - now for moment in moments)]))

    async def look(self, guard: Compare) -> None:
        """One look at every reservation."""
        for reservation, revision in list(self._view.reservations.values()):
            if reservation.state in BOOKED:
                await self._pass(reservation, revision, guard)
            elif (
                self._keeping.wall()
                - max(reservation.until, reservation.history[-1].at if reservation.history else 0.0)
                > self._keep_s
            ):
                await self._store.txn(
                    [guard, _unchanged(reservation, revision)], [Delete(keys.reservation(reservation.name))]
                )
        self._count()

    async def _pass(self, reservation: Reservation, revision: int, guard: Compare) -> None:
        now, in_use = self._clock.wall(), reservation.name in self._jobs
        known = self._noted_use(reservation, now, in_use=in_use) if reservation.state == "active" else reservation
        turn = due(known, now, in_use=in_use)
        after = known if turn is None else turned(known, replace(turn, by=_BY))
        if after != reservation and await self._book.write(after, revision, guards=(guard,)) and turn is not None:
            self._told(after, turn)
        if reservation.state == "active":
            await self._clear(reservation, guard)
        if (
            self._closed(reservation)
            and reservation.name not in self._in_use
            and now >= self._again_at.get(reservation.name, 0.0)
        ):
            self._again_at[reservation.name] = now + _MOVE_EVERY_S
            await self._move(reservation.name, guard)

    def _noted_use(self, reservation: Reservation, now: float, *, in_use: bool) -> Reservation:
        """Says so when it was first used, now and then, and when the last of its jobs left."""
        left = not in_use and reservation.name in self._in_use
        (self._in_use.add if in_use else self._in_use.discard)(reservation.name)
        late = in_use and (reservation.used_at is None or now - reservation.used_at >= _NOTE_USE_EVERY_S)
        return replace(reservation, used_at=now) if left or late else reservation

    def _told(self, reservation: Reservation, turn: Turn) -> None:
        self._telemetry.count("ares_reservations_total", 1, turn.state)
        log.info(
            "reservation.changed",
            name=reservation.name,
            tenant=reservation.tenant,
            state=turn.state,
            why=turn.why,
            gpus=reservation.gpus,
        )

    def _count(self) -> None:
        records = [reservation for reservation, _ in self._view.reservations.values()]
        gpus = Counter[tuple[str, ...]]()
        for reservation in records:
            gpus[reservation.state,] += reservation.gpus
        self._telemetry.gauges("ares_reserved_gpus", {(state,): gpus[state,] for state in sorted(BOOKED)})

    # ---- nodes that are no longer available

    def missing(self, reservation: Reservation) -> tuple[str, ...]:
        """Its nodes that no job can be sent to now."""
        cluster = self._planner.cluster
        rows = {place.node: cluster.rows.get(place.node) for place in reservation.placements}
        return tuple(node for node, row in rows.items() if row is None or not cluster.table.healthy[row])

    def _closed(self, reservation: Reservation) -> list[str]:
        """Its nodes that were removed, cordoned or drained. Silence may pass."""
        records = {place.node: self._view.nodes.get(place.node) for place in reservation.placements}
        return [node for node, record in records.items() if record is None or record.cordoned]

    async def _move(self, name: str, guard: Compare) -> None:
        """Books the same room on other nodes, if there is any. No job runs in the reservation yet."""
        turn = await self._book.turn()
        reservation, revision = self._view.reservations[name]
        closed, now = self._closed(reservation), self._clock.wall()
        others = [other for other, _ in self._view.reservations.values() if other.name != name]
        asked = replace(reservation.asked, node_names=tuple(n for n in reservation.asked.node_names if n not in closed))
        found = book(self._planner.cluster, others, asked, max(reservation.start, now), reservation.until, now)
        if not closed or reservation.state not in BOOKED or isinstance(found, NotBooked) or asked != reservation.asked:
            return
        why = f"moved to other nodes: {', '.join(closed)} cannot be had any more"
        made = Turn(at=now, state=reservation.state, by=_BY, why=why)
        if await self._book.write(turned(replace(reservation, placements=found), made), revision, turn, (guard,)):
            self._told(reservation, made)

    # ---- jobs that have to leave

    async def _clear(self, reservation: Reservation, guard: Compare) -> None:
        """Its own jobs when its window ends; strangers as soon as a job of its own waits for the room."""
        now, until = self._clock.wall(), moment(reservation.until, self._clock.wall())
        ending = f"reservation {reservation.name} ends at {until}"
        changes = [
            self._leave(job, "reservation-ends", reservation, ending, guard)
            for job in outgoing(self._planner.cluster, reservation, now)
        ]
        if self.jobs(reservation.name)[1] and now < reservation.until:
            changes += [
                self._leave(job, "reserved", reservation, f"its place is booked by a reservation until {until}", guard)
                for job in self.strangers(reservation)
            ]
        leaving = [change for change in changes if change is not None]
        if not leaving:
            return
        outcomes = await self._transitions.apply(leaving)
        gone = sum(isinstance(outcome, Written) for outcome in outcomes)
        self._telemetry.count("ares_preemptions_total", gone, "reservation")
        log.info("reservation.clearing", name=reservation.name, jobs=gone)

    def _leave(self, job: str, rule: str, reservation: Reservation, reason: str, guard: Compare) -> JobChange | None:
        state = self._view.entries[job].state
        spec, holding = self._view.spec(state), self._planner.cluster.holdings[job]
        if state.phase not in BOUND or spec is None or why_not_preemptible(spec):
            return None
        mine = state.tenant == reservation.tenant
        record = moved_record(rule, "", holding, self._clock.wall())
        what = Preempt(
            fence=state.fence,
            by=f"reservation {reservation.name}" if mine else "a reservation of another tenant",
            reason=reason,
            record={**record, "for": {"reservation": reservation.name if mine else ""}},
        )
        return JobChange(job, state.tenant, (what,), (guard,))


def _unchanged(reservation: Reservation, revision: int) -> Compare:
    return Compare(keys.reservation(reservation.name), "mod_revision", revision)
