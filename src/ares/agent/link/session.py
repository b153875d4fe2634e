"""The agent's side of the stream: greet, renew, send, receive; reconnect while it runs."""

import asyncio
from collections.abc import AsyncIterator, Coroutine

import structlog

from ares.agent.entry.entrance import Entrance
from ares.agent.link.loud_sender import LoudSender
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.run_right import RunRight
from ares.agent.link.workload import Workload
from ares.agent.loops import first_to_end
from ares.agent.transfer.rates import LeasedRates
from ares.model.link import (
    Ack,
    AgentFrame,
    Hello,
    LogAck,
    OpenAside,
    OutputAck,
    Renew,
    Renewed,
    Resize,
    ServerFrame,
    ServerMessage,
    Start,
    Stop,
    TransferRates,
    Welcome,
)
from ares.model.node import NodeInfo
from ares.model.telemetry.log_stream import LogHello
from ares.ports.clock import Clock, Rng, happens
from ares.ports.link import Link, LinkBroken, LinkRefused, LinkSession, OutputLines, Sideways

_log = structlog.get_logger(__name__)

_BACKOFF_BASE_S = 0.05
_BACKOFF_MAX_S = 2.0
_BACKOFF_LEFT_SHARE = 0.25
_RENEW_AGAIN_S = 1.0
# Share of the time between a renewal and the end of the lease. The rest is for trying another replica.
_PATIENCE_SHARE = 0.8
_PATIENCE_MIN_S = 0.1
_PATIENCE_GROWTH_MAX = 16.0
# Share of the patience. An answer within it is a quick one.
_QUICK_SHARE = 0.5
# Under load a frame waits for more messages: while one comes within a step, up to the limit.
_LINGER_STEP_S = 0.003
_LINGER_MAX_S = 0.020
# With this many messages it is sent: the control plane can work on them meanwhile.
_LINGER_ENOUGH = 32
# A Started report waits this long at most, so that a short attempt sends its start and end in one frame.
_START_TOLD_S = 0.025
_WELCOME_TIMEOUT_S = 10.0


class Conversation:
    """Keeps a session with the control plane open, and reconnects after a failure."""

    def __init__(
        self,
        *,
        info: NodeInfo,
        link: Link,
        credential: str,
        boot: int,
        clock: Clock,
        rng: Rng,
        run_right: RunRight,
        mailbox: Mailbox,
        attempts: Workload,
        entrance: Entrance | None = None,
        rates: LeasedRates | None = None,
    ) -> None:
        """Without `entrance` no sessions are opened in jobs here; without `rates` none are kept."""
        self._info = info
        self._link = link
        self._credential = credential
        self._boot = boot
        self._clock = clock
        self._rng = rng
        self._run_right = run_right
        self._mailbox = mailbox
        self._attempts = attempts
        self._entrance, self._rates = entrance, rates
        # The session, where it can open a stream for sessions in jobs.
        self._sideways: Sideways | None = None
        self._welcome = Welcome(incarnation=0, store_epoch=0)
        self._changed = asyncio.Event()
        # Factor on the patience. It grows while renewals go unanswered.
        self._patience = 1.0
        self._failures = 0

    def describe(self, info: NodeInfo) -> None:
        """The node has changed: it is told by a new session, which keeps its incarnation and its attempts."""
        if info != self._info:
            self._info = info
            self.again()

    def again(self) -> None:
        """A new session, which names the attempts that there are now."""
        self._changed.set()

    @property
    def welcome(self) -> Welcome:
        """The welcome of the latest session."""
        return self._welcome

    async def run(self) -> None:
        """Ends only by cancellation, or by LinkRefused when the control plane does not accept this node."""
        while True:
            try:
                await self._one_session()
            except LinkBroken as error:
                if not self._changed.is_set():
                    failures = self._failures
                    _log.warning("agent.disconnected", why=str(error), failures=failures, next="it goes on trying")
            except LinkRefused as error:
                await self._refused(error)
            self._run_right.dropped()
            self._attempts.drop_held()
            if self._changed.is_set():
                # Once at once: a control plane that is away is waited for as ever.
                self._changed.clear()
                continue
            ceiling = min(_BACKOFF_MAX_S, _BACKOFF_BASE_S * 2 ** min(self._failures, 10))
            if self._attempts.processes_left():
                # Attempts must not end for lack of a try: the sooner the lease ends, the sooner the next try.
                left_s = self._run_right.deadline(0.0) - self._clock.monotonic()
                ceiling = min(ceiling, max(_BACKOFF_BASE_S, left_s * _BACKOFF_LEFT_SHARE))
            self._failures += 1
            await self._clock.sleep(ceiling * self._rng.uniform())

    async def _refused(self, error: LinkRefused) -> None:
        """This incarnation is over. The node joins with a new one once no process of the old is left."""
        if self._attempts.incarnation == 0:
            raise error
        _log.error("agent.refused", why=str(error), incarnation=self._attempts.incarnation)
        self._run_right.lost()
        self._attempts.stop_all(0.0, f"the control plane refused this agent: {error}")
        while self._attempts.processes_left():
            await self._clock.sleep(_BACKOFF_BASE_S)
        self._attempts.incarnation = 0

    async def _one_session(self) -> None:
        session = await self._link.connect(self._credential)
        self._sideways = session if self._entrance is not None and isinstance(session, Sideways) else None
        try:
            frames = session.frames()
            first = await self._greet(session, frames)
            loud = self._loud(session, first)
            self._settle_in(first)
            await first_to_end(self._receive(frames), self._send(session), self._renew(), self._describe_again(), *loud)
        finally:
            if self._entrance is not None:
                self._entrance.left()
            await session.close()

    def _loud(self, session: LinkSession, first: ServerFrame) -> tuple[Coroutine[None, None, None], ...]:
        """The loop for output of loud attempts, where both ends know it. It never ends by itself."""
        number = first.messages[0].log_stream if isinstance(first.messages[0], Welcome) else 0
        self._mailbox.loud.offered = bool(number) and isinstance(session, OutputLines)
        if not isinstance(session, OutputLines) or not number:
            return ()
        sender = LoudSender(self._mailbox, self._attempts, self._clock, self._rng)
        return (_forever(sender.run(session, LogHello(node=self._info.name, number=number))),)

    async def _describe_again(self) -> None:
        await self._changed.wait()
        raise LinkBroken("the node has changed")

    async def _greet(self, session: LinkSession, frames: AsyncIterator[ServerFrame]) -> ServerFrame:
        self._changed.clear()
        hello = Hello(
            info=self._info, incarnation=self._attempts.incarnation, alive=self._attempts.refs(), boot=self._boot,
            resends_logs=True, enterable=self._sideways is not None, paced=self._rates is not None,
        )  # fmt: skip
        await session.send(AgentFrame(messages=(hello, self._next_renewal())))
        try:
            async with asyncio.timeout(_WELCOME_TIMEOUT_S):
                first = await anext(frames, None)
        except TimeoutError:
            raise LinkBroken(f"no welcome within {_WELCOME_TIMEOUT_S:g} s") from None
        if first is None or not first.messages or not isinstance(first.messages[0], Welcome):
            raise LinkBroken("the control plane did not begin with a welcome")
        return first

    def _settle_in(self, first: ServerFrame) -> None:
        welcome = first.messages[0]
        assert isinstance(welcome, Welcome)
        if self._attempts.incarnation not in (0, welcome.incarnation):
            self._run_right.lost()
        self._attempts.incarnation = welcome.incarnation
        self._attempts.take_limit(welcome.output_bytes_max)
        self._welcome = welcome
        self._run_right.set_terms(welcome.self_fence_ratio, welcome.dead_after_s)
        self._attempts.keep_only(welcome.keep)
        self._mailbox.tells_moves, self._mailbox.tells_cached = welcome.moves, welcome.cached
        self._mailbox.tells_spans = welcome.spans
        self._mailbox.rewind()
        _log.info("agent.connected", incarnation=welcome.incarnation, kept=len(welcome.keep))
        self._take(first.messages[1:])

    # ---- three loops of a session

    async def _receive(self, frames: AsyncIterator[ServerFrame]) -> None:
        async for frame in frames:
            self._take(frame.messages)
        raise LinkBroken("the control plane closed the stream")

    async def _send(self, session: LinkSession) -> None:
        last = 0.0
        while True:
            await self._mailbox.wait()
            await happens(self._mailbox.urgent, self._clock, _START_TOLD_S)
            if self._clock.monotonic() - last < _LINGER_MAX_S:
                await self._linger()
            # An agent that was frozen ends attempts without a lease before it sends anything about them.
            self._attempts.fence_expired()
            frame = self._mailbox.frame()
            if frame is not None:
                await session.send(frame)
            last = self._clock.monotonic()

    async def _linger(self) -> None:
        """Collects messages: many ends in one frame cost little more than one. A frame after a pause never waits."""
        until = self._clock.monotonic() + _LINGER_MAX_S
        first, seen = self._mailbox.news, -1
        while seen != self._mailbox.news < first + _LINGER_ENOUGH and self._clock.monotonic() < until:
            seen = self._mailbox.news
            await self._clock.sleep(_LINGER_STEP_S)

    async def _renew(self) -> None:
        """Renews the lease on time. Without an answer it tries more often, then breaks off to try another replica."""
        welcome, welcomed = self._welcome, self._clock.monotonic()
        while True:
            now = self._clock.monotonic()
            unanswered = self._run_right.unanswered_since()
            # Time spent waiting for the welcome is not silence: the control plane served other agents first.
            silent_s = 0.0 if unanswered is None else now - max(unanswered, welcomed)
            if silent_s > (patience_s := self._patience * _patience_s(welcome)):
                self._patience = min(_PATIENCE_GROWTH_MAX, self._patience * 2)
                raise LinkBroken(f"no renewal was acknowledged for {patience_s:g} s")
            if unanswered is None:
                due = self._run_right.held_since() + welcome.renew_every_s
            else:
                due = self._run_right.last_sent + min(_RENEW_AGAIN_S, welcome.renew_every_s)
            if now >= due:
                self._mailbox.renew(self._next_renewal())
            else:
                await self._clock.sleep(due - now)

    # ---- messages

    def _take(self, messages: tuple[ServerMessage, ...]) -> None:
        for message in messages:
            match message:
                case Start():
                    self._attempts.begin(message)
                case Ack(numbers=numbers):
                    self._attempts.settled(self._mailbox.outbox.settle(numbers))
                case LogAck():
                    self._attempts.log_kept(message)
                case OutputAck():
                    self._attempts.output_kept(message)
                case Renewed():
                    self._renewed(message)
                case OpenAside() | TransferRates():
                    self._take_beside(message)
                case Stop():
                    self._attempts.stop(message)
                case Resize():
                    self._attempts.resize(message)
                case Welcome():
                    raise LinkBroken("a second welcome in one session")

    def _take_beside(self, message: OpenAside | TransferRates) -> None:
        """What is about no attempt."""
        if isinstance(message, TransferRates):
            if self._rates is not None:
                self._rates.take(message)
        elif self._sideways is not None and self._entrance is not None:
            self._entrance.called(self._sideways, message.key)

    def _next_renewal(self) -> Renew:
        return Renew(nonce=self._run_right.sending(), dead_after_s=self._run_right.holds_by_s)

    def _renewed(self, message: Renewed) -> None:
        if not message.nonce and self._run_right.extended(message.dead_after_s):
            _log.info("agent.extended", lease_s=message.dead_after_s)
            self._attempts.renewed()
        elif self._run_right.acknowledged(message.nonce, message.dead_after_s):
            self._calm_down(self._clock.monotonic() - self._run_right.held_since())
            self._attempts.renewed()
        for ref in message.stop:
            self._attempts.stop(Stop(ref=ref, grace_s=0.0, reason="no longer current"))

    def _calm_down(self, took_s: float) -> None:
        """Lowers patience step by step, and only after quick answers. A control plane is slow when all agents reconnect
        at once; if they left it for being slow, they would all reconnect again."""
        if took_s < _QUICK_SHARE * _patience_s(self._welcome):
            self._patience, self._failures = max(1.0, self._patience / 2), self._failures // 2


async def _forever(loop: Coroutine[None, None, None]) -> None:
    await loop
    await asyncio.Event().wait()


def _patience_s(welcome: Welcome) -> float:
    """How long a renewal may go unanswered before another replica is tried."""
    self_fence_s = welcome.self_fence_ratio * welcome.dead_after_s
    return max(_PATIENCE_MIN_S, _PATIENCE_SHARE * (self_fence_s - welcome.renew_every_s))
