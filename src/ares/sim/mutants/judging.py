"""Bugs in judging which nodes, agents and attempts are there."""
# pyright: reportPrivateUsage=false

from math import inf
from typing import Any

import msgspec

from ares.control.execution import enrolment
from ares.control.execution.renewals import Renewals
from ares.control.execution.session import AgentSession
from ares.control.execution.transitions import JobChange
from ares.control.scheduler.monitor import Monitor, _Loss
from ares.control.state.view import LeaseEntry, View
from ares.core.lifecycle import suspicion
from ares.model.link import Hello, Renewed
from ares.model.node import NodeRecord, RemovedNode
from ares.model.state import JobState, Placement
from ares.ports.clock import Clock
from ares.ports.store import KV, StoreError
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace, together

_loss, _look, _taken, _view_init, _monitor_init = (
    Monitor._loss, Monitor._look, Monitor._taken, View.__init__, Monitor.__init__,
)  # fmt: skip


async def _acknowledge_at_once(self: Renewals, session: AgentSession) -> None:
    """The agent trusts an answer that the monitor knows nothing of."""
    while True:
        await session.renew_ready.wait()
        session.renew_ready.clear()
        renewals, session.renewals = session.renewals, []
        for renewal in renewals:
            session.send(Renewed(nonce=renewal.nonce))
        try:
            revision = await self._enrolment.renew(session.enrolled, session.lease_revision, leaving=session.leaving)
        except StoreError:
            continue
        if revision is None:
            session.close("another session of this node has taken over")
            return
        session.lease_revision = revision


def _without_guard(self: Monitor, state: JobState, losses: list[_Loss]) -> JobChange:
    change = _taken(self, state, losses)
    return JobChange(change.job, change.tenant, change.inputs)


def _started_only(
    self: Monitor, ages: dict[str, float]
) -> tuple[dict[str, list[_Loss]], dict[str, JobState], dict[str, JobState]]:
    found, _, failing = _look(self, ages)
    return {job: loss for job, loss in found.items() if self._view.entries[job].state.phase != "STAGING"}, {}, failing


def _any_incarnation(
    self: Monitor, job: str, node: str, places: tuple[Placement, ...], entry: LeaseEntry | None, age: float | None
) -> _Loss | None:
    if entry is None or age is None or age < entry.lease.dead_after_s:
        return None
    return _loss(self, job, node, places, entry, age)


def _any_boot(hello: Hello, record: NodeRecord | None, removed: RemovedNode | None) -> int:
    known = 0 if record is None else record.incarnation
    return known if 0 < hello.incarnation == known else known + 1


class _WallClock:
    """A clock whose monotonic time jumps with the time of day."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.monotonic() - clock.wall()
        self.wall = clock.wall
        self.sleep = clock.sleep

    def monotonic(self) -> float:
        return self._clock.wall() + self._offset


def on_wall_clock(init: Any) -> Any:
    def by_wall_clock(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self._clock = _WallClock(self._clock)

    return by_wall_clock


async def _only_in_words(self: Renewals, session: AgentSession, lasts_s: float) -> None:
    """The agent is told of a longer lease that is nowhere written."""
    session.send(Renewed(nonce=0, dead_after_s=lasts_s))


def _by_own_timing(
    self: Monitor, job: str, node: str, places: tuple[Placement, ...], entry: LeaseEntry | None, age: float | None
) -> _Loss | None:
    """A leader that does not care what an earlier one promised."""
    if entry is not None:
        entry = LeaseEntry(
            msgspec.structs.replace(entry.lease, dead_after_s=self._timing.dead_after_s),
            entry.mod_revision,
            entry.seen_at,
            entry.heard,
        )
    return _loss(self, job, node, places, entry, age)


def _forgets_promises(self: enrolment.Enrolment, incarnation: int, lease_kv: KV | None) -> float:
    return self._dead_after_s


MUTANTS = {
    "extension-unrecorded": Mutant(
        "a server that stops gives longer leases in words only",
        ("E9", "E10"),
        replace(Renewals, "extend", _only_in_words),
        case="stopped-and-cut",
    ),
    "extension-not-honoured": Mutant(
        "the next server judges by its own timing, not by what the lease says",
        ("E9", "E10"),
        replace(Monitor, "_loss", _by_own_timing),
        case="stopped-and-cut",
    ),
    "shortened-unheard": Mutant(
        "a greeting makes the lease short before the agent has heard of it",
        ("E9", "E10"),
        replace(enrolment.Enrolment, "_promised", _forgets_promises),
        case="lost-welcome",
    ),
    "other-heartbeat": Mutant(
        "a renewal is acknowledged before it is in the record that the monitor judges",
        ("E9", "E10"),
        replace(Renewals, "run", _acknowledge_at_once),
        case="unrecorded-renewal",
    ),
    "monitor-without-guard": Mutant(
        "what a node held is taken away without comparing its lease",
        ("E9", "E10"),
        replace(Monitor, "_taken", _without_guard),
        case="blind-leader",
    ),
    "monitor-on-wall-clock": Mutant(
        "silence is measured by the time of day",
        ("E10", "E12"),
        together(
            replace(View, "__init__", on_wall_clock(_view_init)),
            replace(Monitor, "__init__", on_wall_clock(_monitor_init)),
        ),
        case="wall-jump",
    ),
    "long-dead-in-storm": Mutant(
        "a machine that has been off for long counts towards a storm",
        ("E12",),
        replace(suspicion, "LONG_GONE", inf),
        case="long-gone",
    ),
    "assigned-not-recovered": Mutant(
        "a job that was assigned and never started is left where it is",
        ("E11", "E12"),
        replace(Monitor, "_look", _started_only),
    ),
    "incarnation-ignored": Mutant(
        "what an agent held before it restarted counts as held",
        ("E11", "E12"),
        replace(Monitor, "_loss", _any_incarnation),
    ),
    "boot-ignored": Mutant(
        "an older agent of a node may register again",
        ("E9", "E10"),
        replace(enrolment, "_incarnation", _any_boot),
        case="old-hello",
    ),
}
