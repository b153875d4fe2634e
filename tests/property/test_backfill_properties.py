"""Small clusters driven forward in time by the real cycle: what each strategy promises is kept, whatever comes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.admit.admission import decide
from ares.core.explain.held_back import held_back
from ares.core.queue.waiting import class_key
from ares.core.refusal import Admission
from ares.core.schedule.plan import Plan
from ares.model.job import JobSpec, Resources, TopologyWish
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.profile import BackfillPolicy, OrderPolicy, Profile, Weight
from ares.model.state import JobState
from tests.property import judge
from tests.property.course import Course
from tests.property.test_cycle_properties import check_left_out, check_promises, check_room, columns, shown
from tests.property.worlds import GANGS, NOW, World, rare
from tests.searching import examples
from tests.unit.core.schedule.nodes import links
from tests.unit.core.world import cycle_at

DELAY_S = 40.0
PROMISING = ("easy", "deadline", "aggressive", "conservative")


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeRecord:
    sizes = draw(st.sampled_from([(4,), (2, 2), (2,), ()]))
    gpus = tuple(Gpu(index=at, uuid=f"{name}.{at}", model="A100", memory_mib=80_000) for at in range(sum(sizes)))
    info = NodeInfo(
        name=name, cpu_milli=draw(st.sampled_from([4000, 8000])), memory_mib=1000, gpus=gpus, gpu_links=links(*sizes),
        rack=draw(st.sampled_from(["r1", "r2"])), pool=draw(st.sampled_from(["p", "q"])),
        labels=draw(rare({}, {"disk": "ssd"})), devices=draw(rare({}, {"fpga": ("f0",)})),
    )  # fmt: skip
    return NodeRecord(info=info, incarnation=1, registered_at=0.0)


SPECS = st.builds(
    JobSpec,
    command=st.just(("true",)),
    resources=st.builds(
        Resources, cpu_milli=st.sampled_from([500, 2000, 4000]), memory_mib=st.just(10),
        gpus=st.sampled_from([0, 1, 2, 4]), gpu_milli=rare(1000, 300, 500), devices=rare({}, {"fpga": 1}),
    ).map(lambda wants: wants if wants.gpus else replace(wants, gpu_milli=1000)),
    gang=st.one_of(st.none(), st.none(), GANGS),
    topology=rare(None, TopologyWish(level="rack", required=True), TopologyWish(level="rack")),
    selector=rare({}, {"disk": "ssd"}),
    expected_runtime_s=st.sampled_from([10.0, 20.0, 30.0, 70.0, 150.0]),
).filter(lambda spec: isinstance(decide(spec), Admission))  # fmt: skip


@dataclass
class Story:
    """Jobs, each with when it comes and how long it really runs."""

    world: World
    jobs: list[tuple[float, JobSpec, float]]


@st.composite
def stories(draw: st.DrawFn, unknown: bool = False, early: bool = False) -> Story:
    """`unknown`: some do not say how long they run; `early`: some end before they said."""
    made = [draw(nodes(f"n{at}")) for at in range(draw(st.integers(1, 3)))]
    kinds = draw(st.lists(SPECS, min_size=2, max_size=5))
    jobs: list[tuple[float, JobSpec, float]] = []
    at = 0.0
    for _ in range(draw(st.integers(4, 12))):
        at += draw(st.sampled_from([0.0, 0.0, 5.0, 15.0]))
        spec = replace(
            draw(st.sampled_from(kinds)), expected_runtime_s=draw(st.sampled_from([10.0, 20.0, 70.0, 150.0]))
        )
        runs = spec.expected_runtime_s or 0.0
        if unknown and draw(rare(False, True)):
            spec = replace(spec, expected_runtime_s=None)
        if early and spec.expected_runtime_s and draw(st.booleans()):
            spec = replace(spec, expected_runtime_s=runs * draw(st.sampled_from([1.5, 4.0])))
        # By submission means just that, deadline or not.
        spec = replace(spec, deadline_at=draw(rare(None, NOW + 100.0)))
        jobs.append((at, spec, runs))
    return Story(World(made, {one.info.name for one in made}), jobs)


def profile(strategy: str, order: str = "rank") -> Profile:
    fifo, most = OrderPolicy(primary=(Weight(name="fifo", weight=1.0),)), 100_000
    scorers = tuple(one for one in Profile().scorers if one.name != "fragmentation")
    if strategy == "strict":
        return Profile(actions=("claim", "allocate"), order=fifo, scorers=scorers, max_placements_per_cycle=most)
    policy = BackfillPolicy(strategy=strategy, order=order, delay_max_s=DELAY_S)  # type: ignore[arg-type]
    actions = ("claim", "allocate", "backfill")
    return Profile(actions=actions, order=fifo, scorers=scorers, backfill=policy, max_placements_per_cycle=most)


class Play:
    """Lets jobs come and end, with a cycle whenever something happened."""

    def __init__(self, story: Story, strategy: str, order: str = "rank") -> None:
        story.world.profile = profile(strategy, order)
        self.course = Course.of(story.world)
        self.jobs = story.jobs
        self.ends: dict[str, float] = {}
        self.starts: dict[str, float] = {}

    def decisions(self) -> Iterator[Plan]:
        """Each plan before it is carried out."""
        course, come = self.course, 0
        while come < len(self.jobs) or self.ends:
            times = [NOW + self.jobs[come][0]] if come < len(self.jobs) else []
            course.now = min(*times, *self.ends.values(), inf)
            for job in [job for job, at in self.ends.items() if at <= course.now]:
                del self.ends[job]
                course.end(job)
            while come < len(self.jobs) and NOW + self.jobs[come][0] <= course.now:
                course.submit(state_of(come, course.now), self.jobs[come][1])
                come += 1
            plan = cycle_at(course.cluster, course.world.profile, course.now)
            yield plan
            course.carry_out(plan)
            for one in plan.placed:
                self.starts[one.job] = course.now
                self.ends[one.job] = course.now + self.jobs[int(one.job[1:])][2]

    def waiting(self) -> list[str]:
        """In line, those that could run on the empty cluster."""
        course = self.course
        return [
            job for job, one in sorted(course.jobs.items())
            if one.state.phase == "PENDING"
            and any(judge.fits_empty(course.world, one.spec, wants) for wants in judge.wants_of(one.spec))
        ]  # fmt: skip


def state_of(number: int, at: float) -> JobState:
    return JobState(id=f"j{number:02d}", tenant="a", name="x", submitted_at=at, queued_at=at, submitted_by="u")


def check_kept(play: Play, strategy: str) -> None:
    """No promise is later than the one before, and nobody starts later than promised: as the strategy says."""
    slip = DELAY_S if strategy == "aggressive" else 0.0
    promised: dict[str, float] = {}
    for plan in play.decisions():
        now, started = play.course.now, {one.job for one in plan.placed}
        said = {one.job: one.start for one in plan.promises}
        for job, before in promised.items():
            at = now if job in started else said.get(job, inf)
            assert at <= before + slip, (job, before, at, now)
        if strategy != "conservative":
            first = next((job for job in play.waiting() if job not in started), None)
            said = {job: at for job, at in said.items() if job == first}
        promised = {
            job: min(promised.get(job, at), at) if slip == 0 else promised.get(job, at) for job, at in said.items()
        }


@pytest.mark.parametrize("strategy", PROMISING)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_nobody_starts_later_than_promised(strategy: str, data: st.DataObject) -> None:
    """Of all who wait under conservative, of the first under the others; runs end when they should, or before."""
    story = data.draw(stories(unknown=data.draw(st.booleans()), early=data.draw(st.booleans())))
    order = data.draw(st.sampled_from(["rank", "shortest"]))
    check_kept(Play(story, strategy, order), strategy)


@pytest.mark.parametrize("strategy", [*PROMISING, "greedy", "strict"])
@settings(max_examples=examples(25))
@given(data=st.data())
def test_plans_go_together_and_leave_the_picture_as_it_was(strategy: str, data: st.DataObject) -> None:
    play = Play(data.draw(stories(unknown=True, early=True)), strategy)
    for plan in play.decisions():
        course = play.course
        before = columns(course.cluster)
        assert shown(cycle_at(course.cluster, course.world.profile, course.now)) == shown(plan)
        assert before == columns(course.cluster)
        assert shown(cycle_at(course.fresh(), course.world.profile, course.now)) == shown(plan)
        check_room(course, plan)
        if strategy == "greedy":
            check_left_out(course, plan)
        elif strategy != "aggressive":
            check_promises(course, plan)


@settings(max_examples=examples(25))
@given(stories(unknown=True, early=True))
def test_without_backfill_jobs_start_in_order(story: Story) -> None:
    play = Play(story, "strict")
    for plan in play.decisions():
        started = [one.job for one in plan.placed]
        waits = [job for job in play.waiting() if job not in started]
        assert started == sorted(started)
        assert not waits or not started or max(started) < waits[0]


@pytest.mark.parametrize("strategy", PROMISING)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_job_held_back_starts_if_it_is_as_short_as_it_is_told(strategy: str, data: st.DataObject) -> None:
    """And not if it is a second longer."""
    play = Play(data.draw(stories(unknown=True)), strategy)

    for plan in play.decisions():
        course, started = play.course, {one.job for one in plan.placed}
        course_after = carried(course, plan)
        for job in [job for job in play.waiting() if job not in started]:
            state, spec = course_after.state(job), course_after.spec(job)
            reason = held_back(
                course_after.cluster, job, class_key(state, spec), course_after.cluster.waiting.runs_of(job), course.now
            )
            promised = {one.job for one in plan.promises}
            if reason is None or job in promised:
                continue

            assert reason.code == "HELD_BACK"
            if "lateS" in reason.numbers:
                # Room of a promise that is late is nobody else's, for however short a time.
                continue
            left_s = float(reason.numbers["heldForS"])
            # Where promises may slip, the next plan may hold other room: there a longer one may start, too.
            for more_s, starts in ((0.0, True), (1.0, False))[: 1 if strategy == "aggressive" else 2]:
                changed = carried(course, plan, job, replace(spec, expected_runtime_s=left_s + more_s))
                again = cycle_at(changed.cluster, course.world.profile, course.now)
                assert (job in {one.job for one in again.placed}) == starts, (reason, more_s)


def carried(course: Course, plan: Plan, job: str = "", spec: JobSpec | None = None) -> Course:
    """Another course that went the same way, a plan further; with one job that asked for something else."""
    made = Course(course.world, course.now, dict(course.jobs), course.cluster)
    if spec is not None:
        made.jobs[job] = replace(made.jobs[job], spec=spec)
    made.cluster = made.fresh()
    made.carry_out(plan)
    return made
