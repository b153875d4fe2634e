"""Follows the store through its commits, and gives each commit as a change of records: before and after."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ares.check.invariants.history import Commit, Write
from ares.check.invariants.records import (
    BOUND,
    DECODERS,
    Array,
    Cron,
    Entry,
    Epoch,
    Flow,
    Leader,
    Lease,
    Machine,
    Node,
    Place,
    Profile,
    ProfileVersion,
    Request,
    Result,
    RetryBudget,
    Spec,
    State,
    TenantQuota,
    entry_of,
    job_of,
    kind_of,
    tenant_of,
)

# Entries that say of ranks, or of the whole attempt, that their processes are gone.
_GONE = frozenset({"rank-exited", "released", "requeued", "lease-lost", "resized", "succeeded", "restarted"})
# These do when the agent wrote them.
_GONE_BY_AGENT = frozenset({"failed", "retrying"})
# Entries that speak of other jobs.
_MENTIONING = frozenset({"preempted", "preempting", "resized"})


class CommittedStep:
    """The change of one job by one commit. `after` is None when its record was removed."""

    __slots__ = ("added", "after", "before", "entries", "job", "result", "wrote")

    def __init__(self, job: str, before: State | None) -> None:
        self.job = job
        self.before = self.after = before
        # Whether its record was among what was written.
        self.wrote = False
        # In the order of their numbers.
        self.entries: list[Entry] = []
        self.result: Result | None = None
        # Ranks that came to hold something.
        self.added: list[Place] = []


class CommittedChange:
    """One commit: the jobs it touched, and what else it wrote, each as (kind, name, before, after)."""

    __slots__ = ("others", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, CommittedStep] = {}
        self.others: list[tuple[str, Any, Any, Any]] = []


class LedgerBooks:
    """The store as it is after the newest commit, and what follows from its ledger."""

    def __init__(self) -> None:
        self.t = 0.0
        self.revision = 0
        # The replica that wrote the newest commit, where that is known.
        self.by = ""
        # Repeated ledger entries and records that cannot be read: time, revision, job, and a text.
        self.odd: list[tuple[float, int, str, str]] = []
        # Every job and array that ever existed, also before a restore, with its tenant.
        self.created: dict[str, str] = {}
        # Ledger entries that name another job: the job of the ledger, the other job, and the kind of entry.
        self.mentions: list[tuple[str, str, str]] = []
        self._log: list[Commit] = []
        self._takers: dict[str, Callable[[CommittedChange, Write], None]] = {
            "/state/": self._take_state,
            "/events/": self._take_entry,
            "/results/": self._take_result,
            "/requests/": self._take_request,
            "/jobs/": self._take_spec,
            "/arrays/": self._take_array,
            "/flows/": self._take_flow,
            "/retry/": self._take_retry,
            "/nodes/": self._take_node,
            "/leader/": self._take_leader,
            "/leases/": self._take_lease,
            "/profiles/": self._take_profile,
            "/quotas/": self._take_quota,
            "/crons/": self._take_cron,
            "/epoch": self._take_epoch,
        }
        self._clear()

    def _clear(self) -> None:
        self.states: dict[str, State] = {}
        self.specs: dict[str, Spec] = {}
        self.results: dict[str, Result] = {}
        self.requests: dict[tuple[str, str], Request] = {}
        self.arrays: dict[str, Array] = {}
        self.flows: dict[str, Flow] = {}
        self.nodes: dict[str, Node] = {}
        # What a node was in each incarnation.
        self.machines: dict[tuple[str, int], Machine] = {}
        self.profiles: dict[str, ProfileVersion] = {}
        # By tenant.
        self.quotas: dict[str, TenantQuota] = {}
        # By tenant and name.
        self.crons: dict[tuple[str, str], Cron] = {}
        self.leaders: dict[str, Leader] = {}
        self.leases: dict[str, Lease] = {}
        self.retries: dict[str, RetryBudget] = {}
        self.epoch = 0
        # The numbers of the entries that each job's ledger has.
        self.ledger: defaultdict[str, set[int]] = defaultdict(set)
        # By the ledger: ranks that were granted and of whose end nothing is written, by job, and by node.
        self.alive: defaultdict[str, dict[int, Place]] = defaultdict(dict)
        self.on_node: defaultdict[str, dict[tuple[str, int], Place]] = defaultdict(dict)
        # Profiles that a scheduler of this reign may go by.
        self.in_force: list[Profile] = []

    def spec_of(self, state: State) -> Spec | None:
        return self.specs.get(state.array or state.id)

    def profile(self) -> Profile:
        newest = max(self.profiles.values(), key=lambda profile: profile.version, default=None)
        return Profile() if newest is None else newest.profile

    # ---- commits

    def take(self, commit: Commit) -> CommittedChange:
        self._log.append(commit)
        self.t, self.revision, self.by = commit.t, commit.revision, commit.by
        return self._apply(commit)

    def restore(self, revision: int) -> None:
        """Goes back to the state at that revision."""
        known = len(self.odd)
        self._log = [commit for commit in self._log if commit.revision <= revision]
        self._clear()
        for commit in self._log:
            self._apply(commit)
        del self.odd[known:]

    def _apply(self, commit: Commit) -> CommittedChange:
        change = CommittedChange()
        for write in commit.writes:
            taker = self._takers.get(kind_of(write.key))
            if taker is not None:
                try:
                    taker(change, write)
                except (msgspec.MsgspecError, ValueError) as error:
                    self._note_odd(write.key, f"cannot be read: {error}")
        for step in change.steps.values():
            if len(step.entries) > 1:
                step.entries.sort(key=lambda entry: entry.seq)
            self._follow(step)
        return change

    def _note_odd(self, about: str, what: str) -> None:
        self.odd.append((self.t, self.revision, about, what))

    def _step(self, change: CommittedChange, job: str) -> CommittedStep:
        step = change.steps.get(job)
        if step is None:
            step = change.steps[job] = CommittedStep(job, self.states.get(job))
        return step

    def _take_state(self, change: CommittedChange, write: Write) -> None:
        job = job_of(write.key)
        step = self._step(change, job)
        step.wrote = True
        if write.value is None:
            step.after = None
            self.states.pop(job, None)
            return
        step.after = self.states[job] = DECODERS["/state/"](write.value)
        self.created[job] = tenant_of(write.key)

    def _take_entry(self, change: CommittedChange, write: Write) -> None:
        job, seq = entry_of(write.key)
        known = self.ledger[job]
        if write.value is None:
            known.discard(seq)
            change.others.append(("/events/", job, seq, None))
            return
        entry: Entry = DECODERS["/events/"](write.value)
        if seq in known or write.version > 1:
            self._note_odd(job, f"ledger entry {seq} was overwritten")
        if (entry.job, entry.seq) != (job, seq):
            self._note_odd(job, f"ledger entry {seq} says it is {entry.seq} of {entry.job}")
        known.add(seq)
        if entry.kind in _MENTIONING:
            self.mentions.append((entry.tenant, job, write.value))
        self._step(change, job).entries.append(entry)

    def _take_result(self, change: CommittedChange, write: Write) -> None:
        job = job_of(write.key)
        before = self.results.pop(job, None)
        after: Result | None = None
        if write.value is not None:
            after = self.results[job] = DECODERS["/results/"](write.value)
            self._step(change, job).result = after
        change.others.append(("/results/", job, before, after))

    def _take_request(self, change: CommittedChange, write: Write) -> None:
        _, _, tenant, request = write.key.split("/", 3)
        self._put(change, "/requests/", self.requests, (tenant, request), write)

    def _put(self, change: CommittedChange, kind: str, known: dict[Any, Any], name: Any, write: Write) -> None:
        before = known.pop(name, None)
        after = None
        if write.value is not None:
            after = known[name] = DECODERS[kind](write.value)
        change.others.append((kind, name, before, after))

    def _take_spec(self, change: CommittedChange, write: Write) -> None:
        self._put(change, "/jobs/", self.specs, job_of(write.key), write)

    def _take_flow(self, change: CommittedChange, write: Write) -> None:
        self._put(change, "/flows/", self.flows, job_of(write.key), write)

    def _take_array(self, change: CommittedChange, write: Write) -> None:
        array = job_of(write.key)
        self.created[array] = tenant_of(write.key)
        self._put(change, "/arrays/", self.arrays, array, write)

    def _take_retry(self, change: CommittedChange, write: Write) -> None:
        self._put(change, "/retry/", self.retries, job_of(write.key), write)

    def _take_node(self, change: CommittedChange, write: Write) -> None:
        name = write.key[len("/nodes/") :]
        self._put(change, "/nodes/", self.nodes, name, write)
        node = self.nodes.get(name)
        if node is not None:
            self.machines[name, node.incarnation] = node.info

    def _take_leader(self, change: CommittedChange, write: Write) -> None:
        self._put(change, "/leader/", self.leaders, write.key, write)
        # A new leader reads every record again before it decides anything.
        self.in_force = [self.profile()]

    def _take_lease(self, change: CommittedChange, write: Write) -> None:
        self._put(change, "/leases/", self.leases, write.key, write)

    def _take_profile(self, change: CommittedChange, write: Write) -> None:
        if not self.in_force:
            self.in_force = [self.profile()]
        self._put(change, "/profiles/", self.profiles, write.key, write)
        self.in_force.append(self.profile())

    def _take_cron(self, change: CommittedChange, write: Write) -> None:
        _, _, tenant, name = write.key.split("/", 3)
        self._put(change, "/crons/", self.crons, (tenant, name), write)

    def _take_quota(self, change: CommittedChange, write: Write) -> None:
        self._put(change, "/quotas/", self.quotas, tenant_of(write.key), write)

    def _take_epoch(self, change: CommittedChange, write: Write) -> None:
        before = self.epoch
        found: Epoch | None = None if write.value is None else DECODERS["/epoch"](write.value)
        self.epoch = 0 if found is None else found.epoch
        change.others.append(("/epoch", write.key, before, self.epoch))

    # ---- ranks that may be alive, by the ledger

    def _follow(self, step: CommittedStep) -> None:
        alive = self.alive[step.job]
        for entry in step.entries:
            if alive and (entry.kind in _GONE or (entry.kind in _GONE_BY_AGENT and entry.by.startswith("agent"))):
                for rank in _gone(entry, alive):
                    place = alive.pop(rank, None)
                    if place is not None:
                        del self.on_node[place.node][step.job, rank]
        state = step.after
        if state is None:
            for rank, place in alive.items():
                del self.on_node[place.node][step.job, rank]
            del self.alive[step.job]
        elif step.wrote and state.phase in BOUND:
            for place in state.placements:
                if place.rank not in alive and place.rank not in state.ended_ranks:
                    alive[place.rank] = place
                    self.on_node[place.node][step.job, place.rank] = place
                    step.added.append(place)


def _gone(entry: Entry, alive: dict[int, Place]) -> Iterable[int]:
    data = entry.data
    if entry.kind == "resized":
        return [loss.rank for loss in data.lost]
    if data.rank is not None:
        return (data.rank,)
    return list(alive) if data.ranks is None else data.ranks
