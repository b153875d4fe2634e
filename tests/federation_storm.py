"""A federation under load while its links are cut, frozen and slowed down, and what its ledgers say afterwards."""

import random
import threading
import time
from collections import Counter

from ares.check.federation.kept_routes import unlike_its_score
from ares.edge.client.calls import operator
from ares.edge.client.calls.answers import RefusedJob, Submitted
from ares.edge.client.errors import AresError, NotFound, TooManyRequests
from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources
from ares.model.state import TERMINAL, LedgerEvent
from tests.federation import Federation
from tests.platform import eventually, say

_TINY = Resources(cpu_milli=100, memory_mib=32)
_OWNER_KINDS = ("offered", "confirmed", "offer-over", "taken-back")


class Storm:
    """Jobs at the global plane and in clusters, some of them cancelled, while one link after another has a fault."""

    def __init__(self, fed: Federation, names: tuple[str, ...], seed: int) -> None:
        self._fed, self._names, self._seed = fed, names, seed
        self.jobs: list[str] = []
        self.local: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.faults: Counter[str] = Counter()
        self.quota = 0
        # Refused for the tenant's quota: a storm that never meets its limit shows nothing about F7.
        self.refused = 0
        self._stop = threading.Event()
        self._failures: list[BaseException] = []

    def blow(self, seconds: float, fault_s: tuple[float, float], pause_s: float) -> None:
        """Returns when every link is mended and every submission is answered."""
        load = threading.Thread(target=self._load, args=(pause_s,), daemon=True)
        load.start()
        chance, until = random.Random(self._seed), time.monotonic() + seconds
        while time.monotonic() < until:
            name, fault = chance.choice(self._names), chance.choice(("cut", "freeze", "slow"))
            wire = self._fed.wires[name]
            self.faults[fault] += 1
            if fault == "slow":
                wire.slow(chance.uniform(0.2, 1.0))
            else:
                wire.cut() if fault == "cut" else wire.freeze()
            time.sleep(chance.uniform(*fault_s))
            wire.mend()
        self._stop.set()
        load.join(60.0)
        assert not load.is_alive(), "a submission was not answered in time"
        assert not self._failures, self._failures

    def _load(self, pause_s: float) -> None:
        chance, plane = random.Random(self._seed + 1), self._fed.plane.client()
        clusters = {name: self._fed.clusters[name].client() for name in self._names}
        try:
            while not self._stop.wait(chance.uniform(0.0, pause_s)):
                # Some may run in one region only.
                name = chance.choice(self._names)
                place = (f"{name}-region",) if chance.random() < 0.2 else ()
                command = ("sleep", f"{chance.uniform(0.0, 1.0):.2f}")
                spec = JobSpec(command=command, name="storm", resources=_TINY, residency=place)
                is_local = chance.random() < 0.2
                try:
                    job = (clusters[name] if is_local else plane).submit(spec).id
                except TooManyRequests:
                    self.refused += 1
                    continue
                if is_local:
                    self.local[job] = name
                    continue
                self.jobs.append(job)
                if chance.random() < 0.1:
                    plane.cancel(job)
                    self.cancelled.add(job)
        except BaseException as error:
            self._failures.append(error)

    def limit(self, jobs: int, lend: float) -> None:
        """The tenant's quota, once every cluster has heard what it is lent of it."""
        self._fed.plane.client().set_quota("default", {"jobs": jobs, "lend": lend})
        self.quota = jobs
        for name in self._names:
            there = self._fed.clusters[name].client()
            eventually(lambda there=there: there.send(operator.uplink()).lent or None, f"quota lent to {name}")

    def _judge_quota(self, plane: Client) -> None:
        """F7: at no moment did more jobs live than the quota has, wherever they were admitted. By the ledger of the
        place that admitted each, all on one machine's clock."""
        moments: list[tuple[float, int, str]] = []
        for job in (*self.jobs, *self.local):
            there = self._fed.clusters[self.local[job]].client() if job in self.local else plane
            ledger = there.job_events(job)
            ended = [event.at for event in ledger if event.phase in TERMINAL]
            moments += [(ledger[0].at, 1, job), (min(ended), -1, job)]
        live = 0
        # An end makes room for what is admitted in the same moment.
        for _, step, job in sorted(moments):
            live += step
            assert live <= self.quota, f"F7: {job} is number {live} of {self.quota}"

    def rejoin(self, name: str, count: int) -> None:
        """A cluster that is cut off runs so many jobs of its own, beyond any quota; then it is back."""
        if self.quota:
            self._judge_quota(self._fed.plane.client())
            self._fed.plane.client().unset_quota("default")
            there = self._fed.clusters[name].client()
            eventually(lambda: not any(row.lent for row in there.send(operator.uplink()).lent) or None, "no limit")
        alone = self._fed.clusters[name].client()
        self._fed.wires[name].cut()
        spec = JobSpec(command=("true",), name="alone", resources=_TINY)
        answers = alone.submit_many([spec] * count)
        assert not [answer for answer in answers if isinstance(answer, RefusedJob)], answers[:3]
        own = [answer.id for answer in answers if isinstance(answer, Submitted)]
        for job in own:
            eventually(lambda job=job: alone.get(job).state.phase in TERMINAL or None, f"the end of {job}", 300.0)
        self._fed.wires[name].mend()
        self.local |= dict.fromkeys(own, name)

    # ---- afterwards

    def judge(self) -> None:
        """By the ledgers alone, of the global plane and of every cluster."""
        plane = self._fed.plane.client()
        jobs = (*self.jobs, *self.local)
        for job in jobs:
            eventually(lambda job=job: _is_over(plane, job) or None, f"the end of {job} (F9, F12)", 180.0)
        places = Counter(self._judged(plane, job) for job in self.jobs)
        for job, name in self.local.items():
            there = self._fed.clusters[name].client().get(job).state
            assert (plane.get(job).state.phase, there.phase) == ("SUCCEEDED", "SUCCEEDED"), f"F9: {job}"
            assert plane.get(job).state.attempt == there.attempt, f"F9: {job}"
        self._judge_healing(plane, jobs)
        if self.quota:
            self._judge_quota(plane)
            assert self.refused, "F7: the storm never met the quota"
        said = f"{len(self.jobs)} jobs {dict(places)}, {len(self.local)} local, {self.refused} beyond the quota"
        say(f"storm {self._seed}: {said}, {dict(self.faults)}")

    def _judge_healing(self, plane: Client, jobs: tuple[str, ...]) -> None:
        """What is healed once more, with nothing new on either side, changes nothing."""
        before = {job: plane.get(job).state for job in jobs}
        for name in self._names:
            last = self._fed.session(name)
            self._fed.wires[name].cut()
            self._fed.wires[name].mend()
            eventually(lambda name=name, last=last: self._fed.session(name) > last or None, f"a session of {name}")
            eventually(lambda name=name: self._fed.mode(name) == "FEDERATED" or None, f"healing of {name}")
        for job, state in before.items():
            assert plane.get(job).state == state, f"F8: {job}"

    def _judged(self, plane: Client, job: str) -> str:
        detail, ledger = plane.get(job), plane.job_events(job)
        state = detail.state
        for event in ledger:
            assert not unlike_its_score(event), f"F14: {job}: {unlike_its_score(event)}"
            allowed = detail.spec.residency
            if event.kind == "offered" and allowed:
                assert f"{event.data['cluster']}-region" in allowed, f"F13: {job} to {event.data['cluster']}"
        moves = [event for event in ledger if event.kind in _OWNER_KINDS]
        epochs = [event.data["epoch"] for event in moves]
        assert epochs == sorted(epochs), f"F1: the epochs of {job} fell: {epochs}"
        _check_moves(job, moves)
        confirmed = {event.data["cluster"] for event in moves if event.kind == "confirmed"}
        ran: list[str] = []
        for name in self._names:
            try:
                there = self._fed.clusters[name].client()
                found = there.get(job).state
            except NotFound:
                continue
            assert name in confirmed, f"F2: {job} is in {name}, and was confirmed to {confirmed or 'none'}"
            assert (found.phase in TERMINAL, found.lingering) == (True, False), f"F10: {job} is {found.phase} in {name}"
            if any(event.kind == "bound" for event in there.job_events(job)):
                ran.append(name)
                assert state.phase == "CANCELLED" or found.phase == state.phase, f"F5: {job}"
        assert len(ran) <= 1, f"F3: {job} ran in {ran}"
        expected = ("SUCCEEDED", "CANCELLED") if job in self.cancelled else ("SUCCEEDED",)
        assert state.phase in expected, f"F10: {job} is {state.phase}"
        if state.phase == "SUCCEEDED":
            assert ran == [state.owner.cluster if state.owner else ""], f"F5: {job} ran in {ran}"
            there = self._fed.clusters[ran[0]].client().get(job)
            mine, theirs = plane.get(job).result, there.result
            assert mine is not None, f"F5: {job}"
            assert theirs is not None, f"F5: {job}"
            # A slow machine may have taken an attempt for lost: then the last one counts, on both sides.
            assert (state.attempt, mine.fence) == (there.state.attempt, theirs.fence), f"F5: {job}"
        return ran[0] if ran else "nowhere"


def _is_over(plane: Client, job: str) -> bool:
    try:
        state = plane.get(job).state
    except AresError:
        return False
    return state.phase in TERMINAL and not state.lingering


def _check_moves(job: str, moves: list[LedgerEvent]) -> None:
    """Each kind follows only what it may: one owner at a time, and a confirmed one leaves by its own word alone."""
    stage = "HELD"
    follows = {"offered": "HELD", "confirmed": "OFFERED", "offer-over": "OFFERED", "taken-back": "CONFIRMED"}
    for event in moves:
        assert follows[event.kind] == stage, f"F1: {job} was {stage} when it was {event.kind}"
        stage = {"offered": "OFFERED", "confirmed": "CONFIRMED"}.get(event.kind, "HELD")
        left = event.kind == "taken-back"
        assert not left or "gave it back" in event.reason or "declined" in event.reason, f"F6: {job}: {event.reason}"
