"""Bugs in grants: the leader's right, its view of the cluster, and the write."""
# pyright: reportPrivateUsage=false

from typing import Any

import msgspec

from ares.control.execution.transitions import JobChange, SteppedDraft, Transitions
from ares.control.scheduler.loop import SchedulerLoop
from ares.control.state.leader import Leader
from ares.control.state.view import StateEntry
from ares.core import keys
from ares.core.lifecycle import fences
from ares.core.lifecycle.inputs import Bind, Exit
from ares.core.refusal import Refusal
from ares.core.schedule import follower
from ares.core.schedule.cluster import Cluster
from ares.model.job import JobSpec
from ares.model.state import Fence, JobState, LeaderRecord
from ares.ports.store import Committed, Compare, Put, StoreError
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import Patch, replace, together

_draft, _hold = Transitions._draft, follower._hold


def uncompared(*kinds: type[Any]) -> Patch:
    """Changes with an input of these kinds are written over whatever is there."""

    def draft(
        self: Transitions,
        change: JobChange,
        entry: StateEntry | None,
        spec: JobSpec | None = None,
        now: float | None = None,
    ) -> SteppedDraft | Refusal | None:
        drafted = _draft(self, change, entry, spec, now)
        if isinstance(drafted, SteppedDraft) and any(isinstance(what, kinds) for what in change.inputs):
            return msgspec.structs.replace(drafted, compares=change.guards)
        return drafted

    return replace(Transitions, "_draft", draft)


# ---- the leader's right


def _without_leader(
    self: Transitions,
    change: JobChange,
    entry: StateEntry | None,
    spec: JobSpec | None = None,
    now: float | None = None,
) -> SteppedDraft | Refusal | None:
    guards = tuple(guard for guard in change.guards if not guard.key.startswith(keys.LEADER))
    return _draft(self, msgspec.structs.replace(change, guards=guards), entry, spec, now)


async def _all_hold(self: Transitions, change: JobChange) -> bool:
    return True


async def _take_over(self: Leader, lease: int) -> int | None:
    value = msgspec.json.encode(LeaderRecord(replica=self._replica, elected_at=self._clock.wall()))
    written = await self._store.txn([], [Put(self._key, value, lease)])
    if isinstance(written, Committed):
        kv = await self._store.get(self._key)
        return None if kv is None or kv.value != value else kv.create_revision
    return None


# ---- the view it decides from


def _count_when_running(cluster: Cluster, state: JobState, spec: JobSpec) -> None:
    """What was assigned and has not started is not counted yet."""
    if state.phase != "STAGING":
        _hold(cluster, state, spec)


async def _go_on(self: SchedulerLoop, guard: Compare) -> None:
    """As the product, but for an unsettled binding: it counts as one that was not made."""
    await self._view.catch_up()
    self._planner.changed.set()
    while True:
        await self._wait()
        try:
            await self._round(guard)
        except StoreError:
            await self._clock.sleep(0.2)
            self._planner.changed.set()


# ---- fences


def _unordered(fence: Fence, epoch: int) -> Fence:
    return Fence(epoch=max(fence.epoch, epoch), counter=(fence.counter * 5 + 3) % 16)


def _same(fence: Fence) -> Fence:
    return fence


def _old_epoch(fence: Fence, epoch: int) -> Fence:
    return Fence(epoch=fence.epoch, counter=fence.counter + 1)


MUTANTS = {
    "grant-without-cas": Mutant(
        "a binding is written without comparing the job's record",
        ("E2", "E3", "E4", "E7", "E10"),
        uncompared(Bind),
        case="late-grant",
    ),
    "grant-without-leader": Mutant(
        "a binding is written without comparing the leadership it was decided under",
        ("E14",),
        together(replace(Transitions, "_draft", _without_leader), replace(Transitions, "_guards_hold", _all_hold)),
        case="old-leader",
    ),
    "leadership-taken-over": Mutant(
        "leadership is taken whether or not somebody has it", ("E14",), replace(Leader, "_claim", _take_over)
    ),
    "quota-from-cache": Mutant(
        "room and shares are judged by a count of what runs", ("E8",), replace(follower, "_hold", _count_when_running)
    ),
    "unsettled-grant-goes-on": Mutant(
        "a binding whose outcome is unknown counts as not made, under the same leadership",
        ("E8",),
        replace(SchedulerLoop, "run", _go_on),
        case="unsettled-grant",
    ),
    "fence-not-monotonic": Mutant(
        "tokens of attempts are different, and not in order", ("E3", "E4"), replace(fences, "granted", _unordered)
    ),
    "revocation-keeps-fence": Mutant(
        "what is taken away keeps a valid fence", ("E3", "E4"), replace(fences, "revoked", _same)
    ),
    "epoch-ignored": Mutant(
        "after a restore fences go on in the old epoch",
        ("E3", "E4"),
        replace(fences, "granted", _old_epoch),
        case="restored",
    ),
    "commit-check-then-write": Mutant(
        "an attempt's end is checked, then written",
        ("E2", "E3", "E4", "E15"),
        uncompared(Exit),
        case="late-commit",
    ),
}
