"""The one place that says how long a job will run. Learns from jobs that ended."""

from collections.abc import Iterable
from math import exp, log
from typing import NamedTuple, TypeVar

from ares.api.predictions import Accuracy
from ares.core.forecast.estimate import Estimate, stated
from ares.core.forecast.kinds import LEVELS, OTHERS_MIN, JobKind, keys_of, kind_of, on_model
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

# ---- The run time to plan by once a job has outlived its estimate: a little more each time, in ever larger steps.


_MINUTE, _HOUR = 60.0, 3600.0
# As in Tsafrir, Etsion and Feitelson (TPDS 2007), each added to the first estimate.
STEPS = (
    _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 20 * _HOUR, 50 * _HOUR,
    100 * _HOUR,
)  # fmt: skip


# A job that is late by an instant is looked at again a second later.
_LEAST_S = 1.0


def overrun(estimate_s: float, ran_s: float) -> float:
    """The run time to plan by where nothing bounds it: the job is taken to run on for as long as it is late already.
    An overrun of an instant moves a promise by a second, one of an hour by an hour."""
    return ran_s + max(_LEAST_S, ran_s - estimate_s)


def corrected(estimate_s: float, ran_s: float, limit_s: float | None = None) -> float:
    """The run time to plan by, longer than `ran_s`: the next step, or the limit where that comes first."""
    step = next((estimate_s + step for step in STEPS if estimate_s + step > ran_s), None)
    longer = 2.0 * ran_s if step is None else step
    # A job beyond its limit is about to be ended.
    return longer if limit_s is None or limit_s >= longer else max(limit_s, ran_s + 1.0)


# Kinds of jobs remembered; the kind that was not seen for longest is forgotten first.
KINDS_MAX = 50_000
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

_T = TypeVar("_T")
# (error of what the account stated, error of its history, comparisons)
TrustData = tuple[float, float, int]


class PredictorData(Record, frozen=True):
    """All that was learned, as plain data: read back, it gives the same answers."""

    histories: dict[str, tuple[float, ...]] = {}
    spreads: dict[str, SpreadData] = {}
    trust: dict[str, TrustData] = {}
    models: tuple[str, ...] = ()
    judged: JudgedData = JudgedData()


class _Past(NamedTuple):
    """What like jobs took: the value planned by, how many, and which spread of errors it belongs to."""

    seconds: float
    runs: int
    words: str
    bucket: str
    # The quantile that holds go by.
    upper: float = 0.0


class _Predicted(NamedTuple):
    """What was said of a job: in the end, by the job itself, and by history."""

    used: Estimate | None
    stated: Estimate | None
    past: _Past | None
    # The ends of the spreads at that moment.
    stated_ends: IntervalEnds | None = None
    past_ends: IntervalEnds | None = None


class _Met(NamedTuple):
    """The specification itself is not kept: of a hundred thousand jobs that wait it would be most of what they take."""

    kind: JobKind
    said: _Predicted
    # Whether the job says how long it runs.
    states: bool


class Predictor:
    """Part of the scheduler's picture of the cluster; the code that keeps the picture up to date also teaches it.

    Asking changes nothing: two predictors that were taught the same in the same order give the same answers.
    """

    def __init__(self, policy: PredictionPolicy = PredictionPolicy(), data: PredictorData = PredictorData()) -> None:  # noqa: B008 - frozen
        self.policy = policy
        self._histories = {key: RecentValues(values) for key, values in data.histories.items()}
        self._spreads = {bucket: Spread(spread) for bucket, spread in data.spreads.items()}
        self._trust: dict[str, TrustData] = dict(data.trust)
        self._models = dict.fromkeys(data.models)
        self._judged = AccuracyCount(data.judged)
        # A trained model, where one is installed that did better than the runs of like jobs.
        self.forest: Forest | None = None
        # Jobs that have not ended: their kind, and what was said of each when it came.
        self._met: dict[str, _Met] = {}
        # Of many jobs the same is said: they share it. The latest is at hand until something is learned.
        self._said: dict[_Predicted, _Predicted] = {}
        self._latest: tuple[_Met, tuple[JobSpec, PredictionPolicy, Forest | None], str] | None = None

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
        for level, key in zip(LEVELS, keys_of(kind), strict=True):
            recent = self._histories.get(key) if not level.others or level.words.startswith("of that tenant") else None
            if recent is not None and len(recent) >= (OTHERS_MIN if level.others else self.policy.min_samples):
                high = recent.quantile(_PAID)
                return high if kind.limit_s is None else min(high, kind.limit_s)
        return 0.0

    def _say(self, spec: JobSpec, kind: JobKind) -> _Predicted:
        said, past = stated(spec, kind.gpu_model), self._modelled(spec, kind) or self._past(kind)
        used, policy, states = said, self.policy, _states(spec)
        bucket = own = _bucket_stated(states)
        longest = _as_stated(spec, said) if policy.source == "stated" else _longest(spec, said, past)
        if policy.source != "stated":
            if past is not None and (not states or self._goes_by_history(kind.account)):
                basis = f"{past.runs} run{'' if past.runs == 1 else 's'} {past.words}"
                used, bucket = Estimate(past.seconds, past.seconds, past.seconds, basis), past.bucket
            used = None if used is None else self._with_interval(used, bucket, spec.time_limit_s)
        used = None if used is None else used._replace(longest=longest)
        return _Predicted(used, said, past, self._ends(own), None if past is None else self._ends(past.bucket))

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

    def _modelled(self, spec: JobSpec, kind: JobKind) -> _Past | None:
        if self.forest is None:
            return None
        seconds = self.forest.seconds(features_of(spec, kind, self._histories))
        seconds = seconds if kind.limit_s is None else min(seconds, kind.limit_s)
        alike = self._alike(kind)
        upper = seconds if alike is None else max(seconds, alike.upper)
        return _Past(seconds, self.forest.model.trained_on, "that a model was trained on, and like jobs", "t", upper)

    def features(self, spec: JobSpec, account: str) -> tuple[float, ...]:
        """What a trained model is told about a job that comes now."""
        return features_of(spec, kind_of(spec, account), self._histories)

    def _past(self, kind: JobKind) -> _Past | None:
        limit_s = kind.limit_s
        found = None if kind.gpu_model is None else self._on_model(kind, kind.gpu_model)
        found = found or self._alike(kind)
        if found is None or limit_s is None or found.seconds <= limit_s:
            return found
        return found._replace(seconds=limit_s)

    def _alike(self, kind: JobKind) -> _Past | None:
        histories, least = self._histories, self.policy.min_samples
        for level, key in zip(LEVELS, keys_of(kind), strict=True):
            recent = histories.get(key)
            if recent is not None and len(recent) >= (max(OTHERS_MIN, least) if level.others else least):
                return _past(recent, level.words, key[0])
        return None

    def _on_model(self, kind: JobKind, model: str) -> _Past | None:
        """From runs on the job's GPU model, else from runs on another model and how the two compare."""
        own = self._histories.get(on_model(kind, model))
        if own is not None:
            return _past(own, f"of that kind on {model}", "m")
        for other in self._models:
            there, ratio = self._histories.get(on_model(kind, other)), self._histories.get(_ratio_key(model, other))
            if there is not None and ratio is not None and len(ratio) >= _MODEL_RUNS_MIN:
                compares = exp(ratio.quantile(0.5))
                seconds, upper = (max(_SHORTEST_S, compares * each) for each in there.quantiles(_PLANNED, _HELD))
                return _Past(seconds, len(there), f"of that kind on {other}, as {model} compares to it", "n", upper)
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
            if len(self._said) >= _SAID_MAX:
                self._said.clear()
            known = self._met[job_id] = _Met(kind, self._said.setdefault(said, said), _states(spec))
            self._latest = (known, (spec, self.policy, self.forest), account) if gpu_model is None else None
        elif known.kind != kind:
            # Its GPU model is new, or it asks for something else by now.
            same = known.kind._replace(gpu_model=kind.gpu_model) == kind
            known = known._replace(kind=kind) if same else _Met(kind, self._say(spec, kind), _states(spec))
            self._met[job_id] = known
        return known.said.used

    def ended(self, job_id: str, ran_s: float | None) -> None:
        """Learns from a job that ran its course. Hearing of it again changes nothing."""
        known = self._met.pop(job_id, None)
        if known is not None and ran_s is not None:
            self._learn(known, ran_s)

    def learn(self, spec: JobSpec, account: str, ran_s: float, gpu_model: str | None = None) -> None:
        """A job ran this long, to its end. What would have been said about it is judged before it is learned from."""
        kind = kind_of(spec, account, gpu_model)
        self._learn(_Met(kind, self._say(spec, kind), _states(spec)), ran_s)

    def _learn(self, job: _Met, ran_s: float) -> None:
        ran_s, kind = max(_SHORTEST_S, ran_s), job.kind
        self._latest = None
        self._judge(job, ran_s)
        self._add(keys_of(kind), ran_s)
        if kind.gpu_model is not None:
            self._learn_model(kind, kind.gpu_model, ran_s)

    def _judge(self, job: _Met, ran_s: float) -> None:
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
            _forget(self._trust, _ACCOUNTS_MAX)

    def _learn_model(self, kind: JobKind, gpu_model: str, ran_s: float) -> None:
        for other in self._models:
            there = None if other == gpu_model else self._histories.get(on_model(kind, other))
            if there is not None:
                self._add((_ratio_key(gpu_model, other),), log(ran_s / there.quantile(0.5)))
        self._models.setdefault(gpu_model)
        self._add((on_model(kind, gpu_model),), ran_s)

    def _add(self, keys: Iterable[str], value: float) -> None:
        histories = self._histories
        for key in keys:
            # The one that was seen last goes to the end.
            recent = histories.pop(key, None)
            if recent is None:
                recent = RecentValues()
            recent.add(value)
            histories[key] = recent
            if len(histories) > KINDS_MAX:
                _forget(histories, KINDS_MAX)

    def _spread(self, bucket: str) -> Spread:
        return self._spreads.setdefault(bucket, Spread())


def _forget(known: dict[str, _T], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]


def _past(recent: RecentValues, words: str, bucket: str) -> _Past:
    count = len(recent)
    # One run tells less than four: their errors are kept apart.
    few = "1" if count == 1 else "2" if count < 4 else "4"
    seconds, upper = recent.quantiles(_PLANNED, _HELD)
    return _Past(max(_SHORTEST_S, seconds), count, words, bucket + few, max(_SHORTEST_S, upper))


def _longest(spec: JobSpec, said: Estimate | None, past: _Past | None) -> float:
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
