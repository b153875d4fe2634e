"""How a shadow profile would have done: the jobs that came, replayed under it and under the one in force."""

import msgspec
import numpy as np
from msgspec.structs import replace

from ares.check.replay.trace import Trace, TraceJob, in_order
from ares.control.shadow.messages import PastJob, ShadowAnswer, ShadowQuestion
from ares.core.lifecycle.updates import in_force
from ares.model.job import JobSpec
from ares.model.profile import Profile, ShadowFigures, ShadowVerdict
from ares.model.state import JobState
from ares.sim.traces.engine import replay
from ares.sim.traces.formats.history import job_of
from ares.sim.traces.formats.reading import Repairs
from ares.sim.traces.outcome import Bools, Outcome
from ares.sim.traces.policies import ReplayPolicy
from ares.sim.traces.summary import bounded_slowdowns
from ares.sim.tune.evidence import GAIN_MIN, GainInterval, gain_interval, surely_better, waits_bearably
from ares.sim.tune.search import AIMS

_SPEC, _STATE = msgspec.json.Decoder(JobSpec), msgspec.json.Decoder(JobState)


def judge(frame: bytes) -> bytes:
    """The answer to one question, as frames."""
    return msgspec.json.encode(judged(msgspec.json.decode(frame, type=ShadowQuestion)))


def judged(question: ShadowQuestion) -> ShadowAnswer:
    trace, counted = past(question)
    outcomes = [replay(trace, _policy(profile)) for profile in (question.base, question.shadow)]
    base, shadow = (figures(outcome, counted) for outcome in outcomes)
    field = AIMS[question.objective].field
    before, after = (float(getattr(found, field)) for found in (base, shadow))
    gain = (before - after) / before if before > 0.0 else 0.0
    interval = gain_interval(outcomes[0], outcomes[1], field, question.chance, counted)
    when = outcomes[0].jobs.submit[counted]
    return ShadowAnswer(
        jobs=int(counted.sum()),
        others=int((~counted).sum()),
        since=float(when.min(initial=question.now)),
        until=float(when.max(initial=question.since)),
        base=base,
        shadow=shadow,
        verdict=verdict(base, shadow, gain, interval),
        gain=gain,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        blocks=0 if interval is None else interval.blocks,
        of="" if interval is None else interval.of,
    )


def verdict(base: ShadowFigures, shadow: ShadowFigures, gain: float, interval: GainInterval | None) -> ShadowVerdict:
    """Nothing is called better or worse that may be chance; a job that waits far longer outweighs every gain."""
    if interval is None:
        return "too-few"
    if not waits_bearably(base.longest_wait_s, shadow.longest_wait_s):
        return "waits-longer"
    if shadow.unfinished > base.unfinished:
        return "worse"
    if surely_better(gain, interval):
        return "better"
    return "worse" if gain < -GAIN_MIN and interval.high < 0.0 else "no-difference"


def past(question: ShadowQuestion) -> tuple[Trace, Bools]:
    """The jobs as a trace, and which of them count: a job that still runs holds its room for as long as it has."""
    kept: dict[str, bool] = {}
    jobs: list[TraceJob] = []
    for job in question.jobs:
        made, ended = _past_job(job, question.now)
        if made is not None:
            jobs.append(made)
            kept[made.id] = ended and _STATE.decode(job.state).submitted_at >= question.since
    ordered, _ = in_order(jobs)
    return Trace("the jobs that came", ordered, question.nodes), np.array([kept[job.id] for job in ordered], np.bool_)


def _past_job(job: PastJob, now: float) -> tuple[TraceJob | None, bool]:
    state = _STATE.decode(job.state)
    spec = in_force(_SPEC.decode(job.spec), state)
    ended = state.phase in ("SUCCEEDED", "FAILED")
    if not ended:
        # How long it will run is not known, or it was taken away: what it held until now it held.
        until = now if state.ended_at is None else state.ended_at
        state = replace(state, phase="SUCCEEDED", ended_at=until, exit=None)
    return job_of(spec, state, Repairs()), ended


def _policy(profile: Profile) -> ReplayPolicy:
    source = "user" if profile.prediction.source == "stated" else "predicted"
    return ReplayPolicy(name="profile", profile=profile, estimates=source)


def figures(outcome: Outcome, counted: Bools) -> ShadowFigures:
    jobs = outcome.jobs
    ended = counted & ~np.isnan(jobs.end) & ~np.isnan(jobs.first_start)
    waits, jct = (jobs.first_start - jobs.submit)[ended], (jobs.end - jobs.submit)[ended]
    slow = bounded_slowdowns(outcome)[ended]
    some = len(waits) > 0
    return ShadowFigures(
        bounded_slowdown=float(slow.mean()) if some else 0.0,
        mean_wait_s=float(waits.mean()) if some else 0.0,
        mean_jct_s=float(jct.mean()) if some else 0.0,
        p95_wait_s=float(np.quantile(waits, 0.95)) if some else 0.0,
        p999_wait_s=float(np.quantile(waits, 0.999)) if some else 0.0,
        longest_wait_s=float(waits.max(initial=0.0)),
        unfinished=int(counted.sum() - ended.sum()),
    )
