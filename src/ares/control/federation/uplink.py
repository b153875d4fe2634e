"""A cluster's end of the stream to its global plane, on the cluster's leader.

All that is said follows from records, so that a stream may break at any moment: in the next one buckets are compared,
and what differs is told again. Without the global plane the cluster goes on: it is AUTONOMOUS.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import structlog

from ares.control.books.telling import BookNews
from ares.control.federation.asking import Answerer, answer_asks
from ares.control.federation.held_jobs import held_jobs, listed_buckets
from ares.control.federation.lending.allowances import Allowances
from ares.control.federation.link_frames import frames_of
from ares.control.federation.membership import Membership
from ares.control.federation.ownership_leases import OwnershipLeases
from ares.control.federation.routing.reporting import ClusterReporter
from ares.control.federation.standing_news import StandingNews
from ares.control.federation.taking import Taking
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.federation import autonomy
from ares.core.federation.buckets import hashes_of
from ares.core.federation.reports import REPORT_EVERY_S
from ares.core.refusal import Refusal
from ares.model.cluster_link import (
    AllowanceGiven,
    AllSettled,
    BooksKnown,
    ClusterFrame,
    ClusterHello,
    ClusterMessage,
    ClusterWelcome,
    Confirmed,
    Draining,
    GlobalFrame,
    GlobalMessage,
    Judged,
    Offered,
    Pong,
    Reported,
    StandingNoted,
    Tell,
    Withdraw,
)
from ares.model.uplink import TakenJob, UplinkRecord
from ares.ports.clock import Clock, Rng, happens
from ares.ports.cluster_link import ClusterStream
from ares.ports.link import LinkBroken, LinkRefused
from ares.ports.store import StoreError
from ares.ports.telemetry import Telemetry
from ares.version import __version__

log = structlog.get_logger()

_WELCOME_S = 10.0
_AGAIN_MIN_S, _AGAIN_MAX_S = 0.2, 5.0
# A global plane that refuses the cluster does so until a person has done something, and writes each refusal down.
_REFUSED_MAX_S = 60.0
# A global plane that is at work answers every report; one that takes in thousands of jobs at once may be slow.
_SILENT_S = 4 * autonomy.AUTONOMOUS_S
_RELEASED_AT_ONCE = 100
_CLEAN_EVERY_S = 600.0


class Uplink:
    def __init__(
        self, view: View, membership: Membership, taking: Taking, news: StandingNews, allowances: Allowances,
        live: LiveCluster, clock: Clock, rng: Rng, telemetry: Telemetry, epoch: int,
        is_settled: Callable[[], Awaitable[bool]], books: BookNews,
    ) -> None:  # fmt: skip
        self._view, self._membership, self._taking, self._news = view, membership, taking, news
        self._allowances, self._clock, self._rng = allowances, clock, rng
        self._reporter = ClusterReporter(live, view, clock)
        self.leases = OwnershipLeases(view, membership, taking, self._reporter, clock)
        self._telemetry, self._epoch, self._books = telemetry, epoch, books
        # Whether nothing from before a restore of this cluster's store can still run.
        self._is_settled = is_settled
        # What answers requests that are read through to this cluster; set when the API is served.
        self.answerer: Answerer | None = None
        self._wake = asyncio.Event()
        self._heard_at = clock.monotonic()
        self._draining = False
        # When the session began, and the last one in which all that differed was settled, by wall clock.
        self._began_at = 0.0
        self._healed_since: float | None = None
        view.subscribe(self._on_delta)

    # ---- following the view

    def _on_delta(self, delta: Delta) -> None:
        if keys.UPLINK in delta.kept:
            self._wake.set()

    # ---- the loop

    async def run(self) -> None:
        """For as long as this replica leads."""
        delay_s = _AGAIN_MIN_S
        while True:
            record = self._membership.record
            if record is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            why, most_s = "", _AGAIN_MAX_S
            began = self._clock.monotonic()
            try:
                await self._session(record)
            except LinkRefused as error:
                why, most_s = str(error), _REFUSED_MAX_S
            except LinkBroken as error:
                why = str(error)
            except StoreError as error:
                why = f"this cluster's store: {error}"
            except Exception as error:
                # Whatever is wrong with the link, the cluster goes on without it.
                log.error("uplink.failed", error=repr(error), exc_info=error)
                why = f"an error: {error!r}"
            finally:
                self._news.end()
            delay_s = _AGAIN_MIN_S if self._clock.monotonic() - began > _WELCOME_S else min(2 * delay_s, most_s)
            with contextlib.suppress(StoreError):
                await self._cut(why or "the stream ended")
            self._wake.clear()
            await happens(self._wake, self._clock, delay_s * (0.5 + self._rng.uniform()))

    async def clean(self, wall: Clock, keep_s: float) -> None:
        """Removes records of jobs that are long over, as retention does with the jobs' own."""
        while True:
            with contextlib.suppress(StoreError):
                await self.forget(wall.wall() - keep_s)
            await self._clock.sleep(_CLEAN_EVERY_S)

    async def forget(self, before: float) -> int:
        return await self._taking.forget(before, self._healed_since)

    async def _cut(self, why: str) -> None:
        log.info("uplink.broken", why=why)
        record = self._membership.record
        silent_s = self._clock.monotonic() - self._heard_at
        if record is None or (silent_s < autonomy.AUTONOMOUS_S and record.mode != "RECONCILING"):
            return
        if silent_s >= autonomy.AUTONOMOUS_S:
            await self._enter(record, "cut", why)

    async def _enter(self, record: UplinkRecord, happened: autonomy.ModeInput, why: str) -> None:
        mode = autonomy.step(record.mode, happened)
        self._telemetry.gauge("ares_federation_autonomous", mode == "AUTONOMOUS")
        if (mode, why) != (record.mode, record.mode_why):
            with contextlib.suppress(StoreError):
                await self._membership.entered(mode, why)

    async def _session(self, record: UplinkRecord) -> None:
        record = await self._renewed(record)
        stream = await self._membership.plane.connect(record.servers, self._membership.proof(record))
        try:
            began = await self._membership.began()
            if isinstance(began, Refusal):
                return
            hashes = hashes_of((job, progress) for job, progress, _ in held_jobs(self._view))
            hello = ClusterHello(
                name=record.name, incarnation=began.incarnation, store_epoch=self._epoch,
                generation=record.generation, code=record.code, version=__version__, region=record.region,
                wall=self._clock.wall(), buckets=tuple(hashes), settled=await self._is_settled(),
                books=True,
            )  # fmt: skip
            self._began_at = self._clock.wall()
            await stream.send(ClusterFrame(messages=(hello,)))
            frames = stream.frames()
            self._books.begin()
            welcome = await self._welcomed(frames)
            self._heard_at = self._clock.monotonic()
            if (record.code, record.generation) != (welcome.code, welcome.generation):
                await self._membership.welcomed(welcome.code, welcome.generation)
            await self._enter(self._membership.record or began, "connected", "the global plane answered")
            self._news.begin()
            # First what it was lent: a restored global plane knows all of it before all is listed.
            told = (*self._allowances.all_held(), *listed_buckets(self._view, welcome))
            await self._send(stream, asyncio.Lock(), told)
            self._news.tell_differing(welcome.differing)
            await self._converse(stream, frames, began, settled=hello.settled)
        finally:
            await stream.close()

    async def _renewed(self, record: UplinkRecord) -> UplinkRecord:
        if record.renew_at is None or self._clock.wall() < record.renew_at:
            return record
        proof = await self._membership.plane.renew(record.servers, self._membership.proof(record))
        await self._membership.renewed(proof)
        return self._membership.record or record

    async def _welcomed(self, frames: AsyncIterator[GlobalFrame]) -> ClusterWelcome:
        try:
            async with asyncio.timeout(_WELCOME_S):
                frame = await anext(frames)
        except (TimeoutError, StopAsyncIteration):
            raise LinkBroken(f"the global plane did not answer within {_WELCOME_S:g} s") from None
        first = frame.messages[0] if frame.messages else None
        if not isinstance(first, ClusterWelcome):
            raise LinkBroken("the global plane's first message was no welcome")
        for message in frame.messages[1:]:
            if isinstance(message, Draining):
                self._draining = message.on
            elif isinstance(message, BooksKnown):
                self._books.known(message)
        return first

    # ---- the conversation

    async def _converse(
        self, stream: ClusterStream, frames: AsyncIterator[GlobalFrame], record: UplinkRecord, *, settled: bool
    ) -> None:  # fmt: skip
        sending = asyncio.Lock()
        loops = [
            asyncio.create_task(loop, name=name)
            for name, loop in (
                ("hear", self._hear(stream, frames, sending)),
                ("tell", self._tell(stream, sending)),
                ("books", self._tell_books(stream, sending)),
                ("report", self._report(stream, sending, record)),
                ("asks", self._answer_asks(stream)),
                ("watch", self._watch(record, settled=settled)),
            )
        ]
        try:
            done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for loop in done:
                if loop.cancelled():
                    # By the stream itself, which was: this task goes on.
                    raise LinkBroken(f"the stream was cancelled ({loop.get_name()})")
                loop.result()
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _watch(self, record: UplinkRecord, *, settled: bool) -> None:
        """Ends the session when the cluster has left, its certificate is to be renewed, or the global plane is silent
        on an open stream; and when a restored cluster has settled, so that what it lost is judged now."""
        while True:
            await self._clock.sleep(1.0)
            if self._clock.monotonic() - self._heard_at >= _SILENT_S:
                raise LinkBroken(f"the global plane was silent for {_SILENT_S:g} s")
            if not settled and await self._is_settled():
                return
            now = self._membership.record
            if now is None or now.joined_at != record.joined_at:
                return
            if now.renew_at is not None and self._clock.wall() >= now.renew_at:
                return

    async def _answer_asks(self, stream: ClusterStream) -> None:
        while self.answerer is None:
            await self._clock.sleep(0.2)
        asks = await stream.asks()
        try:
            await answer_asks(asks, self.answerer)
        finally:
            await asks.close()

    async def _send(self, stream: ClusterStream, sending: asyncio.Lock, messages: Sequence[ClusterMessage]) -> None:
        async with sending:
            for frame in frames_of(messages):
                await stream.send(frame)

    async def _report(self, stream: ClusterStream, sending: asyncio.Lock, record: UplinkRecord) -> None:
        self._reporter.begin()
        while True:
            report = await self._reporter.next(record)
            news = [*self.leases.said(), *await self._allowances.due(), Reported(report=report, nonce=report.seq)]
            await self._send(stream, sending, news)
            await self._clock.sleep(REPORT_EVERY_S)

    async def _hear(self, stream: ClusterStream, frames: AsyncIterator[GlobalFrame], sending: asyncio.Lock) -> None:
        async for frame in frames:
            self._heard_at = self._clock.monotonic()
            for known in (message for message in frame.messages if isinstance(message, BooksKnown)):
                self._books.known(known)
            await self._send(stream, sending, await self._take(frame.messages))

    async def _take(self, messages: Sequence[GlobalMessage]) -> list[ClusterMessage]:
        record = self._membership.record
        if record is None:
            return []
        name, answers = record.name, list[ClusterMessage]()
        offers = [message for message in messages if isinstance(message, Offered)]
        confirms = [message for message in messages if isinstance(message, Confirmed)]
        if offers:
            answers += await self._taking.offered(name, offers, draining=self._draining)
        if confirms:
            answers += await self._taking.confirmed(name, confirms)
        notes = [message for message in messages if isinstance(message, StandingNoted)]
        if notes:
            await self._news.noted(notes)
        await self._allowances.given([message for message in messages if isinstance(message, AllowanceGiven)])
        for message in messages:
            match message:
                case Withdraw():
                    answers += await self._taking.withdrawn(name, message)
                    self._news.stopped(message.job)
                case Judged():
                    answers += await self._taking.judged(name, message)
                    self._news.stopped(message.job)
                case Draining():
                    self._draining = message.on
                    answers += await self._give_back(name) if message.on else []
                case Tell():
                    answers.append(await self._news.whole(message))
                case AllSettled():
                    self._healed_since = self._began_at
                    await self._enter(self._membership.record or record, "settled", "all that differed is settled")
                case Pong():
                    self._reporter.answered(message.nonce, kept=message.kept)
                case _:
                    pass
        return answers

    async def _give_back(self, name: str) -> list[ClusterMessage]:
        """All that has not begun, when the cluster is drained."""
        states = [
            self._view.entries[job].state
            for job, record in self._view.kept.taken.items()
            if _is_open(record) and job in self._view.entries
        ]
        waiting = [state for state in states if state.attempt == 0 and state.phase in ("PENDING", "WAITING")]
        answers: list[ClusterMessage] = []
        for first in range(0, len(waiting), _RELEASED_AT_ONCE):
            answers += await self._taking.release(name, waiting[first : first + _RELEASED_AT_ONCE])
        return answers

    async def _tell(self, stream: ClusterStream, sending: asyncio.Lock) -> None:
        while True:
            await self._send(stream, sending, await self._news.next())

    async def _tell_books(self, stream: ClusterStream, sending: asyncio.Lock) -> None:
        while True:
            await self._send(stream, sending, await self._books.next())


def _is_open(record: TakenJob) -> bool:
    taken = record.possession.taken
    return taken is not None and taken.stage == "CONFIRMED" and not record.settled
