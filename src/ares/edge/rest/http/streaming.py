"""Long answers: counted per token and per tenant, watched for revocation, ended together.

Back-pressure is the transport's: a send waits while the client reads, and nothing is fetched ahead. A client that
reads nothing for a while is cut off, so nothing here queues without bound.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal

from ares.core.refusal import Refusal
from ares.edge.rest.api import ApiServices, ApiSettings
from ares.edge.rest.http.limits import payer
from ares.edge.rest.http.pacing import charged
from ares.edge.rest.http.problems import Problem, retry_after
from ares.model.access import Principal
from ares.model.audit import AuditDraft

# Streams live long: a client that is refused for lack of room tries again after this.
_ROOM_AGAIN_S = 5.0

Ending = Literal["done", "gone", "revoked", "shutdown"]


class TooSlow(Exception):
    """The client did not read for too long."""


class Streams:
    """All open streams of one app."""

    def __init__(self, services: ApiServices, settings: ApiSettings) -> None:
        self._services = services
        self._settings = settings
        # By token, and by the tenant whose share it is.
        self._open: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._closing = asyncio.Event()
        # A stream's task ends after its last word to the client.
        self._serving: set[asyncio.Task[Any]] = set()

    async def close(self, patience_s: float) -> None:
        """Ends every stream, and each that still comes, politely. Returns when each client was told why, or when
        patience is over: a connection that is closed before has lost the reason."""
        self._closing.set()
        if self._serving:
            await asyncio.wait(self._serving, timeout=patience_s)

    async def run(
        self,
        token: str,
        who: Principal,
        work: Coroutine[Any, Any, None],
        gone: Coroutine[Any, Any, None],
        *aside: Coroutine[Any, Any, None],
    ) -> Ending:
        """Runs `work` until it is done, the client is gone, what it may do has changed, or the server stops.
        What runs aside has no end of its own."""
        watched: dict[asyncio.Task[Any], Ending] = {
            asyncio.create_task(charged(work)): "done",
            asyncio.create_task(gone): "gone",
            asyncio.create_task(self._changed(token, who)): "revoked",
            asyncio.create_task(self._closing.wait()): "shutdown",
            **{asyncio.create_task(endless): "done" for endless in aside},
        }
        self._count(who, 1)
        self._follow(asyncio.current_task())
        try:
            finished, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            first = next(task for task in watched if task in finished)
            first.result()
            if watched[first] == "revoked":
                self._note_revoked(who)
            return watched[first]
        finally:
            self._count(who, -1)
            for task in watched:
                task.cancel()
            await asyncio.gather(*watched, return_exceptions=True)

    def _follow(self, serving: asyncio.Task[Any] | None) -> None:
        if serving is not None:
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)

    def _note_revoked(self, who: Principal) -> None:
        self._services.audit.tell(
            AuditDraft(
                operation="stream", outcome="DENY", reason="ws_revoked", token=who.token_id, user=who.user,
                role=who.role, proof=who.proof, tenant=who.tenant, home=who.home,
            )
        )  # fmt: skip

    def check_room(self, who: Principal) -> None:
        of_token, of_tenant = self._settings.streams_per_token_max, self._settings.limits.streams_per_tenant_max
        if self._open[who.token_id] >= of_token:
            raise _crowded(f"the limit is {of_token} per token")
        if self._of_tenant[payer(who)] >= of_tenant:
            raise _crowded(f"the limit is {of_tenant} for the tenant {payer(who)}")

    async def send(self, sending: Awaitable[None]) -> None:
        """One send with a limit on how long the client may take for it."""
        try:
            async with asyncio.timeout(self._settings.send_timeout_s):
                await sending
        except TimeoutError:
            self._services.telemetry.count("ares_streams_lagged_total")
            raise TooSlow from None

    async def every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._services.clock.sleep(seconds)
            await act()

    async def _changed(self, token: str, who: Principal) -> None:
        """Returns when the credential ended, or its rights are others than at the door: it must knock again."""
        entered = (who.home or who.tenant, who.role, who.permissions)
        if who.proof == "federation":
            # The global plane watches over its own callers' credentials, and ends what it asked for.
            await asyncio.Event().wait()
        while True:
            await self._services.clock.sleep(self._settings.recheck_s)
            now = await self._services.tokens.authenticate(token)
            if isinstance(now, Refusal) or (now.tenant, now.role, now.permissions) != entered:
                return

    def _count(self, who: Principal, by: int) -> None:
        for counts, key in ((self._open, who.token_id), (self._of_tenant, payer(who))):
            counts[key] += by
            if not counts[key]:
                del counts[key]
        self._services.telemetry.gauge("ares_streams_open", self._open.total())


def _crowded(detail: str) -> Problem:
    return Problem("too-many-streams", detail=detail, headers=retry_after(_ROOM_AGAIN_S))
