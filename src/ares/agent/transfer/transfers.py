"""The door for bulk bytes. A node without limits lets them pass at once and only counts them.

async with transfers.turn(tenant, endpoint):          # waits while the endpoint is left alone
    await transfers.take(tenant, "fetch", len(part))  # waits for the tenant's turn on the link
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Final

import structlog

from ares.core.transfer.breaker import EndpointBreaker
from ares.core.transfer.turns import PieceGrant, TransferTurns, TurnWait
from ares.model.quota import BreakerState, TransferKind
from ares.ports.clock import Clock, happens

_log = structlog.get_logger(__name__)

# Where the control plane is reached, which keeps projects and outputs.
CONTROL_PLANE: Final = "control-plane"
# How long a thread waits before it looks whether its bytes are still wanted.
_LOOK_S: Final = 0.25
_BREAKERS_MAX: Final = 1000
# Less in a second is not worth a word.
WORTH_BYTES: Final = 1 << 20


class _Asker:
    """A wish that waits. `granted` is told of each piece."""

    __slots__ = ("granted", "kind")

    def __init__(self, kind: TransferKind, granted: Callable[[int], None]) -> None:
        self.kind: TransferKind = kind
        self.granted = granted


class Transfers:
    """One for all attempts of a node. `link_rate`: bytes per second of its link, 0 for no limit."""

    def __init__(self, clock: Clock, link_rate: float = 0.0) -> None:
        self._clock = clock
        self._turns: TransferTurns[_Asker] = TransferTurns(link_rate, clock.monotonic())
        self._breakers: dict[tuple[str, str], EndpointBreaker] = {}
        # Bytes that passed since they were last counted off, by tenant and kind.
        self._moved: dict[tuple[str, TransferKind], int] = {}
        self._pumping: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        # Jobs that wait for an endpoint which is left alone.
        self._paused: dict[str, str] = {}
        # Called when bytes begin to wait, or many have passed.
        self.heed: Callable[[], None] = lambda: None

    # ---- bytes

    def limited(self, tenant: str) -> bool:
        """Whether the tenant's bytes may have to wait."""
        return self._turns.limited(tenant)

    def rate(self, tenant: str) -> float:
        return self._turns.rate(tenant)

    def waiting(self) -> dict[tuple[str, TransferKind], int]:
        """Bytes that wait here, by tenant and kind."""
        found: dict[tuple[str, TransferKind], int] = {}
        for tenant, asker, left in self._turns.waiting():
            found[tenant, asker.kind] = found.get((tenant, asker.kind), 0) + left
        return found

    def moved(self) -> dict[tuple[str, TransferKind], int]:
        """Bytes that passed since the last call, by tenant and kind."""
        moved, self._moved = self._moved, {}
        return moved

    def set_rate(self, tenant: str, rate: float | None, weight: int = 1) -> None:
        """The tenant's bytes per second on this node, None for no limit, and its part of what is left of the link."""
        self._turns.set_rate(tenant, rate, self._clock.monotonic(), weight)
        self._asked.set()

    async def take(self, tenant: str, kind: TransferKind, size: int, *, urgent: bool = False) -> None:
        """Returns when so many bytes of the tenant may pass."""
        if size <= 0 or not self._turns.limited(tenant):
            self.count(tenant, kind, size)
            return
        left, done = size, asyncio.get_running_loop().create_future()

        def granted(piece: int) -> None:
            nonlocal left
            left -= piece
            if left <= 0 and not done.done():
                done.set_result(None)

        withdraw = self.ask(tenant, kind, size, granted, urgent=urgent)
        try:
            await done
        finally:
            withdraw()

    def ask(
        self, tenant: str, kind: TransferKind, size: int, granted: Callable[[int], None], *, urgent: bool = False
    ) -> Callable[[], None]:
        """`granted` is called with the size of each piece that may pass, until all may. Returns what withdraws the
        rest."""
        asker = _Asker(kind, granted)
        if not self._turns.limited(tenant):
            self.count(tenant, kind, size)
            granted(size)
            return lambda: None
        self._turns.ask(tenant, size, asker, urgent=urgent)
        self._asked.set()
        self.heed()
        if self._pumping is None:
            self._pumping = asyncio.create_task(self._pump())
        return lambda: self._turns.forget(tenant, asker)

    def take_in_thread(
        self, loop: asyncio.AbstractEventLoop, tenant: str, kind: TransferKind, size: int, wanted: Callable[[], bool]
    ) -> None:
        """`take` for a thread beside the loop. Returns early when the bytes are not wanted any more."""
        taking = asyncio.run_coroutine_threadsafe(self.take(tenant, kind, size), loop)
        while wanted():
            with contextlib.suppress(TimeoutError):
                taking.result(_LOOK_S)
                return
        taking.cancel()

    def count(self, tenant: str, kind: TransferKind, size: int) -> None:
        """Bytes of a tenant that need not wait have passed."""
        self._moved[tenant, kind] = total = self._moved.get((tenant, kind), 0) + size
        if total >= WORTH_BYTES:
            self.heed()

    async def _pump(self) -> None:
        """Grants pieces while any are asked for."""
        try:
            while (found := self._turns.pick(self._clock.monotonic())) is not None:
                match found:
                    case PieceGrant(tenant=tenant, size=size, asker=asker):
                        self.count(tenant, asker.kind, size)
                        asker.granted(size)
                    case TurnWait(seconds=seconds):
                        self._asked.clear()
                        await happens(self._asked, self._clock, seconds)
        finally:
            self._pumping = None

    # ---- endpoints

    @contextlib.asynccontextmanager
    async def turn(
        self, tenant: str, endpoint: str, *, job: str = "", failures: tuple[type[Exception], ...] = (Exception,)
    ) -> AsyncGenerator[None]:
        """A request to an endpoint. It waits while too many of the tenant's requests there fail; the job is shown as
        paused meanwhile. Of exceptions of the block, `failures` say that the endpoint cannot serve; others are answers
        of an endpoint that works, such as that there is no such thing."""
        breaker = await self._admitted(tenant, endpoint, job)
        try:
            yield
        except failures:
            self._ended(tenant, endpoint, breaker, ok=False)
            raise
        except Exception:
            self._ended(tenant, endpoint, breaker, ok=True)
            raise
        except BaseException:
            breaker.given_up()
            raise
        self._ended(tenant, endpoint, breaker, ok=True)

    def stays_away(self, tenant: str, endpoint: str) -> bool:
        """Whether too many of the tenant's requests there failed lately: to wait is right, to give up is not."""
        breaker = self._breakers.get((tenant, endpoint))
        return breaker is not None and breaker.phase(self._clock.monotonic()) != "closed"

    def paused(self) -> dict[str, str]:
        """The endpoints that jobs wait for, by job."""
        return dict(self._paused)

    def turn_now(self, tenant: str, endpoint: str) -> float:
        """For what cannot wait here: 0 when a request may go, else in how many seconds to ask again. How the request
        ended is told by `ended`."""
        breaker = self._breakers.get((tenant, endpoint))
        return 0.0 if breaker is None else breaker.wait_s(self._clock.monotonic())

    def ended(self, tenant: str, endpoint: str, *, ok: bool) -> None:
        """How a request ended."""
        if not ok or (tenant, endpoint) in self._breakers:
            self._ended(tenant, endpoint, self._breaker(tenant, endpoint), ok=ok)

    def given_up(self, tenant: str, endpoint: str) -> None:
        """A request had its turn, and no answer will come."""
        if (breaker := self._breakers.get((tenant, endpoint))) is not None:
            breaker.given_up()

    def pauses(self, job: str, endpoint: str) -> None:
        """The job waits for an endpoint that is left alone."""
        if job and job not in self._paused:
            self._paused[job] = endpoint
            self.heed()

    def goes_on(self, job: str) -> None:
        if self._paused.pop(job, None) is not None:
            self.heed()

    def breakers(self) -> tuple[BreakerState, ...]:
        """Those that are not closed."""
        now = self._clock.monotonic()
        return tuple(
            BreakerState(endpoint=endpoint, tenant=tenant, phase=phase)
            for (tenant, endpoint), breaker in self._breakers.items()
            if (phase := breaker.phase(now)) != "closed"
        )

    async def _admitted(self, tenant: str, endpoint: str, job: str) -> EndpointBreaker:
        breaker = self._breaker(tenant, endpoint)
        try:
            while wait_s := breaker.wait_s(self._clock.monotonic()):
                self.pauses(job, endpoint)
                await self._clock.sleep(wait_s)
        finally:
            self.goes_on(job)
        return breaker

    def _ended(self, tenant: str, endpoint: str, breaker: EndpointBreaker, *, ok: bool) -> None:
        now = self._clock.monotonic()
        before = breaker.phase(now)
        breaker.ended(now, ok=ok)
        if (after := breaker.phase(now)) != before:
            _log.warning("transfer.breaker", tenant=tenant, endpoint=endpoint, before=before, now=after)
            self.heed()

    def _breaker(self, tenant: str, endpoint: str) -> EndpointBreaker:
        found = self._breakers.get((tenant, endpoint))
        if found is None:
            if len(self._breakers) >= _BREAKERS_MAX:
                now = self._clock.monotonic()
                self._breakers = {key: breaker for key, breaker in self._breakers.items() if not breaker.idle(now)}
            found = EndpointBreaker()
            if len(self._breakers) < _BREAKERS_MAX:
                self._breakers[tenant, endpoint] = found
        return found
