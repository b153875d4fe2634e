"""How drafts get into the store: packed into few transactions, and settled when no answer comes or there is no room.

The plain way to write a change is to read its record, decide, send one transaction that compares what was read, wait
for the answer, and go on with the next. It is right, and it stalls twice. A transaction is durable after a flush to
disk or a round of etcd's quorum, some milliseconds either way: one change after the other, a replica would take a few
hundred a second, and a storm that ends a thousand attempts would hold up everything behind it for seconds. And when
the answer is lost, a writer that takes silence for a failure writes a second time, and one that takes it for a
success acknowledges what is not there.

So drafts that have nothing to do with each other share a transaction, up to what every store takes, and transactions
of one caller are under way side by side, whose commits the store makes one. Compares make that safe: a transaction
lands as a whole or not at all, and each draft in it names all that it was decided from, fences and leadership
included.

Silence is a value, `Unknown`, and there are two ways out of it, both of which end in something that was read:

- What is new (`create`, `until_known`) is sent again, the same bytes under the same conditions. Its first compare
  says that its own key does not exist, so it lands once at most; a later try that is refused reads that key with
  the refusal, and the record there tells whether it is this one.
- What changes a record (`decide`) is read again. If the record holds the bytes that were offered, they landed. If
  it is still at the revision they were decided from, they are offered again, since they may be on their way still
  and can land only once. If it is at another revision they never will land, and the decision is made anew.

A store that is full refuses before it writes. That is certain on the first try only: after an unknown one the earlier
bytes may be there.

What it costs: one draft in a pack that lost its race takes the others with it, and all of them are written once more,
alone, so a pack of n costs up to n + 1 transactions where drafts collide; drafts with the same subject are kept apart
for that reason. A draft waits for the slowest of its pack. A caller that cannot be told within four seconds is told
that the outcome is not known; repeating the same request id is safe. Nothing is acknowledged from memory, ever.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ares.ports.clock import Clock
from ares.ports.store import (
    TXN_BYTES_MAX,
    TXN_OPS_MAX,
    Committed,
    Compare,
    Get,
    Op,
    Put,
    Store,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unknown,
)
from ares.ports.telemetry import Telemetry

# A compare's key may come once more, as a read in the other branch.
_COMPARE_BYTES = 16
# Of an operation that is added to all drafts of a transaction.
_SPARE_BYTES = 1024
# Transactions of one caller that are under way at once: they share a commit, and others' do not wait for all of them.
_AT_ONCE = 16
# Of many changes, those that are drafted and written together. After each part there may be a scheduling cycle: parts
# of 240 made 10,000 releases half as dear again, of 960 a fifth.
PART = 2_000
_PARTS_AT_ONCE = 3
_UNKNOWN_TRIES = 5
_UNKNOWN_PAUSE_S = 0.1
# No try begins later than this: the caller is to be told before it stops waiting, and decides itself when to repeat.
_UNKNOWN_FOR_S = 4.0
_RACES_MAX = 20
_REREAD_PAUSE_S = 0.05


class WriteDraft(Struct, frozen=True, gc=False):
    """Something to write: `ops` if all `compares` hold."""

    ops: tuple[Op, ...]
    compares: tuple[Compare, ...]

    @property
    def subject(self) -> str | None:
        """Drafts with the same subject never share a transaction; one without shares with no other."""
        return None


class Full(Struct, frozen=True, gc=False):
    """The store has no room, and it is certain that nothing was written."""


class Unsettled(StoreUnavailable):
    """A write may have landed, or may still land: the store failed before its outcome was known."""


D = TypeVar("D", bound=WriteDraft)
A = TypeVar("A")
O = TypeVar("O")  # noqa: E741
T = TypeVar("T")


class Writer:
    """Writes drafts to the store. `label` names the caller in the latency metric."""

    def __init__(self, store: Store, clock: Clock, telemetry: Telemetry, label: str) -> None:
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._label = label
        # The newest revision that this process is known to have written.
        self.revision = 0

    async def once(
        self, compares: Sequence[Compare], ops: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> Committed | Unknown:
        """One transaction. Raises StoreError when it is certain that this try wrote nothing."""
        began = self._clock.monotonic()
        written = await self._store.txn(compares, ops, otherwise)
        self._telemetry.observe("ares_store_latency_seconds", self._clock.monotonic() - began, self._label)
        if isinstance(written, Committed):
            if written.succeeded:
                self.revision = max(self.revision, written.revision)
            else:
                self._telemetry.count("ares_store_conflicts_total", 1, self._label)
        return written

    async def until_known(
        self,
        compares: Sequence[Compare],
        ops: Sequence[Op],
        otherwise: Sequence[Op] = (),
        until: float | None = None,
        in_doubt: bool = False,
    ) -> Committed | Unknown | Full:
        """The same bytes under the same conditions until the store says what became of them, or time is up.

        `in_doubt` when they were sent before and may have landed.
        """
        until = self._clock.monotonic() + _UNKNOWN_FOR_S if until is None else until
        for tried in range(_UNKNOWN_TRIES):
            try:
                written = await self.once(compares, ops, otherwise)
            except StoreFull:
                # Unless an earlier try may have landed, this one is certain.
                return Unknown("the store is full") if tried or in_doubt else Full()
            except StoreError as error:
                written = Unknown(str(error))
            if isinstance(written, Committed):
                return written
            await self._clock.sleep(_UNKNOWN_PAUSE_S)
            if self._clock.monotonic() >= until:
                break
        return Unknown("the store did not answer")

    async def create(self, drafts: Sequence[D], guards: Sequence[Compare] = ()) -> list[Committed | Unknown | Full]:
        """What became of each draft, in order. One that was refused has read the keys of its own compares."""
        if len(drafts) == 1:
            return [await self._create_alone(drafts[0], guards, self._clock.monotonic() + _UNKNOWN_FOR_S)]
        if len(drafts) > PART:
            parts = await overlapped(lambda part: self.create(part, guards), drafts)
            return [outcome for part in parts for outcome in part]
        packed = [[draft for _, draft in pack] for pack in packs(list(enumerate(drafts)))]
        settled = await few_at_once(lambda pack: self._create_pack(pack, guards), packed)
        return [outcome for outcomes in settled for outcome in outcomes]

    async def _create_pack(self, pack: Sequence[D], guards: Sequence[Compare]) -> list[Committed | Unknown | Full]:
        until, in_doubt = self._clock.monotonic() + _UNKNOWN_FOR_S, False
        if len(pack) > 1:
            compares = [compare for draft in pack for compare in draft.compares]
            with contextlib.suppress(StoreError):
                written = await self.once([*compares, *guards], [op for draft in pack for op in draft.ops])
                if landed(written):
                    return [written] * len(pack)
                in_doubt = isinstance(written, Unknown)
        return await together([self._create_alone(draft, guards, until, in_doubt=in_doubt) for draft in pack])

    def _create_alone(
        self, draft: WriteDraft, guards: Sequence[Compare], until: float, *, in_doubt: bool = False
    ) -> Coroutine[Any, Any, Committed | Unknown | Full]:
        reads = [Get(compare.key) for compare in draft.compares]
        return self.until_known([*draft.compares, *guards], draft.ops, reads, until, in_doubt)

    async def decide(
        self,
        what: str,
        kind: type[D],
        propose: Callable[[D | None], Awaitable[D | O]],
        write: Callable[[D], Awaitable[Committed | Unknown]],
        offered: D | None = None,
    ) -> D | O:
        """The draft that landed, or what was decided instead.

        `propose` reads the truth and decides by it. It is given the draft whose outcome is not known, if there is one,
        and gives the same draft back as long as that can land still. Raises Unsettled when the store fails meanwhile.
        """
        try:
            for _ in range(_RACES_MAX):
                proposed = await propose(offered)
                if not isinstance(proposed, kind):
                    return proposed
                written = await write(proposed)
                if landed(written):
                    return proposed
                # A refusal of the same bytes after an unknown outcome may mean that the first try landed late.
                offered = proposed if isinstance(written, Unknown) or proposed is offered else None
                if isinstance(written, Unknown):
                    await self._clock.sleep(_REREAD_PAUSE_S)
            raise StoreUnavailable(f"{what}: lost {_RACES_MAX} races in a row; try again")
        except StoreError as error:
            raise Unsettled(str(error)) if offered is not None else error from error


def landed(written: Committed | Unknown | Full) -> bool:
    return isinstance(written, Committed) and written.succeeded


class Pack(Generic[D]):
    """What goes into one transaction. Room for `spare` more operations is left."""

    def __init__(self, spare: int = 0) -> None:
        self.drafts: list[D] = []
        self._ops = self._compares = spare
        self._size = spare * _SPARE_BYTES
        self._subjects: set[str] = set()
        self._closed = False

    def add(self, draft: D) -> bool:
        """Whether it is in now. The first one always is."""
        ops, compares = self._ops + len(draft.ops), self._compares + len(draft.compares)
        size, subject = self._size + _size(draft.ops, draft.compares), draft.subject
        if self.drafts:
            full = max(ops, compares) > TXN_OPS_MAX or size > TXN_BYTES_MAX
            if full or self._closed or subject is None or subject in self._subjects:
                return False
        self._ops, self._compares, self._size = ops, compares, size
        if subject is None:
            self._closed = True
        else:
            self._subjects.add(subject)
        self.drafts.append(draft)
        return True


def packs(drafts: Sequence[tuple[int, D]]) -> list[list[tuple[int, D]]]:
    """The drafts in order, each with the number it came with."""
    if len(drafts) == 1 or (drafts and _share_one(drafts)):
        return [[*drafts]]
    found: list[list[tuple[int, D]]] = []
    pack: Pack[D] | None = None
    for place, draft in drafts:
        if pack is None or not pack.add(draft):
            pack = Pack()
            pack.add(draft)
            found.append([])
        found[-1].append((place, draft))
    return found


def _share_one(drafts: Sequence[tuple[int, WriteDraft]]) -> bool:
    """Whether one transaction takes them all. Most waves are that small, and are weighed at once."""
    ops = [op for _, draft in drafts for op in draft.ops]
    compares = [compare for _, draft in drafts for compare in draft.compares]
    subjects = {draft.subject for _, draft in drafts}
    if len(ops) > TXN_OPS_MAX or len(compares) > TXN_OPS_MAX or len(subjects) < len(drafts) or None in subjects:
        return False
    return _size(ops, compares) <= TXN_BYTES_MAX


async def few_at_once(write: Callable[[A], Coroutine[Any, Any, T]], whats: Sequence[A]) -> list[T]:
    """What writing each of them gives, in order."""
    if len(whats) <= _AT_ONCE:
        return await together([write(what) for what in whats])
    places = asyncio.Semaphore(_AT_ONCE)

    async def in_turn(what: A) -> T:
        async with places:
            return await write(what)

    return await together([in_turn(what) for what in whats])


async def overlapped(write: Callable[[Sequence[A]], Coroutine[Any, Any, T]], whats: Sequence[A]) -> list[T]:
    """What writing them part by part gives. While the store has one part, the next is drafted; and what a part brought
    about is taken in before the one after the next is begun, so that no other work waits for all of them."""
    parts = [whats[first : first + PART] for first in range(0, len(whats), PART)]
    places = asyncio.Semaphore(_PARTS_AT_ONCE)

    async def in_turn(part: Sequence[A]) -> T:
        async with places:
            return await write(part)

    return await every(in_turn(part) for part in parts)


async def together(writes: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results, in order. A single write, which most are, goes on in its caller's own task: that saves it two turns
    of the event loop, each of which waits for all other work there is."""
    return [await writes[0]] if len(writes) == 1 else await asyncio.gather(*writes)


async def every(writes: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Every result. Nothing is still under way when this raises, and the gravest failure is the one raised."""
    todo = list(writes)
    if len(todo) == 1:
        return [await todo[0]]
    results = await asyncio.gather(*todo, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        raise next((failure for failure in failures if isinstance(failure, Unsettled)), failures[0])
    return [result for result in results if not isinstance(result, BaseException)]


def _size(ops: Sequence[Op], compares: Sequence[Compare]) -> int:
    keys, compared = "".join([op.key for op in ops]), "".join([compare.key for compare in compares])
    values = sum([len(op.value) for op in ops if isinstance(op, Put)])
    return len(keys) + values + 2 * len(compared) + _COMPARE_BYTES * len(compares)
