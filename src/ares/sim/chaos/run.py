"""`ares chaos`: faults on machines of its own, canaries, a verdict; and nothing left behind."""

import secrets
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import msgspec

from ares.check.invariants.history import Commit, Effect, Ended, Event, ProcessStarted, Settings, Write
from ares.check.store.kinds import turned
from ares.edge.client.sync import Client
from ares.model.state import TERMINAL
from ares.sim.chaos.camp import OPEN, Camp
from ares.sim.chaos.canary import LABEL, Marks, read_marks
from ares.sim.chaos.judge import ChaosCase, SeenJob, judge
from ares.sim.chaos.nemesis import ChaosNemesis
from ares.sim.chaos.people import ChaosPerson, ChaosWorld
from ares.sim.chaos.plan import FAULTS, ChaosOptions, schedule
from ares.sim.chaos.record import ChaosRecorder, Stalls, now
from ares.sim.chaos.verdict import ChaosVerdict, verdict

# What to show while it runs: words, and how much of it is done.
Show = Callable[[str], None]
_LOOK_S = 0.2
_ANSWERS_S = 30.0
_SELF_FENCE = 7 / 9
_PAGE = 1000


class ChaosOutcome(msgspec.Struct, frozen=True):
    verdict: ChaosVerdict
    events: list[Event]


def intentions(options: ChaosOptions) -> list[str]:
    """What a run with these options would do."""
    camp, steps = Camp(options, "", lambda words: None), schedule(options)
    try:
        address = camp.check()
    finally:
        camp.strike()
    jobs, longest_s = options.jobs_per_s * options.duration_s, 1.5 * options.lease_s
    return [
        f"agents would reach the server at {address}",
        f"makes a token of tenant {camp.tenant}, and machines {', '.join(camp.names)}, which take its own jobs only",
        f"submits about {jobs:,.0f} canary jobs of up to {longest_s:g} s each; they are kept as long as all jobs are",
        f"breaks in {options.duration_s:g} s, by seed {options.seed}:",
        *(f"  {sum(s.kind == kind for s in steps):>5}  {fault.words}" for kind, fault in FAULTS.items()),
        "never touches the server, the store, other tenants and other machines",
        "in the end stops its processes, cancels its jobs, removes its machines and revokes its tokens",
    ]


def run(options: ChaosOptions, show: Show) -> ChaosOutcome:
    """Raises CannotRun before anything was broken. Cleans up whatever happens."""
    camp = Camp(options, secrets.token_hex(4), show)
    left: list[str] = []
    try:
        with _terminates_like_ctrl_c():
            show("starting its own agents")
            camp.pitch()
            outcome = _ChaosRun(camp, show).all()
    finally:
        with _uninterrupted(show):
            left = camp.strike()
    if not left:
        return outcome
    notes = (*outcome.verdict.notes, *(f"left behind: {what}" for what in left))
    return ChaosOutcome(msgspec.structs.replace(outcome.verdict, notes=notes), outcome.events)


class _ChaosRun:
    def __init__(self, camp: Camp, show: Show) -> None:
        self._camp = camp
        self._options = camp.options
        self._show = show
        self._recorder = ChaosRecorder()
        self._stalls = Stalls()
        self._enough, self._over = threading.Event(), threading.Event()
        self._notes: list[str] = []

    def all(self) -> ChaosOutcome:
        options, recorder = self._options, self._recorder
        recorder.add(
            Settings(
                t=now(),
                seed=options.seed,
                self_fence_s=options.lease_s * _SELF_FENCE,
                recovery_s=options.bound_s,
                liveness_s=options.liveness_s,
                machines=False,
            )
        )
        self._stalls.start()
        try:
            self._break_things()
            jobs = self._settle()
        finally:
            self._enough.set()
            self._over.set()
            self._stalls.stop()
        recorder.add(Ended(t=now(), quiet=all(_quiet(seen) for seen in jobs.values())))
        marks = read_marks(self._camp.marks)
        self._tell(jobs, marks)
        case = ChaosCase(
            options=options, jobs=jobs, marks=marks, events=recorder.events(), wall_offset=recorder.wall_offset,
            stall_s=self._stalls.longest_s, nodes=self._camp.nodes,
        )  # fmt: skip
        return ChaosOutcome(verdict(case, judge(case), self._camp.run, self._notes), case.events)

    # ---- faults and work

    def _break_things(self) -> None:
        camp, options = self._camp, self._options
        world = ChaosWorld(camp.tenant, camp.run, camp.marks, options.lease_s, self._recorder, self._enough, self._over)
        rate = options.jobs_per_s / options.people
        people = [
            ChaosPerson(f"person-{number}", camp.client(number), world, options.seed * 1000 + number, rate)
            for number in range(options.people)
        ]
        for person in people:
            person.start()
        nemesis = ChaosNemesis(camp.agents, camp.front, camp.folder, self._recorder)
        if camp.front is None:
            self._notes.append("connections of clients were not dropped: a proxy would break TLS")
        began = time.monotonic()
        steps = schedule(options)
        nemesis.run(steps, options.duration_s, lambda until_s: self._wait(began + until_s, began, people))
        self._enough.set()
        nemesis.heal()
        self._show("healed; waiting for every answer")
        deadline = time.monotonic() + _ANSWERS_S
        while time.monotonic() < deadline and not all(person.join(0.1) for person in people):
            continue
        self._over.set()
        for person in people:
            if not person.join(_ANSWERS_S):
                self._notes.append(f"{person.name} is still waiting for an answer")
            if person.failure is not None:
                raise person.failure

    def _wait(self, until: float, began: float, people: list[ChaosPerson]) -> None:
        while True:
            failed = next((person.failure for person in people if person.failure is not None), None)
            if failed is not None:
                raise failed
            left = until - time.monotonic()
            self._show(f"{time.monotonic() - began:4.0f} of {self._options.duration_s:.0f} s")
            if left <= 0:
                return
            time.sleep(min(left, 1.0))

    # ---- until all is quiet

    def _settle(self) -> dict[str, SeenJob]:
        client, label = self._camp.observer(), {LABEL: self._camp.run}
        deadline = time.monotonic() + self._options.liveness_s
        while time.monotonic() < deadline:
            states = list(client.list(label=label, page=_PAGE))
            still = [state for state in states if state.phase in OPEN or state.lingering]
            if not still:
                break
            self._show(f"waiting for {len(still)} of {len(states)} jobs to end")
            time.sleep(_LOOK_S)
        self._show("reading what became of every job")
        return {state.id: _seen(client, state.id) for state in list(client.list(label=label, page=_PAGE))}

    def _tell(self, jobs: dict[str, SeenJob], marks: Marks) -> None:
        """What jobs did, added to the history: their ledgers, and what their marks say."""
        recorder = self._recorder
        nodes: dict[tuple[str, str], str] = {}
        number = 0
        for job, seen in jobs.items():
            for entry in seen.ledger:
                number += 1
                if entry.kind == "bound":
                    nodes[job, entry.fence] = str(entry.data.get("node", ""))
                key = f"/events/{entry.tenant}/{turned(job)}/{entry.seq:010d}"
                write = Write(key, msgspec.json.encode(entry).decode(), 1)
                recorder.add(Commit(t=entry.at - recorder.wall_offset, revision=number, writes=(write,)))
        for mark in marks.attempts:
            node = nodes.get((mark.job, mark.fence), "")
            recorder.add(ProcessStarted(t=mark.beats[0], node=node, job=mark.job, fence=mark.fence))
            if len(mark.beats) > 1:
                recorder.add(Effect(t=mark.beats[-1], node=node, job=mark.job, fence=mark.fence))


def _seen(client: Client, job: str) -> SeenJob:
    return SeenJob(client.get(job), client.job_events(job))


def _quiet(seen: SeenJob) -> bool:
    return seen.detail.state.phase in TERMINAL and not seen.detail.state.lingering


# ---- interruptions


@contextmanager
def _terminates_like_ctrl_c() -> Generator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _uninterrupted(show: Show) -> Generator[None]:
    """Cleaning up takes a few seconds, and is not left half done for want of patience."""

    def patience(number: int, frame: FrameType | None) -> None:
        show("cleaning up: a moment")

    before = {ending: signal.signal(ending, patience) for ending in (signal.SIGINT, signal.SIGTERM)}
    try:
        show("cleaning up")
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
