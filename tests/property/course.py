"""A cluster through time: plans are carried out by the real state graph, and the picture is kept as a replica does."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from ares.core.capacity.capacity import Reserved
from ares.core.capacity.holding import holding
from ares.core.forecast.estimate import stated
from ares.core.lifecycle.graph import step
from ares.core.lifecycle.inputs import (
    Bind,
    Context,
    Exit,
    Input,
    Nominate,
    Preempt,
    RanksResized,
    RankStarted,
    Release,
    Stepped,
)
from ares.core.lifecycle.ranks import held, holds
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Plan
from ares.model.job import JobSpec
from ares.model.state import ExitInfo, Fence, Job, JobState, Placement
from tests.property.worlds import NOW, World


@dataclass
class Course:
    world: World
    now: float = NOW
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    cluster: Cluster = field(default_factory=Cluster)

    @classmethod
    def of(cls, world: World) -> "Course":
        made = cls(world)
        made.cluster = Cluster(world.profile)
        for record in world.nodes:
            made.cluster.put_node(record)
            made.cluster.set_ready(record.info.name, record.info.name in world.ready)
        for state, spec in world.waiting:
            made.submit(state, spec)
        return made

    def tell(self, job: str, cluster: Cluster | None = None) -> None:
        """What the picture is told about one job, as `services.planner` does it."""
        cluster = cluster or self.cluster
        state, spec = self.jobs[job].state, self.jobs[job].spec
        if state.phase == "PENDING":
            cluster.enqueue(state, spec)
            cluster.reserve(job, Reserved(state.hold, state.evicting, state.alternative))
        else:
            cluster.dequeue(job)
            cluster.unreserve(job)
        if holds(state):
            cluster.hold(holding(state, spec, held(state), state.planned_s))
        else:
            cluster.release(job)

    def fresh(self) -> Cluster:
        """The picture of somebody who comes now, nodes in the order they joined."""
        made = Cluster(self.world.profile)
        by_row = sorted(self.world.nodes, key=lambda one: self.cluster.rows[one.info.name])
        for job in sorted(self.jobs, reverse=True):
            self.tell(job, made)
            self._guess_alike(job, made)
        for record in by_row:
            made.set_ready(record.info.name, record.info.name in self.world.ready)
            made.put_node(record)
        kept, mine = self.cluster, made
        mine.promise(kept.promises.values())
        mine.told = dict(kept.told)
        # Whether anything changed since they were made.
        mine.promised_at -= kept.promised_at != kept.future.slack
        mine.promised_before -= kept.promised_before != kept.future.setbacks
        mine.promised_when -= kept.promised_when != kept.future.changes
        return made

    def _guess_alike(self, job: str, made: Cluster) -> None:
        """When a job ends that has outlived its estimate is guessed by when somebody looked: that is handed over."""
        mine, kept = made.holdings.get(job), self.cluster.holdings.get(job)
        if mine is not None and kept is not None and mine.ends_at != kept.ends_at:
            made.release(job)
            made.hold(replace(mine, ends_at=kept.ends_at))

    # ---- what happens

    def submit(self, state: JobState, spec: JobSpec) -> None:
        self.jobs[state.id] = Job(spec=spec, state=state)
        self.tell(state.id)

    def do(self, job: str, what: Input) -> None:
        stepped = step(self.jobs[job], what, Context(now=self.now, jitter=0.5))
        assert isinstance(stepped, Stepped), stepped
        self.jobs[job] = Job(spec=self.jobs[job].spec, state=stepped.state)
        self.tell(job)

    def carry_out(self, plan: Plan) -> None:
        """Everything a plan proposes, in the order the service writes it; started jobs run at once."""
        self.cluster.promise(plan.promises, more=plan.more)
        for one in plan.placed:
            runs = stated(self.jobs[one.job].spec)
            bind = Bind(placements=one.placements, alternative=one.alternative, planned_s=runs and runs.seconds)
            self.do(one.job, bind)
            self.start(one.job)
        for job in plan.unheld:
            self.do(job, Nominate(hold=(), evicting=(), reason=""))
        for one in plan.resized:
            self.do(
                one.job, RanksResized(fence=self.state(one.job).fence, placements=one.placements, reason=one.reason)
            )
            self.start(one.job)
        for one in plan.evictions:
            evicting = (*one.victims, *one.shrunk)
            self.do(
                one.job,
                Nominate(hold=one.hold, evicting=evicting, reason=one.reason, alternative=one.alternative),
            )
            for victim in one.victims:
                self.do(victim, Preempt(fence=self.state(victim).fence, by="scheduler", reason="r"))

    def start(self, job: str) -> None:
        state = self.state(job)
        for place in state.placements:
            if place.rank not in self.state(job).started_ranks and self.state(job).phase in ("STAGING", "RUNNING"):
                self.do(job, RankStarted(fence=state.fence, rank=place.rank))

    def end(self, job: str) -> None:
        """A running job succeeds."""
        state = self.state(job)
        for place in state.placements:
            self.do(job, Exit(fence=state.fence, exit=ExitInfo(code=0), rank=place.rank))

    def release(self, job: str) -> None:
        """What was let go is gone."""
        state = self.state(job)
        if state.phase == "RUNNING":
            ranks = tuple(place.rank for place in state.leaving)
            self.do(job, Release(fence=state.fence, ranks=ranks))
        else:
            # Of the attempt that was taken away: its fence is the one before.
            self.do(job, Release(fence=Fence(epoch=state.fence.epoch, counter=state.fence.counter - 1)))

    def set_ready(self, name: str, ready: bool) -> None:
        (self.world.ready.add if ready else self.world.ready.discard)(name)
        self.cluster.set_ready(name, ready)

    def restart(self, name: str) -> None:
        """The node's agent comes back as another incarnation."""
        at = next(n for n, one in enumerate(self.world.nodes) if one.info.name == name)
        record = self.world.nodes[at]
        self.world.nodes[at] = replace(record, incarnation=record.incarnation + 1)
        self.cluster.put_node(self.world.nodes[at])

    # ---- what there is

    def state(self, job: str) -> JobState:
        return self.jobs[job].state

    def spec(self, job: str) -> JobSpec:
        return self.jobs[job].spec

    def pairs(self) -> list[tuple[JobState, JobSpec]]:
        return [(one.state, one.spec) for one in self.jobs.values()]

    def in_use(self) -> dict[str, tuple[Placement, ...]]:
        return {job: held(one.state) for job, one in self.jobs.items() if holds(one.state)}

    def running(self) -> list[str]:
        return [job for job, one in self.jobs.items() if one.state.phase == "RUNNING" and not one.state.leaving]

    def lingering(self) -> list[str]:
        return [job for job, one in self.jobs.items() if one.state.lingering or one.state.leaving]
