"""A need for data is open until it is published, whatever else the job waits for."""

from ares.core.lifecycle.inputs import Context, NeedsMet, Stepped
from ares.core.lifecycle.updates import in_force
from ares.core.lifecycle.waiting import needs_met
from ares.core.needs.standing import ParentStanding
from ares.core.needs.verdict import all_parents, judge
from ares.model.job import DataInput, JobSpec, Need
from ares.model.state import Job, JobState

FILMS = "ares://datasets/films"
DONE = ParentStanding(ended=1, succeeded=1)
SPEC = JobSpec(
    command=("x",), needs=(Need(data=FILMS), Need(job="a")), inputs=(DataInput(name="d", from_=FILMS),)
)  # fmt: skip


def test_data_is_waited_for_beside_jobs() -> None:
    assert list(all_parents(SPEC, None)) == [FILMS, "a"]
    waits = judge(SPEC, None, {FILMS: ParentStanding(), "a": DONE}.get)
    assert (waits.verdict, waits.message) == ("open", f"it waits for {FILMS} to be published")
    assert judge(SPEC, None, {FILMS: DONE, "a": ParentStanding()}.get).message == "it waits for job a to succeed"
    met = judge(SPEC, None, {FILMS: DONE, "a": DONE}.get)
    assert (met.verdict, met.met) == ("met", 2)
    assert met.message == f"published: {FILMS}, and what it waited for of 1 job has happened"


def test_the_version_that_it_is_given_is_in_force() -> None:
    state = JobState(id="j", tenant="t", name="j", phase="WAITING")
    given = (DataInput(name="d", from_=f"{FILMS}@sha256:{'0' * 64}", size_mib=7),)
    context = Context(now=1.0, jitter=0.0, epoch=1)
    done = needs_met(Job(spec=SPEC, state=state), NeedsMet(reason="published", inputs=given), context)
    assert isinstance(done, Stepped)
    assert (done.state.phase, in_force(SPEC, done.state).inputs) == ("PENDING", given)
    plain = needs_met(Job(spec=SPEC, state=state), NeedsMet(reason="done"), context)
    assert isinstance(plain, Stepped)
    assert plain.state.update is None
