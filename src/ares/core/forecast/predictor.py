"""The one place that says how long a job will run. Learns from jobs that ended."""

from math import exp, log

from ares.api.predictions import Accuracy
from ares.core.forecast.estimate import Estimate, stated
from ares.core.forecast.histories import RunHistories
from ares.core.forecast.kinds import OTHERS_MIN, WORDS, JobKind, keys_of, kind_of, levels_of, name_key, on_model
from ares.core.forecast.overrun import corrected, overrun
from ares.core.forecast.predicted import MetJob, PastRuns, PredictedRun
from ares.core.forecast.spread import (
    AccuracyCount,
    IntervalEnds,
    JudgedData,
    RecentValues,
    Spread,
    SpreadData,
    distance,
)
from ares.core.forecast.trees import Forest, features_of
from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.profile import PredictionPolicy

_ACCOUNTS_MAX = 10_000
# The quantile of like jobs' run times that plans go by: chosen on the first halves of KTH and SDSC.
_PLANNED = 0.5
# The quantile that cost estimates go by.
_PAID = 0.9
# The quantile that holds and promises go by: room given back early costs nothing, late it breaks a promise.
_HELD = 0.9
_SHORTEST_S = 1.0
# Kinds of evidence from runs under the job's own name; a job without a name has the name of all such jobs.
_OWN_NAME = frozenset("abcdm")
_NAMELESS = "job"
# Comparisons of an account's statements with its history before history may win, and the weight of older ones.
_COMPARED_MIN = 5
# Answers that jobs share.
_SAID_MAX = 1024
_COMPARED_DECAY = 0.9
# Pairs of runs it takes to say how much faster one GPU model is than another.
_MODEL_RUNS_MIN = 3

# (error of what the account stated, error of its history, comparisons)
TrustData = tuple[float, float, int]


class PredictorData(Record, frozen=True):
    """All that was learned, as plain data: read back, it gives the same answers."""

    histories: dict[str, tuple[float, ...]] = {}
    spreads: dict[str, SpreadData] = {}
    trust: dict[str, TrustData] = {}
    models: tuple[str, ...] = ()
    judged: JudgedData = JudgedData()


class Predictor:
    """Part of the scheduler's picture of the cluster; the code that keeps the picture up to date also teaches it.

    Asking changes nothing: two predictors that were taught the same in the same order give the same answers.
    """

    def __init__(self, policy: PredictionPolicy = PredictionPolicy(), data: PredictorData = PredictorData()) -> None:  # noqa: B008 - frozen
        self.policy = policy
        self._runs = RunHistories(data.histories)
        self._spreads = {bucket: Spread(spread) for bucket, spread in data.spreads.items()}
        self._trust: dict[str, TrustData] = dict(data.trust)
        self._models = dict.fromkeys(data.models)
        self._judged = AccuracyCount(data.judged)
        # A trained model, where one is installed that did better than the runs of like jobs.
        self.forest: Forest | None = None
        # Jobs that have not ended: their kind, and what was said of each when it came.
        self._met: dict[str, MetJob] = {}
        # Of many jobs the same is said: they share it. The latest is at hand until something is learned.
        self._said: dict[PredictedRun, PredictedRun] = {}
        # From how many runs it learned since it began.
        self.learned = 0
        # By kind and what was said of the job: that, and what is said now; until something is learned.
        self._alike_renewed: dict[tuple[JobKind, int], tuple[PredictedRun, PredictedRun | None]] = {}
        self._latest: tuple[MetJob, tuple[JobSpec, PredictionPolicy, Forest | None], str] | None = None

    def go_by(self, policy: PredictionPolicy) -> None:
        """Another policy applies from now on."""
        self.policy = policy
        self._alike_renewed.clear()

    @property
    def _histories(self) -> dict[str, RecentValues]:
        return self._runs.known

    @property
    def data(self) -> PredictorData:
        return PredictorData(
            histories={key: tuple(recent.values) for key, recent in self._histories.items()},
            spreads={bucket: spread.data for bucket, spread in self._spreads.items()},
            trust=dict(self._trust),
            models=tuple(self._models),
            judged=self._judged.data,
        )

    @property
    def accuracy(self) -> Accuracy:
        return self._judged.accuracy

    @property
    def kinds(self) -> int:
        return len(self._histories)

    # ---- estimates

    def estimate(self, spec: JobSpec, account: str, gpu_model: str | None = None) -> Estimate | None:
        """None when it is not known. The account is "tenant/team/user"."""
        return self._say(spec, kind_of(spec, account, gpu_model)).used

    def own_high(self, spec: JobSpec, account: str) -> float:
        """What nine of ten like jobs of the same tenant stayed within, at most the limit; 0.0 when there were none."""
        kind = kind_of(spec, account)
        for level, key in levels_of(kind):
            recent = self._histories.get(key) if not level.others or level.words.startswith("of that tenant") else None
            if recent is not None and len(recent) >= (OTHERS_MIN if level.others else self.policy.min_samples):
                high = recent.quantile(_PAID)
                return high if kind.limit_s is None else min(high, kind.limit_s)
        return 0.0

    def _say(self, spec: JobSpec, kind: JobKind) -> PredictedRun:
        said, past = stated(spec, kind.gpu_model), self._modelled(spec, kind) or self._past(kind)
        longest = _as_stated(spec, said) if self.policy.source == "stated" else _longest(spec, said, past)
        return self._weighed(said, past, kind, longest, states=_states(spec))

    def _weighed(
        self, said: Estimate | None, past: PastRuns | None, kind: JobKind, longest: float, *, states: bool
    ) -> PredictedRun:
        """What the job says against what its like did."""
        used = said
        bucket = own = _bucket_stated(states)
        if self.policy.source != "stated":
            if past is not None and (not states or self._goes_by_history(kind.account)):
                basis = f"{past.runs} run{'' if past.runs == 1 else 's'} {past.words}"
                used, bucket = Estimate(past.seconds, past.seconds, past.seconds, basis), past.bucket
            used = None if used is None else self._with_interval(used, bucket, kind.limit_s)
        used = None if used is None else used._replace(longest=longest)
        return PredictedRun(used, said, past, self._ends(own), None if past is None else self._ends(past.bucket))

    def _ends(self, bucket: str) -> IntervalEnds | None:
        spread = self._spreads.get(bucket)
        return None if spread is None else spread.ends

    def corrected(self, estimate_s: float, ran_s: float, limit_s: float | None) -> float:
        """The run time to plan by once a job has run longer than its estimate. `limit_s` is with the grace."""
        if self.policy.correction == "steps":
            return corrected(estimate_s, ran_s, limit_s)
        if limit_s is not None:
            # A job beyond its limit is about to be ended.
            return max(limit_s, ran_s + 1.0)
        return overrun(estimate_s, ran_s)

    def _modelled(self, spec: JobSpec, kind: JobKind) -> PastRuns | None:
        if self.forest is None:
            return None
        seconds = self.forest.seconds(features_of(spec, kind, self._histories))
        seconds = seconds if kind.limit_s is None else min(seconds, kind.limit_s)
        alike = self._alike(kind)
        upper = seconds if alike is None else max(seconds, alike.upper)
        return PastRuns(seconds, self.forest.model.trained_on, "that a model was trained on, and like jobs", "t", upper)

    def features(self, spec: JobSpec, account: str) -> tuple[float, ...]:
        """What a trained model is told about a job that comes now."""
        return features_of(spec, kind_of(spec, account), self._histories)

    def _past(self, kind: JobKind) -> PastRuns | None:
        limit_s = kind.limit_s
        found = None if kind.gpu_model is None else self._on_model(kind, kind.gpu_model)
        found = found or self._alike(kind)
        if found is None or limit_s is None or found.seconds <= limit_s:
            return found
        return found._replace(seconds=limit_s)

    def _alike(self, kind: JobKind) -> PastRuns | None:
        key = self._nearest(kind)
        return _past(self._histories[key], WORDS[key[0]], key[0]) if key else None

    def _on_model(self, kind: JobKind, model: str) -> PastRuns | None:
        """From runs on the job's GPU model, else from runs on another model and how the two compare."""
        own = self._histories.get(on_model(kind, model))
        if own is not None:
            return _past(own, f"of that kind on {model}", "m")
        for other in self._models:
            there, ratio = self._histories.get(on_model(kind, other)), self._histories.get(_ratio_key(model, other))
            if there is not None and ratio is not None and len(ratio) >= _MODEL_RUNS_MIN:
                compares = exp(ratio.quantile(0.5))
                seconds, upper = (max(_SHORTEST_S, compares * each) for each in there.quantiles(_PLANNED, _HELD))
                return PastRuns(seconds, len(there), f"of that kind on {other}, as {model} compares to it", "n", upper)
        return None

    def _goes_by_history(self, account: str) -> bool:
        """What a job states counts until its account's history has proven nearer to the truth."""
        if self.policy.source == "history":
            return True
        of_stated, of_history, compared = self._trust.get(account, (0.0, 0.0, 0))
        return compared >= _COMPARED_MIN and of_history < of_stated

    def _with_interval(self, plain: Estimate, bucket: str, limit_s: float | None) -> Estimate:
        spread = self._spreads.get(bucket)
        if spread is None:
            return plain
        low, high = spread.around(plain.seconds)
        if limit_s is not None:
            low, high = min(low, limit_s), min(high, limit_s)
        return plain._replace(low=low, high=high)

    # ---- learning

    def met(self, job_id: str, spec: JobSpec, account: str, gpu_model: str | None = None) -> Estimate | None:
        """The same as `estimate`, and remembers what was said until the job has ended: then it is judged."""
        known = self._met.get(job_id)
        if known is None and gpu_model is None and (latest := self._latest) is not None:
            met, (like, policy, forest), whose = latest
            if like is spec and whose == account and policy is self.policy and forest is self.forest:
                self._met[job_id] = met
                return met.said.used
        kind = kind_of(spec, account, gpu_model)
        if known is None:
            said = self._say(spec, kind)
            known = self._met[job_id] = MetJob(kind, self._share(said), _states(spec))
            self._latest = (known, (spec, self.policy, self.forest), account) if gpu_model is None else None
        elif known.kind != kind:
            # Its GPU model is new, or it asks for something else by now.
            same = known.kind._replace(gpu_model=kind.gpu_model) == kind
            known = known._replace(kind=kind) if same else MetJob(kind, self._say(spec, kind), _states(spec))
            self._met[job_id] = known
        return known.said.used

    def news(self) -> frozenset[str]:
        """Kinds that something was learned about since this was last asked."""
        self._alike_renewed.clear()
        return self._runs.news()

    def renewed(self, job_id: str, news: frozenset[str]) -> Estimate | None:
        """What is said of a waiting job by now; None where these news do not concern it. What was said last is what is
        judged in the end."""
        known = self._met.get(job_id)
        if known is None or self.forest is not None or self.policy.source == "stated":
            return None
        # Of jobs alike the same was said, and the same is said now.
        like = known.kind, id(known.said)
        found = self._alike_renewed.get(like)
        if found is None:
            found = self._alike_renewed[like] = known.said, self._anew(known, news)
        if (said := found[1]) is None:
            return None
        self._met[job_id] = known._replace(said=said)
        return said.used

    def _anew(self, known: MetJob, news: frozenset[str]) -> PredictedRun | None:
        kind, said, states = known
        if self._nearest(kind) not in news or (past := self._past(kind)) is None or past == said.past:
            return None
        longest = said.used.longest if said.used is not None and kind.limit_s is not None else 0.0
        if kind.limit_s is None:
            named = past.bucket[0] in _OWN_NAME and kind.name != _NAMELESS
            of_past = past.upper if named or not states else 0.0
            longest = max(0.0 if said.stated is None else said.stated.seconds, of_past)
        return self._share(self._weighed(said.stated, past, kind, longest, states=states))

    def _nearest(self, kind: JobKind) -> str:
        """The kind that tells most about the job."""
        histories, least = self._histories, self.policy.min_samples
        named = histories.get(name_key(kind))
        for level, key in levels_of(kind, named=named is not None and len(named) >= least):
            recent = histories.get(key)
            if recent is not None and len(recent) >= (max(OTHERS_MIN, least) if level.others else least):
                return key
        return ""

    def _share(self, said: PredictedRun) -> PredictedRun:
        if len(self._said) >= _SAID_MAX:
            self._said.clear()
        return self._said.setdefault(said, said)

    def ended(self, job_id: str, ran_s: float | None) -> None:
        """Learns from a job that ran its course. Hearing of it again changes nothing."""
        known = self._met.pop(job_id, None)
        if known is not None and ran_s is not None:
            self._learn(known, ran_s)

    def learn(self, spec: JobSpec, account: str, ran_s: float, gpu_model: str | None = None) -> None:
        """A job ran this long, to its end. What would have been said about it is judged before it is learned from."""
        kind = kind_of(spec, account, gpu_model)
        self._learn(MetJob(kind, self._say(spec, kind), _states(spec)), ran_s)

    def _learn(self, job: MetJob, ran_s: float) -> None:
        ran_s, kind = max(_SHORTEST_S, ran_s), job.kind
        self._latest = None
        self.learned += 1
        self._alike_renewed.clear()
        self._judge(job, ran_s)
        self._runs.add(keys_of(kind), ran_s)
        if kind.gpu_model is not None:
            self._learn_model(kind, kind.gpu_model, ran_s)

    def _judge(self, job: MetJob, ran_s: float) -> None:
        used, said, past, stated_ends, past_ends = job.said
        if used is not None:
            self._judged.add(used.seconds, ran_s, used.low <= ran_s <= used.high)
        if past is not None:
            self._spread(past.bucket).judge(past.seconds, ran_s, given=past_ends)
        if said is not None:
            self._spread(_bucket_stated(job.states)).judge(max(said.seconds, _SHORTEST_S), ran_s, given=stated_ends)
        if said is not None and past is not None and job.states:
            of_stated, of_history, compared = self._trust.pop(job.kind.account, (0.0, 0.0, 0))
            self._trust[job.kind.account] = (
                _COMPARED_DECAY * of_stated + distance(said.seconds, ran_s),
                _COMPARED_DECAY * of_history + distance(past.seconds, ran_s),
                compared + 1,
            )
            while len(self._trust) > _ACCOUNTS_MAX:
                del self._trust[next(iter(self._trust))]

    def _learn_model(self, kind: JobKind, gpu_model: str, ran_s: float) -> None:
        for other in self._models:
            there = None if other == gpu_model else self._histories.get(on_model(kind, other))
            if there is not None:
                self._runs.add((_ratio_key(gpu_model, other),), log(ran_s / there.quantile(0.5)))
        self._models.setdefault(gpu_model)
        self._runs.add((on_model(kind, gpu_model),), ran_s)

    def _spread(self, bucket: str) -> Spread:
        return self._spreads.setdefault(bucket, Spread())


def _past(recent: RecentValues, words: str, bucket: str) -> PastRuns:
    count = len(recent)
    # One run tells less than four: their errors are kept apart.
    few = "1" if count == 1 else "2" if count < 4 else "4"
    seconds, upper = recent.quantiles(_PLANNED, _HELD)
    return PastRuns(max(_SHORTEST_S, seconds), count, words, bucket + few, max(_SHORTEST_S, upper))


def _longest(spec: JobSpec, said: Estimate | None, past: PastRuns | None) -> float:
    """The longest of what the job states, what like jobs took and its limit. What a job states is made longer only by
    jobs of its own name, and is never made shorter."""
    states, longest = _states(spec), _as_stated(spec, said)
    if past is not None and (not states or (past.bucket[0] in _OWN_NAME and spec.name != _NAMELESS)):
        longest = max(longest, past.upper)
    # No job runs longer than its limit, whatever like jobs did under other limits.
    return longest if spec.time_limit_s is None else spec.time_limit_s + spec.grace_s


def _as_stated(spec: JobSpec, said: Estimate | None) -> float:
    """What the job says, to the second; a limit ends with its grace."""
    if said is None:
        return 0.0
    return said.seconds if _states(spec) or spec.time_limit_s is None else spec.time_limit_s + spec.grace_s


def _states(spec: JobSpec) -> bool:
    """Whether the job says how long it runs; a limit alone says little."""
    return spec.expected_runtime_s is not None or bool(spec.expected_runtimes_s)


def _bucket_stated(states: bool) -> str:
    return "stated" if states else "limit"


def _ratio_key(one: str, other: str) -> str:
    return f"n\x1f{one}\x1f{other}"
