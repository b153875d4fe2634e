"""Histories made by hand: a small platform of plain records that does whatever a test wants, also what is forbidden."""

from typing import Any, Self

import msgspec

from ares.check.invariants.history import (
    Answered,
    Asked,
    Back,
    Commit,
    Effect,
    Ended,
    Event,
    Fault,
    Frozen,
    Healed,
    LogSeen,
    Lost,
    ProcessEnded,
    ProcessStarted,
    Restored,
    Settings,
    Verb,
    Woken,
    Write,
    digest_of,
)

Record = dict[str, Any]
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN", "SKIPPED")


def fence_text(fence: Record) -> str:
    return f"{fence['epoch']}.{fence['counter']}"


def raised(fence: Record, by: int = 1) -> Record:
    return {**fence, "counter": fence["counter"] + by}


class Forge:
    """Begins with a leader and two nodes of 4 CPUs, 4096 MiB and two GPUs each."""

    def __init__(self, **settings: Any) -> None:
        self.t = 0.0
        self.revision = 0
        self.events: list[Event] = [Settings(t=0.0, **settings)]
        self.states: dict[str, Record] = {}
        self._versions: dict[str, int] = {}
        self._ops = 0
        self.commit(("/epoch", {"epoch": 1, "id": "a"}))
        self.lead("r1")
        for node in ("n1", "n2"):
            self.node(node)

    def after(self, seconds: float) -> Self:
        self.t += seconds
        return self

    # ---- the store

    def commit(self, *rows: tuple[str, Record | None], by: str = "") -> None:
        self.after(0.1)
        self.revision += 1
        writes = tuple(self._write(key, value) for key, value in rows)
        self.events.append(Commit(t=self.t, revision=self.revision, writes=writes, by=by))

    def _write(self, key: str, value: Record | None) -> Write:
        if value is None:
            self._versions.pop(key, None)
            return Write(key, None)
        self._versions[key] = self._versions.get(key, 0) + 1
        return Write(key, msgspec.json.encode(value).decode(), self._versions[key])

    def lead(self, replica: str | None) -> None:
        self.commit(("/leader/main", None if replica is None else {"replica": replica}))

    def node(self, name: str, incarnation: int = 1, **info: Any) -> None:
        machine = {"name": name, "cpuMilli": 4000, "memoryMib": 4096, "gpus": [{"index": 0}, {"index": 1}], **info}
        self.commit((f"/nodes/{name}", {"info": machine, "incarnation": incarnation}))

    def profile(self, version: int, **profile: Any) -> None:
        self.commit((f"/profiles/{version:010d}", {"version": version, "profile": profile}))

    def quota(self, *, threshold: float = 0.9, **hard: float) -> None:
        amounts = {name: {"hard": most} for name, most in hard.items()}
        quota: Record = {"own": {"amounts": amounts}, "threshold": threshold}
        self.commit(("/quotas/alpha", {"tenant": "alpha", "quota": quota}))

    def moment(self) -> tuple[int, dict[str, Record], dict[str, int]]:
        """To be restored to."""
        return self.revision, dict(self.states), dict(self._versions)

    def restore(self, moment: tuple[int, dict[str, Record], dict[str, int]]) -> None:
        self.after(1.0)
        then, self.states, self._versions = moment
        self.events.append(Restored(t=self.t, revision=then))

    # ---- people

    def ask(self, verb: Verb, client: str = "c1", **details: Any) -> int:
        self._ops += 1
        details = {"tenant": "alpha", **details}
        self.events.append(Asked(t=self.t, op=self._ops, client=client, verb=verb, **details))
        return self._ops

    def answer(self, op: int, outcome: Any = "ok", **details: Any) -> None:
        self.after(0.05)
        self.events.append(Answered(t=self.t, op=op, outcome=outcome, **details))

    def get(self, job: str, client: str = "c1", **shown: Any) -> None:
        state = self.states[job]
        op = self.ask("get", client, job=job)
        self.answer(op, job=job, **{"phase": state["phase"], "seq": state["seq"], **shown})

    def show(self, job: str, value: Any, verb: Verb = "result", **files: str) -> None:
        op = self.ask(verb, job=job)
        self.answer(op, job=job, seen={**({"": digest_of(value)} if verb == "result" else {}), **files})

    # ---- a job's way

    def submit(self, job: str, request: str | None = None, *, tenant: str = "alpha", **spec: Any) -> None:
        op = self.ask("submit", tenant=tenant, request=request or "", payload="p")
        self.create(job, request, tenant=tenant, **spec)
        self.answer(op, job=job)

    def create(self, job: str, request: str | None = None, *, tenant: str = "alpha", **spec: Any) -> None:
        state = self._newborn(job, tenant)
        rows: list[tuple[str, Record | None]] = [(f"/jobs/{tenant}/{job}", {"command": ["true"], **spec})]
        if request is not None:
            state["requestId"] = request
            rows.append((f"/requests/{tenant}/{request}", {"job": job, "payloadSha256": "p"}))
        self.commit(*rows, *self._stepped(state, ("submitted",), {}))

    def _newborn(self, job: str, tenant: str) -> Record:
        fence = {"epoch": 1, "counter": 0}
        self.states[job] = {
            "id": job, "tenant": tenant, "name": "job", "phase": "PENDING", "seq": 0, "fence": fence, "attempt": 0,
            "submittedBy": "token",
        }  # fmt: skip
        return self.states[job]

    def wait(self, job: str, state: Record | None = None, **spec: Any) -> None:
        """A job that waits for others."""
        born = {**self._newborn(job, "alpha"), "phase": "WAITING", **(state or {})}
        self.commit((f"/jobs/alpha/{job}", {"command": ["true"], **spec}), *self._stepped(born, ("submitted",), {}))

    def ready(self, job: str, **state: Any) -> None:
        self.step(job, "ready", **{"phase": "PENDING", "needsMet": True, **state})

    def overdue(self, job: str) -> None:
        self.step(job, "overdue", phase="WAITING")

    def unmet(self, job: str) -> None:
        self.step(job, "unmet", phase="SKIPPED")

    def flow(self, flow: str, *, whole: bool) -> None:
        self.commit((f"/flows/alpha/{flow}", {"id": flow, "tenant": "alpha", "jobs": 2, "whole": whole}))

    def array(self, array: str, tasks: int, made: int | None = None) -> None:
        op = self.ask("submit")
        record: Record = {"id": array, "tenant": "alpha", "tasks": tasks}
        self.commit((f"/jobs/alpha/{array}", {"command": ["true"]}), (f"/arrays/alpha/{array}", record))
        for index in range(tasks if made is None else made):
            state = {**self._newborn(f"{array}_{index}", "alpha"), "array": array}
            self.commit(*self._stepped(state, ("submitted",), {}))
        self.commit((f"/arrays/alpha/{array}", {**record, "expanded": True}))
        self.answer(op, job=array)

    def _stepped(
        self, state: Record, kinds: tuple[str, ...], said: Record, result: Record | None = None
    ) -> list[tuple[str, Record | None]]:
        job, tenant = state["id"], state["tenant"]
        seq = state["seq"]
        state = self.states[job] = {**state, "seq": seq + len(kinds)}
        entry = {"job": job, "tenant": tenant, "phase": state["phase"], "attempt": state["attempt"]}
        entry |= {"fence": fence_text(state["fence"]), "by": "controller", **said}
        rows: list[tuple[str, Record | None]] = [
            (f"/events/{tenant}/{job}/{n:010d}", {**entry, "seq": n, "kind": kind})
            for n, kind in enumerate(kinds, start=seq + 1)
        ]
        if result is not None:
            rows.append((f"/results/{tenant}/{job}", result))
        return [*rows, (f"/state/{tenant}/{job}", state)]

    def step(
        self,
        job: str,
        *kinds: str,
        said: Record | None = None,
        result: Record | None = None,
        by: str = "",
        **state: Any,
    ) -> None:
        """One commit: these entries, which say `said`, and the job's record with `state` changed."""
        self.commit(*self._stepped({**self.states[job], **state}, kinds, said or {}, result), by=by)

    def bind(self, job: str, *nodes: str, by: str = "r1", fence: Record | None = None, **place: Any) -> None:
        fence = fence or raised(self.states[job]["fence"])
        usual = {"incarnation": 1, "cpuMilli": 1000, "memoryMib": 64, **place}
        places = [{"node": node, "rank": rank, **usual} for rank, node in enumerate(nodes)]
        attempt = self.states[job]["attempt"] + 1
        changes = {"attempt": attempt, "fence": fence, "placements": places, "startedRanks": [], "endedRanks": []}
        self.step(job, "bound", said={"by": "scheduler"}, by=by, phase="STAGING", **changes)

    def run(self, job: str, **inputs: str) -> None:
        """Its processes start and say so."""
        places = self.states[job]["placements"]
        for place in places:
            self.process(job, place["rank"], **inputs)
        if len(places) == 1:
            self.step(job, "started", phase="RUNNING")
            return
        for place in places:
            done = [*self.states[job]["startedRanks"], place["rank"]]
            last = len(done) == len(places)
            kinds = ("rank-started", "started") if last else ("rank-started",)
            phase = "RUNNING" if last else "STAGING"
            self.step(job, *kinds, said={"data": {"rank": place["rank"]}}, phase=phase, startedRanks=done)

    def succeed(self, job: str, value: Any = None, outputs: Any = (), **result: Any) -> None:
        state = self.states[job]
        fence = fence_text(state["fence"])
        for place in state["placements"]:
            self.end(job, place["rank"], "exit 0")
        for place in state["placements"][:-1]:
            ended = [*state["endedRanks"], place["rank"]]
            self.step(job, "rank-exited", said={"data": {"rank": place["rank"]}}, endedRanks=ended)
            state = self.states[job]
        made = {"job": job, "fence": state["fence"], "exit": {}, "value": value, "outputs": list(outputs), **result}
        said = {"by": "agent n1", "fence": fence, "data": {"rank": state["placements"][-1]["rank"]}}
        self.step(job, "succeeded", said=said, result=made, phase="SUCCEEDED", endedRanks=[])

    def fail(self, job: str, failure: str = "exit", **changes: Any) -> None:
        """Its attempt fails and is to be repeated."""
        state = self.states[job]
        for place in state["placements"]:
            self.end(job, place["rank"], "exit 1")
        self._retry(job, ("retrying",), failure, "agent n1", changes)

    def lose(self, job: str, **changes: Any) -> None:
        self._retry(job, ("lease-lost", "retrying"), "node-lost", "controller", changes)

    def _retry(self, job: str, kinds: tuple[str, ...], failure: str, by: str, changes: Record) -> None:
        state = self.states[job]
        used = {**state.get("retries", {}), failure: state.get("retries", {}).get(failure, 0) + 1}
        said = {"by": by, "fence": fence_text(state["fence"]), "data": {"failure": failure}}
        usual = {"phase": "RETRYING", "fence": raised(state["fence"]), "placements": [], "retries": used}
        self.step(job, *kinds, said=said, **{**usual, **changes})

    def requeue(self, job: str) -> None:
        self.step(job, "requeued", phase="PENDING")

    def cancel(self, job: str, **changes: Any) -> None:
        state = self.states[job]
        op = self.ask("cancel", job=job)
        holds = state["phase"] in ("STAGING", "RUNNING")
        usual = {"phase": "CANCELLED", "fence": raised(state["fence"]), "lingering": holds}
        self.step(job, "cancelled", said={"by": "token"}, **{**usual, **changes})
        self.answer(op, job=job, phase="CANCELLED")

    def preempt(self, job: str, rule: str) -> None:
        """It leaves, and waits again."""
        state = self.states[job]
        fence = fence_text(state["fence"])
        said = {"by": "scheduler", "fence": fence, "data": {"rule": rule}}
        self.step(job, "preempted", said=said, phase="PREEMPTED", fence=raised(state["fence"]), lingering=True)
        self.end(job, fence=fence)
        self.step(job, "requeued", said={"by": "agent n1"}, phase="PENDING", lingering=False, placements=[])

    def cron(self, *jobs: str, **more: Any) -> None:
        """A schedule that has made these jobs, one each hour."""
        history = [{"at": 3600.0 * (n + 1), "outcome": "fired", "job": job} for n, job in enumerate(jobs)]
        record = {"tenant": "alpha", "name": "often", "history": history, **more}
        self.commit(("/crons/alpha/often", record))

    def update(self, job: str, **resources: int) -> None:
        """From now on it asks for this, and in all else for what every job does."""
        number = self.states[job].get("updates", 0) + 1
        self.step(job, "updated", said={"by": "token"}, update={"resources": resources}, updates=number)

    def release(self, job: str) -> None:
        said = {"by": "agent n1", "fence": fence_text(raised(self.states[job]["fence"], -1))}
        self.step(job, "released", said=said, lingering=False)

    def forget(self, job: str) -> None:
        state = self.states.pop(job)
        tenant = state["tenant"]
        keys = [f"/state/{tenant}/{job}", f"/jobs/{tenant}/{job}", f"/results/{tenant}/{job}"]
        keys += [f"/events/{tenant}/{job}/{seq:010d}" for seq in range(1, state["seq"] + 1)]
        keys += [f"/requests/{tenant}/{state['requestId']}"] if "requestId" in state else []
        self.commit(*((key, None) for key in keys if key in self._versions))

    # ---- machines and faults

    def process(
        self, job: str, rank: int = 0, fence: str = "", node: str = "", resumed: str = "", **inputs: str
    ) -> None:
        """`inputs`: what it finds, by the input's name."""
        self._machine(ProcessStarted, job, rank, fence, node, resumed=resumed, inputs=inputs)

    def effect(self, job: str, rank: int = 0, fence: str = "", node: str = "") -> None:
        self._machine(Effect, job, rank, fence, node)

    def end(self, job: str, rank: int = 0, how: str = "killed", fence: str = "", node: str = "") -> None:
        self._machine(ProcessEnded, job, rank, fence, node, how=how)

    def _machine(self, kind: Any, job: str, rank: int, fence: str, node: str, **more: Any) -> None:
        state = self.states[job]
        node = node or next((place["node"] for place in state["placements"] if place["rank"] == rank), "n1")
        fence = fence or fence_text(state["fence"])
        self.events.append(kind(t=self.t, node=node, job=job, fence=fence, rank=rank, **more))

    def save(self, job: str, seq: int, fence: str = "", sha256: str = "") -> None:
        """A checkpoint is accepted."""
        epoch, _, counter = (fence or fence_text(self.states[job]["fence"])).partition(".")
        saved = {"fence": {"epoch": int(epoch), "counter": int(counter)}, "seq": seq, "manifest": sha256 or f"d{seq}"}
        self.step(job, "checkpointed", said={"fence": f"{epoch}.{counter}"}, checkpoint=saved)

    def fault(self, kind: str, who: str, *, over: bool = False) -> None:
        self.events.append(Fault(t=self.t, kind=kind, who=who, over=over))

    def freeze(self, who: str) -> None:
        self.events.append(Frozen(t=self.t, who=who))

    def wake(self, who: str) -> None:
        self.events.append(Woken(t=self.t, who=who))

    def lost(self, node: str) -> None:
        self.events.append(Lost(t=self.t, node=node))

    def back(self, node: str) -> None:
        self.events.append(Back(t=self.t, node=node))

    def heal(self) -> None:
        self.events.append(Healed(t=self.t))

    def close(self, *, quiet: bool | None = None) -> list[Event]:
        """The history. By default it ends quietly if every job has ended."""
        done = all(state["phase"] in ENDED and not state.get("lingering") for state in self.states.values())
        self.events.append(Ended(t=self.after(1.0).t, quiet=done if quiet is None else quiet))
        return self.events


def legal() -> Forge:
    """A bit of everything, as it should be."""
    forge = Forge()
    forge.profile(1, shares={"alpha": {"hard": {"cpu": 6000}, "soft": {"cpu": 500}}, "beta": {"soft": {"cpu": 1000}}})
    forge.submit("j1", "q1")
    forge.bind("j1", "n1")
    forge.run("j1")
    forge.effect("j1")
    forge.get("j1")
    forge.wait("k1", {"phase": "PENDING", "childOf": {"job": "j1", "call": 1, "fence": {"epoch": 1, "counter": 1}}})
    forge.cancel("k1")
    forge.submit("j2", "q2")
    forge.bind("j2", "n2")
    forge.run("j2")
    forge.save("j2", 1)
    forge.succeed("j1", {"fence": "1.1"}, [{"path": "a", "size": 1, "sha256": "d1"}])
    forge.get("j1")
    forge.show("j1", {"fence": "1.1"})
    forge.show("j1", None, "outputs", a="d1")
    forge.lost("n2")
    forge.after(7.0).end("j2", how="expired")
    forge.after(2.0).lose("j2")
    forge.back("n2")
    forge.after(0.5).requeue("j2")
    forge.bind("j2", "n1")
    forge.process("j2", resumed="1.1/1/d1")
    forge.step("j2", "started", phase="RUNNING")
    forge.submit("j3", "q3", graceS=2.0, inputs=[{"name": "rows", "from": "ares://datasets/rows@sha256:aa"}])
    forge.bind("j3", "n2", cpuMilli=4000)
    forge.run("j3", rows="aa")
    forge.cancel("j3")
    forge.after(1.0).end("j3", fence="1.1")
    forge.release("j3")
    forge.succeed("j2")
    forge.submit("g1", "q4", gang={"ranks": 2})
    forge.bind("g1", "n1", "n2")
    forge.run("g1")
    forge.after(1.0).fail("g1")
    forge.requeue("g1")
    forge.bind("g1", "n1", "n2")
    forge.run("g1")
    forge.succeed("g1")
    forge.array("a1", 2)
    for index in range(2):
        forge.bind(f"a1_{index}", "n1")
        forge.run(f"a1_{index}")
        forge.succeed(f"a1_{index}")
    forge.wait("w1", needs=[{"job": "j1"}, {"job": "a1", "on": "end"}])
    forge.ready("w1")
    forge.cancel("w1")
    forge.wait("w2", needs=[{"job": "w1"}])
    forge.unmet("w2")
    forge.cron()
    forge.submit("v1", "q5")
    forge.update("v1", memoryMib=64)
    forge.bind("v1", "n1")
    forge.run("v1")
    forge.submit("b1", tenant="beta")
    hold = {"node": "n1", "rank": 0, "incarnation": 1, "cpuMilli": 1000, "memoryMib": 64}
    forge.step("b1", "preempting", hold=[hold], evicting=["v1"])
    forge.preempt("v1", "priority")
    forge.step("b1", "preempting", hold=[], evicting=[])
    for job in ("b1", "v1"):
        forge.bind(job, "n1")
        forge.run(job)
        forge.succeed(job)
    op = forge.ask("submit", request="q1", payload="other")
    forge.answer(op, "refused", code="request-conflict")
    forge.events.append(LogSeen(t=forge.after(1.0).t, job="j1", written=100, kept=100, told=False))
    forge.forget("j1")
    return forge
