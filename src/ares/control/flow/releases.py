"""Queues jobs when what they wait for has happened, and ends them when it cannot. Leader only.

What is decided by is final in the records: a job that has ended stays so. The decision is written by compare-and-swap
from WAITING, and so takes effect once, whichever replica writes it, and however often it is found again. Nothing is
only in this memory: a new leader goes through all waiting jobs when it begins.

Timers are monotonic. A new leader starts every timeout anew: late is safe, early is not. A timeout is the one decision
that the records do not make final, so it is made in two steps. The first writes that the time is over; the second
judges by a view that has all that was written before that, however many jobs it waits for.
"""

import asyncio
import heapq
from collections.abc import Iterable

import structlog

from ares.control.execution.transitions import JobChange, Transitions
from ares.control.flow.flow_index import FlowIndex
from ares.control.flow.standings import ParentStandings
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import Delta, StateEntry, View
from ares.control.submit.inputs import InputVersions
from ares.core import keys
from ares.core.dataset import PREFIX
from ares.core.lifecycle.inputs import BeginDue, Input, NeedsMet, NeedsOverdue, NeedsUnmet
from ares.core.lifecycle.owners import is_away
from ares.core.lifecycle.waiting import needy
from ares.core.needs.verdict import NeedsVerdict, all_parents, judge
from ares.core.text import span
from ares.model.job import JobSpec, Need
from ares.model.state import TERMINAL, JobState
from ares.ports.clock import Clock, happens
from ares.ports.store import StoreError

log = structlog.get_logger()

_STORE_PAUSE_S = 0.5
# Until the watch has brought what this process wrote itself.
_WATCH_PAUSE_S = 0.05
# The wall clock may be set: a time to begin is looked at again at least so often.
_LOOK_EVERY_S = 30.0
# Stand in for parents: no job's id begins so.
_WHOLE = "whole "
_ENDED = "ended "


class Releases:
    """A job that is no parent and does not wait costs two lookups in empty tables."""

    def __init__(self, view: View, flows: FlowIndex, transitions: Transitions, clock: Clock) -> None:
        self._flows = flows
        self._view = view
        self._transitions = transitions
        self._clock = clock
        self._standings = ParentStandings(view)
        self._versions = InputVersions(view)
        # Of each job, array or task that is waited for, the jobs that wait for it; and the other way round.
        self._children: dict[str, dict[str, None]] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        # Waiting jobs to look at, in the order in which they became so.
        self._changed: dict[str, None] = {}
        # By the monotonic clock: when a job's needs are given up, and when any timer is to be looked at.
        self._given_up: dict[str, float] = {}
        self._timers: list[tuple[float, str]] = []
        # Jobs that stopped waiting since the timers were last gone through.
        self._left = 0
        # What is said of the jobs that wait for the same things, until other work may come in between.
        self._latest: tuple[tuple[Need, ...], str, str | None, NeedsVerdict] | None = None
        self._wake = asyncio.Event()
        self._leading = False
        view.subscribe(self._on_delta)

    def awaited(self, parent: str) -> bool:
        """Whether a waiting job goes by this job or array."""
        return parent in self._children

    # ---- following the view

    def _on_delta(self, delta: Delta) -> None:
        if not self._leading:
            return
        if delta.relisted:
            self._begin()
            return
        if self._children:
            # The view has the whole batch already: what is counted from it must not be counted along once more.
            for before, entry in delta.states:
                if entry.state.array is not None:
                    self._standings.follow(before, entry.state)
            for state in delta.removed:
                self._standings.follow(state, None)
        for before, entry in delta.states:
            self._follow(before, entry.state)
        for state in delta.removed if self._children else ():
            self._tell_children(state)
        for flow in delta.flows:
            self._tell(_WHOLE + flow)
        if keys.DATASETS in delta.kept:
            for data in [parent for parent in self._children if parent.startswith(PREFIX)]:
                self._tell(data)

    def _follow(self, before: JobState | None, state: JobState) -> None:
        if state.phase == "WAITING" and not is_away(state):
            self._watch(state)
        elif before is not None and before.phase == "WAITING":
            self._unwatch(state.id)
        if self._children and (before is None or before.phase != state.phase or before.checkpoint != state.checkpoint):
            self._tell_children(state)

    def _tell_children(self, state: JobState) -> None:
        """All that wait for it, or for the array it is a task of, are looked at."""
        self._tell(state.id)
        if state.array is not None:
            self._tell(state.array)
        if state.flow is not None and state.phase in TERMINAL and not self._flows.others_open(state.flow):
            self._tell(_ENDED + state.flow)

    def _tell(self, parent: str) -> None:
        children = self._children.get(parent)
        if children:
            self._changed.update(children)
            self._wake.set()

    def _watch(self, state: JobState) -> None:
        spec = self._view.spec(state)
        if spec is None:
            return
        if state.id not in self._parents:
            waits = needy(spec, state)
            parents = tuple(dict.fromkeys(all_parents(spec, state.index))) if waits else ()
            if waits and state.flow is not None:
                parents += self._in_flow(state, state.flow)
            self._parents[state.id] = parents
            for parent in parents:
                self._children.setdefault(parent, {})[state.id] = None
                self._standings.keep(parent)
            if waits and spec.needs_timeout is not None:
                self._given_up[state.id] = self._clock.monotonic() + spec.needs_timeout.after_s
                self._arm(self._given_up[state.id], state.id)
        if spec.begin_at is not None:
            left_s = max(0.0, spec.begin_at - self._clock.wall())
            self._arm(self._clock.monotonic() + min(left_s, _LOOK_EVERY_S), state.id)
        if not self._is_early(state):
            self._changed[state.id] = None
            self._wake.set()

    def _is_early(self, state: JobState) -> bool:
        """Whether it certainly goes on to wait: its workflow is not whole yet, or all that it waits for waits itself.
        It is told of either's end. Most jobs of a workflow are so when they come, and cost no more than this."""
        parents = self._parents.get(state.id)
        if not parents or state.needs_met or state.id in self._given_up:
            return False
        flow = None if state.flow is None else self._view.kept.flows.get(state.flow)
        if state.flow is not None and (flow is None or not flow.whole):
            return flow is None or not flow.abandoned
        entries = self._view.entries
        jobs = parents if state.flow is None else parents[: -len(self._in_flow(state, state.flow))]
        return bool(jobs) and all(job in entries and entries[job].state.phase == "WAITING" for job in jobs)

    def _unwatch(self, job: str) -> None:
        self._changed.pop(job, None)
        self._given_up.pop(job, None)
        for parent in self._parents.pop(job, ()):
            children = self._children.get(parent)
            if children is not None and children.pop(job, job) is None and not children:
                del self._children[parent]
                self._standings.forget(parent)
        self._left += 1
        if 2 * self._left > len(self._timers):
            # A timeout may be due in a month: what nothing waits for any more is not kept until then.
            self._timers = [timer for timer in self._timers if timer[1] in self._parents]
            heapq.heapify(self._timers)
            self._left = 0

    def _arm(self, due: float, job: str) -> None:
        heapq.heappush(self._timers, (due, job))
        self._wake.set()

    # ---- leading

    def _begin(self) -> None:
        """All that waits is looked at. Timeouts that run go on."""
        given_up = self._given_up
        self._clear()
        for jobs in self._view.live.values():
            for job in jobs:
                state = self._view.entries[job].state
                if state.phase == "WAITING" and not is_away(state):
                    self._watch(state)
        for job in self._given_up.keys() & given_up.keys():
            self._given_up[job] = min(self._given_up[job], given_up[job])
            self._arm(self._given_up[job], job)

    def _clear(self) -> None:
        self._children, self._parents, self._changed = {}, {}, {}
        self._given_up, self._timers, self._left = {}, [], 0
        self._standings.clear()

    async def run(self) -> None:
        self._leading = True
        try:
            self._begin()
            while True:
                await self._sleep()
                self._take_due()
                await self._decide(tuple(self._changed))
        finally:
            self._leading = False
            self._clear()

    async def _sleep(self) -> None:
        self._wake.clear()
        if self._changed:
            return
        if not self._timers:
            await self._wake.wait()
            return
        wait_s = self._timers[0][0] - self._clock.monotonic()
        if wait_s > 0:
            await happens(self._wake, self._clock, wait_s)

    def _take_due(self) -> None:
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, job = heapq.heappop(self._timers)
            if job in self._parents:
                self._changed[job] = None

    async def _decide(self, jobs: Iterable[str]) -> None:
        changes: list[JobChange] = []
        self._latest = None
        for place, job in enumerate(jobs):
            if place and place % WORKED_ON == 0:
                await breathe()
                self._latest = None
            self._changed.pop(job, None)
            entry = self._view.entries.get(job)
            what = None if entry is None else self._due(entry)
            if entry is not None and what is not None:
                changes.append(JobChange(job, entry.state.tenant, (what,)))
        if not changes:
            return
        try:
            await self._transitions.apply(changes)
        except StoreError as error:
            log.warning("release.delayed", count=len(changes), error=str(error))
            await self._clock.sleep(_STORE_PAUSE_S)
            self._changed.update((change.job, None) for change in changes if change.job in self._parents)

    def _due(self, entry: StateEntry) -> Input | None:
        """What is to happen to the waiting job now."""
        state = entry.state
        spec = self._view.spec(state) if state.phase == "WAITING" else None
        if spec is None:
            return None
        if (found := self._as_before(state, spec)) is not None:
            return self._needs(entry, spec, found)
        if self._is_early(state):
            return None
        if not needy(spec, state):
            return self._time(state, spec)
        flow = None if state.flow is None else self._view.kept.flows.get(state.flow)
        if flow is not None and flow.abandoned:
            return NeedsUnmet(reason="its workflow was not accepted: the submission broke off", then="skip")
        if state.flow is not None and (flow is None or not flow.whole):
            return None
        found = judge(spec, state.index, self._standings.seen_by(state.tenant))
        if state.flow is not None and spec.finally_ and found.verdict == "met":
            found = self._last(state.flow)
        elif state.index is None and found.verdict == "met":
            self._latest = spec.needs, state.tenant, state.flow, found
        return self._needs(entry, spec, found)

    def _as_before(self, state: JobState, spec: JobSpec) -> NeedsVerdict | None:
        """That all has happened, where that was just found of a job that waits for the same: of a fan-out, all but the
        first."""
        if self._latest is None or not needy(spec, state) or spec.finally_ or state.index is not None:
            return None
        needs, tenant, flow, found = self._latest
        return found if (tenant, flow) == (state.tenant, state.flow) and needs == spec.needs else None

    def _last(self, flow: str) -> NeedsVerdict:
        """Whether all jobs but those that wait for that have ended."""
        left = self._flows.others_open(flow)
        if left:
            return NeedsVerdict("open", f"it waits for the other {left} jobs of its workflow to end")
        return NeedsVerdict("met", "all other jobs of its workflow have ended")

    @staticmethod
    def _in_flow(state: JobState, flow: str) -> tuple[str, ...]:
        """What it goes by besides jobs: that its workflow is whole, and for a last job that the others have ended."""
        return (_WHOLE + flow, _ENDED + flow) if state.is_finally else (_WHOLE + flow,)

    def _needs(self, entry: StateEntry, spec: JobSpec, found: NeedsVerdict) -> Input | None:
        if found.verdict == "met":
            given = self._versions.now(entry.state.tenant, spec) if spec.inputs else ()
            # Data that was removed a moment ago is waited for again.
            return None if given is None else NeedsMet(reason=found.message, inputs=given)
        if found.verdict == "impossible":
            return NeedsUnmet(reason=found.message, then=spec.on_impossible)
        timeout, until, now = spec.needs_timeout, self._given_up.get(entry.state.id), self._clock.monotonic()
        if timeout is None or until is None:
            return None
        reason = f"{found.message}, for {span(timeout.after_s)} by now"
        if not entry.state.needs_overdue:
            return None if now < until else NeedsOverdue(reason=reason)
        if self._view.revision < entry.mod_revision:
            # What was written before the time was over may not be here yet.
            self._arm(now + _WATCH_PAUSE_S, entry.state.id)
            return None
        return NeedsUnmet(reason=reason, then=timeout.then)

    def _time(self, state: JobState, spec: JobSpec) -> Input | None:
        if state.held_by or spec.begin_at is None:
            return None
        left_s = spec.begin_at - self._clock.wall()
        if left_s <= 0:
            return BeginDue()
        self._arm(self._clock.monotonic() + min(left_s, _LOOK_EVERY_S), state.id)
        return None
