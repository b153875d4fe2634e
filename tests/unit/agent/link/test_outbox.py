"""Reports go out in order, again after a reconnect, until they are acknowledged."""

import msgspec

from ares.agent.link.mailbox import Mailbox
from ares.agent.link.outbox import Outbox
from ares.model.link import AgentFrame, AttemptRef, Exited, Fenced
from ares.model.state import ExitInfo, Fence


def fill(outbox: Outbox, count: int) -> list[Fenced]:
    ref = AttemptRef(job="j", tenant="t", fence=Fence())
    reports = [Fenced(number=outbox.number(), ref=ref, rank=rank, reason="") for rank in range(count)]
    for report in reports:
        outbox.add(report)
    return reports


def test_each_is_sent_once_per_session_in_order() -> None:
    outbox = Outbox()
    reports = fill(outbox, 5)
    assert outbox.take(2, 1, lambda _: True) == reports[:2]
    assert outbox.take(10, 1, lambda _: True) == reports[2:]
    assert outbox.take(10, 1, lambda _: True) == []
    assert outbox.settle([reports[1].number, 999]) == [reports[1]]
    outbox.rewind()
    assert outbox.take(10, 1, lambda _: True) == [reports[0], *reports[2:]]


def test_one_that_has_to_wait_holds_nobody_up() -> None:
    outbox = Outbox()
    reports = fill(outbox, 3)
    assert outbox.take(10, 1, lambda report: report.rank != 0) == reports[1:]
    assert outbox.take(10, 1, lambda _: True) == reports[:1]


def test_what_was_settled_is_never_sent_again() -> None:
    outbox = Outbox()
    (report,) = fill(outbox, 1)
    outbox.settle([report.number])
    outbox.resend(report.number)
    outbox.rewind()
    assert outbox.take(10, 1, lambda _: True) == []
    assert len(outbox) == 0


STREAM_BYTES_MAX = 16 * 1024 * 1024


def test_large_results_are_spread_over_frames_that_the_stream_can_carry() -> None:
    mailbox = Mailbox()
    ref = AttemptRef(job="j", tenant="t", fence=Fence())
    value = b'"' + b"x" * (64 * 1024 - 2) + b'"'
    for rank in range(300):
        number = mailbox.outbox.number()
        mailbox.report(Exited(number=number, ref=ref, rank=rank, exit=ExitInfo(code=0), at=0.0, value=value))
    frames = list[AgentFrame]()
    while (frame := mailbox.frame()) is not None:
        frames.append(frame)
    assert [m.rank for frame in frames for m in frame.messages if isinstance(m, Exited)] == list(range(300))
    assert max(len(msgspec.msgpack.encode(frame)) for frame in frames) < STREAM_BYTES_MAX
