"""A start that was never acted on is reported so that a job which may start only once is placed again."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares.agent.attempts.attempts import Attempts
from ares.agent.attempts.workspace import Workspace
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.run_right import RunRight
from ares.agent.settings import AgentSettings
from ares.agent.transfer.transfers import Transfers
from ares.model.job import JobSpec
from ares.model.link import AttemptRef, Exited, Fenced, Start
from ares.model.node import NodeInfo
from ares.model.state import Fence, Placement
from ares.ports.executor import CannotStart
from tests.clocks import ManualClock, settle

INFO = NodeInfo(name="n1", cpu_milli=1000, memory_mib=1024)


class Late:
    """An executor whose slots find that the right to run is over."""

    starts = 0
    answer = CannotStart("too late", expired=True)

    async def start(self, _: object) -> CannotStart:
        self.starts += 1
        return self.answer


class Node:
    def __init__(self, folder: Path, *, right: bool) -> None:
        self.clock, self.executor, self.reports = ManualClock(), Late(), list[Any]()
        mailbox, run_right, workspace = Mailbox(), RunRight(self.clock), Workspace(folder)
        mailbox.report = self.reports.append  # type: ignore[method-assign]
        if right:
            run_right.deadline = lambda _: self.clock.monotonic() + 7  # type: ignore[method-assign]
        workspace.clear()
        self.attempts = Attempts(
            info=INFO,
            executor=self.executor,  # type: ignore[arg-type]
            clock=self.clock,
            run_right=run_right,
            mailbox=mailbox,
            workspace=workspace,
            settings=AgentSettings(),
            transfers=Transfers(self.clock),
        )
        self.attempts.incarnation = 1


def leaves(node: Node, start: Start) -> None:
    node.attempts.leaving = True
    node.attempts.begin(start)


def leaves_while_held(node: Node, start: Start) -> None:
    node.attempts.begin(start)
    assert not node.reports
    node.attempts.stop_all(1.0, "the agent is shutting down")


def is_too_late(node: Node, start: Start) -> None:
    node.attempts.begin(start)
    # Ordered while the slot has not answered yet.
    node.attempts.stop_all(1.0, "the agent is shutting down")


@pytest.mark.parametrize(("happens", "right"), [(leaves, True), (leaves_while_held, False), (is_too_late, True)])
@pytest.mark.parametrize(
    ("options", "kind"), [({"effects": "unsafe"}, Exited), ({"restart": "never"}, Exited), ({}, Fenced)]
)
async def test_what_never_ran_is_said_to_have_never_run(
    tmp_path: Path, happens: Callable[[Node, Start], None], right: bool, options: dict[str, Any], kind: type
) -> None:
    node = Node(tmp_path, right=right)
    start = Start(
        ref=AttemptRef(job="j", tenant="t", fence=Fence(counter=1)),
        attempt=1,
        spec=JobSpec(command=("true",), **options),
        placement=Placement(node="n1", incarnation=1, cpu_milli=1, memory_mib=1),
    )
    happens(node, start)
    await settle()
    (report,) = node.reports
    assert type(report) is kind
    if isinstance(report, Exited):
        assert report.exit.failure == "staging"
        # Whatever is said next, it may not start here any more: its job is being placed elsewhere.
        node.attempts.leaving, before = False, node.executor.starts
        node.attempts.begin(start)
        await settle()
        assert (node.executor.starts, node.attempts._held) == (before, {})
    await asyncio.gather(*node.attempts._removals)


async def test_what_may_have_run_is_never_said_to_have_not(tmp_path: Path) -> None:
    node = Node(tmp_path, right=True)
    node.executor.answer = CannotStart("the slot ended and did not say", uncertain=True)
    node.attempts.begin(
        Start(
            ref=AttemptRef(job="j", tenant="t", fence=Fence(counter=1)),
            attempt=1,
            spec=JobSpec(command=("true",), effects="unsafe"),
            placement=Placement(node="n1", incarnation=1, cpu_milli=1, memory_mib=1),
        )
    )
    await settle()
    (report,) = node.reports
    assert type(report) is Fenced
    await asyncio.gather(*node.attempts._removals)
