"""Recording: shared writes, a disk that fails, crowds; and heads, signed and kept."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from ares.adapters.audit.memory import MemoryAudit
from ares.adapters.audit.signing import Ed25519Signer
from ares.adapters.store.memory import MemoryStore
from ares.adapters.telemetry.null import NullTelemetry
from ares.control.governance.alerts import Alerts
from ares.control.governance.audit import Audit
from ares.control.governance.audit_heads import ENTRIES_MAX, SECONDS_MAX, AuditHeads
from ares.control.state.view import View
from ares.core.audit.chain import RECENT, ChainWriter, Seal, entry_of, superfluous
from ares.core.audit.crowd import ANONYMOUS_EACH, KINDS_MAX, KNOWN_EACH, WINDOW_S, Crowd
from ares.model.audit import AuditDraft, AuditEntry, AuditHead, AuditStub
from ares.ports.audit import AuditPorts, AuditUnavailable
from tests.clocks import ManualClock, settle

DAY_S = 86_400.0
DONE = AuditDraft(operation="submitJob", outcome="ALLOW", tenant="acme")


def denied(token: str = "", remote: str = "10.0.0.1", reason: str = "role") -> AuditDraft:
    return AuditDraft(operation="getJob", outcome="DENY", token=token, remote=remote, reason=reason)


class SlowAudit(MemoryAudit):
    """A disk that takes as long as the test likes."""

    def __init__(self) -> None:
        super().__init__("r1")
        self.free = asyncio.Event()
        self.sizes: list[int] = []

    async def append(self, first: int, at: float, lines: Sequence[bytes]) -> None:
        self.sizes.append(len(lines))
        await self.free.wait()
        await super().append(first, at, lines)


def entries(chain: MemoryAudit) -> list[AuditEntry]:
    found = [entry_of(line) for segment in chain.segments(chain.chain) for line in chain.lines(segment)]
    return [entry for entry in found if entry is not None]


async def opened(chain: MemoryAudit, clock: ManualClock, *, required: bool = True) -> Audit:
    audit = Audit(chain, clock, NullTelemetry(), required=required, seal=Ed25519Signer(bytes(32)).seal)
    await audit.open()
    return audit


async def test_many_writers_share_one_write_and_none_returns_before_it() -> None:
    chain, clock = SlowAudit(), ManualClock()
    audit = await opened(chain, clock)
    noting = [asyncio.create_task(audit.note(DONE)) for _ in range(50)]
    await settle()
    more = [asyncio.create_task(audit.note(DONE)) for _ in range(30)]
    await settle()
    assert not any(task.done() for task in (*noting, *more))
    chain.free.set()
    await settle()
    await clock.advance(0.05)
    await asyncio.gather(*noting, *more)
    assert chain.sizes == [50, 30]
    assert [entry.seq for entry in entries(chain)] == list(range(1, 81))


async def test_a_failing_disk_is_told_to_those_who_wait_and_what_was_done_is_recorded_later() -> None:
    chain, clock = MemoryAudit("r1"), ManualClock()
    audit = await opened(chain, clock)
    await audit.note(DONE)
    chain.failing = AuditUnavailable("no space", full=True)
    with pytest.raises(AuditUnavailable):
        await audit.note(DONE)
    assert audit.refusing is not None
    assert audit.refusing.full
    with pytest.raises(AuditUnavailable):
        await audit.note(DONE)
    audit.tell(denied())
    running = asyncio.create_task(audit.run())
    await clock.advance(3.0)
    assert len(entries(chain)) == 1
    chain.failing = None
    await clock.advance(2.0)
    assert audit.refusing is None
    assert [entry.operation for entry in entries(chain)] == ["submitJob", "submitJob", "submitJob", "getJob"]
    await audit.note(DONE)
    running.cancel()


async def test_whoever_knocks_while_the_disk_is_away_pushes_out_nothing_that_was_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ares.control.governance.audit._OWED_MAX", 5)
    chain, clock = MemoryAudit("r1"), ManualClock()
    audit = await opened(chain, clock)
    chain.failing = AuditUnavailable("no space")
    for _ in range(2):
        with pytest.raises(AuditUnavailable):
            await audit.note(DONE)
    for number in range(50):
        audit.tell(denied(remote=f"host-{number}"))
    running = asyncio.create_task(audit.run())
    await clock.advance(2.0)
    chain.failing = None
    await clock.advance(2.0)
    assert [entry.operation for entry in entries(chain)] == ["submitJob"] * 2 + ["getJob"] * 3
    running.cancel()


async def test_where_records_are_not_required_nothing_is_refused() -> None:
    chain, clock = MemoryAudit("r1"), ManualClock()
    audit = await opened(chain, clock, required=False)
    chain.failing = AuditUnavailable("no space")
    await audit.note(DONE)
    assert audit.refusing is None


async def test_a_disk_that_fails_at_the_start_is_tried_again() -> None:
    class Late(MemoryAudit):
        async def open(self) -> int:
            if self.failing is not None:
                raise self.failing
            return await super().open()

    chain, clock = Late("r1"), ManualClock()
    chain.failing = AuditUnavailable("no such device")
    audit = await opened(chain, clock)
    assert audit.refusing is not None
    running = asyncio.create_task(audit.run())
    chain.failing = None
    await clock.advance(2.0)
    assert audit.refusing is None
    await audit.note(DONE)
    assert [entry.operation for entry in entries(chain)] == ["auditResume", "submitJob"]
    running.cancel()


async def test_the_next_process_goes_on_with_the_chain() -> None:
    chain, clock = MemoryAudit("r1"), ManualClock()
    for _ in range(2):
        audit = await opened(chain, clock)
        await audit.note(DONE)
        await audit.close()
    first, second = entries(chain)
    assert (second.seq, second.prev) == (2, first.hash)


def test_of_a_crowd_the_first_are_listed_and_the_rest_is_counted() -> None:
    crowd = Crowd()
    listed = [crowd.admit(denied(remote="10.0.0.1")) for _ in range(500)]
    assert sum(listed) == ANONYMOUS_EACH
    assert sum(crowd.admit(denied(token="t1")) for _ in range(500)) == KNOWN_EACH
    assert crowd.admit(denied(remote="10.0.0.2"))
    assert crowd.admit(denied(remote="10.0.0.1", reason="bad_key"))
    counted = crowd.over(WINDOW_S)
    assert sorted(draft.count for draft in counted) == [500 - KNOWN_EACH, 500 - ANONYMOUS_EACH]
    assert crowd.over(WINDOW_S * 2) == []
    assert crowd.admit(denied(remote="10.0.0.1"))


def test_senders_without_end_are_one_crowd() -> None:
    crowd = Crowd()
    for number in range(KINDS_MAX + 1000):
        crowd.admit(denied(remote=f"host-{number}"))
    (rest,) = crowd.over(WINDOW_S)
    assert (rest.remote, rest.count) == ("", 1000 - ANONYMOUS_EACH)


@asynccontextmanager
async def signing(
    chain: MemoryAudit, clock: ManualClock
) -> AsyncGenerator[tuple[Audit, AuditHeads, MemoryStore, View]]:
    store = MemoryStore(clock)
    view = View(store, clock)
    following = asyncio.create_task(view.run())
    await view.catch_up()
    audit = await opened(chain, clock)
    alerts = Alerts(store, view, clock, NullTelemetry())
    ports = AuditPorts(chain, Ed25519Signer(bytes(32)))
    heads = AuditHeads(audit, ports, store, view, clock, alerts, keep_s=30 * DAY_S)
    await heads.open()
    try:
        yield audit, heads, store, view
    finally:
        following.cancel()
        await store.close()


async def test_heads_are_signed_after_a_minute_after_many_entries_and_at_the_end() -> None:
    chain, clock = MemoryAudit("r1"), ManualClock()
    async with signing(chain, clock) as (audit, heads, _, view):
        running = asyncio.create_task(heads.run())

        def signed() -> list[int]:
            return sorted(head.seq for head in view.kept.audit_heads.values())

        await audit.note(DONE)
        await clock.advance(SECONDS_MAX / 2)
        assert signed() == []
        await clock.advance(3.0)
        assert signed() == [1]
        await clock.advance(SECONDS_MAX * 3)
        assert signed() == [1], "nothing new is signed again"
        for _ in range(ENTRIES_MAX):
            audit.tell(DONE)
        await clock.advance(3.0)
        assert signed() == [1, ENTRIES_MAX + 1]
        running.cancel()
        await audit.note(DONE)
        await heads.close()
        await settle()
        assert signed()[-1] == ENTRIES_MAX + 2
        assert (await heads.verify("r1")).whole


async def test_a_tail_that_is_gone_at_the_start_is_recorded_and_raises_an_alert() -> None:
    chain, clock = MemoryAudit("r1"), ManualClock()
    async with signing(chain, clock) as (audit, heads, store, view):
        for _ in range(5):
            await audit.note(DONE)
        await heads.sign()
        await settle()
        (segment,) = chain.segments("r1")
        del chain.kept[segment][3:]
        audit = await opened(chain, clock)
        alerts = Alerts(store, view, clock, NullTelemetry())
        ports = AuditPorts(chain, Ed25519Signer(bytes(32)))
        heads = AuditHeads(audit, ports, store, view, clock, alerts, keep_s=DAY_S)
        await heads.open()
        await audit.settle()
        await settle()
        assert [(entry.seq, entry.operation, entry.counts) for entry in entries(chain)][-1] == (
            4, "auditShort", {"missing": 2},
        )  # fmt: skip
        assert [alert.kind for alert in view.kept.alerts.values()] == ["audit-chain"]
        found = await heads.verify("r1")
        assert (found.broken, found.missing) == (5, 1)
        # Grown over the old head's number, the chain contradicts it for good.
        for _ in range(3):
            await audit.note(DONE)
        await heads.sign()
        await settle()
        assert (await heads.verify("r1")).broken == 5


async def test_old_segments_go_whole_and_what_is_left_still_verifies() -> None:
    chain, clock = MemoryAudit("r1", segment_lines=2), ManualClock()
    async with signing(chain, clock) as (audit, heads, _, _):
        for _ in range(6):
            await audit.note(DONE)
        await heads.sign()
        assert await heads.expire() == 0
        # A day at a time: a clock that jumps removes nothing.
        for _ in range(31):
            await clock.advance(DAY_S)
        for _ in range(2):
            await audit.note(DONE)
        assert await heads.expire() == 2
        await settle()
        found = await heads.verify("r1")
        assert (found.whole, found.begins) == (True, 5)
        assert [entry.operation for entry in entries(chain)][-1] == "auditExpire"


async def test_a_clock_that_jumps_ahead_removes_nothing() -> None:
    chain, clock = MemoryAudit("r1", segment_lines=1), ManualClock()
    async with signing(chain, clock) as (audit, heads, _, _):
        for _ in range(3):
            await audit.note(DONE)
        clock.jump_wall(100 * DAY_S)
        await audit.note(DONE)
        assert await heads.expire() == 0
        assert len(entries(chain)) == 4


def test_of_old_heads_one_a_day_is_kept() -> None:
    now = 100 * DAY_S
    heads = [
        AuditHead(chain="c", seq=seq, hash="", at=now - (2000 - seq) * 3600.0) for seq in range(1, 2001)
    ]  # fmt: skip
    kept = [head for head in heads if head not in superfluous(heads, now, 30 * DAY_S)]
    assert kept[-RECENT:] == heads[-RECENT:]
    older = kept[:-RECENT]
    days = [int(head.at // DAY_S) for head in older]
    assert len(days) == len(set(days))
    assert min(days) == int((now - 30 * DAY_S) // DAY_S)
    assert superfluous(heads[:1], now + 10_000 * DAY_S, DAY_S) == []


async def test_many_who_ask_whether_all_holds_cause_one_walk() -> None:
    class Counting(MemoryAudit):
        walks = 0

        def stub(self, chain: str) -> AuditStub | None:
            self.walks += 1
            return super().stub(chain)

    chain, clock = Counting("r1"), ManualClock()
    async with signing(chain, clock) as (audit, heads, _, _):
        await audit.note(DONE)
        chain.walks = 0
        await asyncio.gather(*(heads.verify_all() for _ in range(5)))
        for _ in range(5):
            await heads.verify_all(fresh=False)
        assert chain.walks == 1
        await heads.verify_all()
        await clock.advance(60.0)
        await heads.verify_all(fresh=False)
        assert chain.walks == 3


# ---- what came after the newest head


def _rewrite(chain: MemoryAudit, seal: Seal | None = None) -> None:
    """As somebody does who can write the files: the links hold, the third entry is another."""
    (segment,) = chain.segments("r1")
    kept = chain.kept[segment]
    second = entry_of(kept[1])
    assert second is not None
    writer = ChainWriter("r1", second.seq, second.hash, second.at, seal)
    kept[2:] = [writer.line(AuditDraft(operation="getJob", outcome="ALLOW"), second.at, last=True) for _ in kept[2:]]


@pytest.mark.parametrize("seal", [None, Ed25519Signer(bytes(range(32))).seal], ids=["without", "another key"])
async def test_a_tail_that_is_rewritten_after_the_newest_head_is_found(seal: Seal | None) -> None:
    chain, clock = MemoryAudit("r1"), ManualClock()
    async with signing(chain, clock) as (audit, heads, _, _):
        await audit.note(DONE)
        await heads.sign()
        for _ in range(3):
            await audit.note(DONE)
        await settle()
        assert (await heads.verify("r1")).whole
        _rewrite(chain, seal)
        found = await heads.verify("r1")
        assert (found.broken, "no seal by the server's key" in found.why) == (2, True), found


async def test_a_tail_that_was_rewritten_while_no_server_ran_is_told_at_the_start() -> None:
    chain, clock = MemoryAudit("r1"), ManualClock()
    async with signing(chain, clock) as (audit, heads, store, view):
        await audit.note(DONE)
        await heads.sign()
        for _ in range(3):
            await audit.note(DONE)
        await settle()
        _rewrite(chain)
        again = await opened(chain, clock)
        alerts = Alerts(store, view, clock, NullTelemetry())
        ports = AuditPorts(chain, Ed25519Signer(bytes(32)))
        await AuditHeads(again, ports, store, view, clock, alerts, keep_s=DAY_S).open()
        await again.settle()
        await settle()
        assert (entries(chain)[-1].operation, entries(chain)[-1].counts) == ("auditUnsealed", {"after": 1})
        assert [alert.kind for alert in view.kept.alerts.values()] == ["audit-chain"]


async def test_a_server_that_was_killed_finds_its_own_tail_and_says_nothing() -> None:
    chain, clock = MemoryAudit("r1"), ManualClock()
    async with signing(chain, clock) as (audit, heads, store, view):
        await audit.note(DONE)
        await heads.sign()
        await asyncio.gather(*(audit.note(DONE) for _ in range(3)))
        await settle()
        again = await opened(chain, clock)
        alerts = Alerts(store, view, clock, NullTelemetry())
        ports = AuditPorts(chain, Ed25519Signer(bytes(32)))
        await AuditHeads(again, ports, store, view, clock, alerts, keep_s=DAY_S).open()
        await again.settle()
        assert len(entries(chain)) == 4
        assert not view.kept.alerts
