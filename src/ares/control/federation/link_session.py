"""One cluster's open stream, on the global plane: messages to send, and what has been said in it."""

import asyncio
from collections import deque

from ares.control.execution.enrolment import SessionRefused
from ares.core.federation.buckets import bucket_of
from ares.model.cluster import ClusterRecord
from ares.model.cluster_link import (
    AllowanceGiven,
    AllowanceHeld,
    ClusterHello,
    GlobalFrame,
    GlobalMessage,
    ListedBucket,
    Offered,
)

_FRAME_BYTES_MAX = 2 * 1024 * 1024
_FRAME_MESSAGES_MAX = 1_000
_MESSAGE_BYTES = 256
# A cluster that leaves so much unread does not read at all.
_UNREAD_MAX = 500_000
_UNREAD_BYTES_MAX = 256 * 1024 * 1024


class ClusterSession:
    """The state of one stream, mutable, owned by `ClusterLinks`."""

    def __init__(self, record: ClusterRecord, hello: ClusterHello) -> None:
        self.name = record.name
        # As it was before this session: jobs that were confirmed were so under that store epoch or an earlier one.
        self.record = record
        self.hello = hello
        # Offers and confirmations that were sent: each once in a session, "job epoch stage".
        self.sent: set[tuple[str, int, str]] = set()
        # Buckets that are still to be listed; healed when there are none and all verdicts are durable. Each is settled
        # as it comes: what a cluster lists is not gathered here.
        self.awaited: set[int] = set()
        self.listed: list[ListedBucket] = []
        # By bucket, the jobs that this store has it own or offered when the session began.
        self.owned: dict[int, list[str]] = {}
        # Jobs that cannot be as the two sides say: the first few of them, and how many.
        self.disputed: list[str] = []
        self.disputes = 0
        # Jobs that this store has forgotten, or whose end it has: the cluster tells all of each before it is healed.
        self.untold: set[str] = set()
        self.judged = self.healed = False
        # By tenant, of the quota that it is lent: what it says it has, what it was told, and what that was decided by.
        self.held: dict[str, AllowanceHeld] = {}
        self.given: dict[str, AllowanceGiven] = {}
        self.lent: dict[str, tuple[object, ...]] = {}
        # When its newest report was kept, by the monotonic clock.
        self.reported_at: float | None = None
        self.closed_why = ""
        self._out: deque[tuple[GlobalMessage, int]] = deque()
        self._unread_bytes = 0
        self._wake = asyncio.Event()

    def rebuilds(self, own_epoch: int) -> bool:
        """Whether the global plane's store was restored since the two last settled what they know."""
        return self.record.healed_in < own_epoch

    @property
    def closed(self) -> bool:
        return bool(self.closed_why)

    def close(self, why: str) -> None:
        self.closed_why = self.closed_why or why
        self._wake.set()

    def send(self, message: GlobalMessage) -> None:
        size = _MESSAGE_BYTES + (len(message.offer.spec) if isinstance(message, Offered) else 0)
        self._out.append((message, size))
        self._unread_bytes += size
        if len(self._out) > _UNREAD_MAX or self._unread_bytes > _UNREAD_BYTES_MAX:
            self._out.clear()
            self._unread_bytes = 0
            self.close("the cluster does not read what it is told")
        self._wake.set()

    async def next_frame(self) -> GlobalFrame | None:
        """What there is to say, as soon as there is something; None when the session is over."""
        while not self._out:
            if self.closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        taken: list[GlobalMessage] = []
        room = _FRAME_BYTES_MAX
        while self._out and room > 0 and len(taken) < _FRAME_MESSAGES_MAX:
            message, size = self._out.popleft()
            taken.append(message)
            room -= size
            self._unread_bytes -= size
        return GlobalFrame(messages=tuple(taken))


def heed_listed(session: ClusterSession, bucket: ListedBucket) -> None:
    """Keeps the jobs of a bucket until all that were asked for are there. Raises SessionRefused for any other."""
    if bucket.number not in session.awaited:
        raise SessionRefused(f"bucket {bucket.number} was not asked for, or is listed twice")
    if any(bucket_of(held.job) != bucket.number for held in bucket.jobs):
        raise SessionRefused(f"bucket {bucket.number} has a job of another bucket", "malformed")
    session.listed.append(bucket)
    session.awaited.discard(bucket.number)
