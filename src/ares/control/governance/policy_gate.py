"""Policies applied to jobs: compiled once, run for every submission."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.policy.facts import NUMBERS, PolicyJob, facts, ways
from ares.core.policy.setting import put, type_of
from ares.core.policy.verdict import PolicyVerdict, Said, said, unanswered
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import JobSpec
from ares.model.policy import Mistake, PolicyRecord, Type
from ares.ports.clock import Clock
from ares.ports.policy import CompiledRule, CompiledRules, Failed, Value

_COMPILED_MAX = 5000
# How much of a second, each second, the policies of one tenant may take, and how much may be saved up.
_SHARE = 0.2
_SAVED_S = 2.0

Numbers = Mapping[str, float]


class Submission(NamedTuple):
    """What is known about a job besides itself. What costs something to know is asked for when a rule reads it."""

    who: Principal
    spec: JobSpec
    tasks: int = 1
    is_retry: bool = False
    at: float = 0.0
    # Of one task.
    cost: Callable[[], float] | None = None
    tenant: Callable[[], Numbers] | None = None


class Ready(NamedTuple):
    """A policy, compiled."""

    record: PolicyRecord
    when: CompiledRule | Mistake
    sets: tuple[tuple[str, CompiledRule | Mistake], ...] = ()

    @property
    def reads(self) -> set[str]:
        rules = (self.when, *(rule for _, rule in self.sets))
        return {name for rule in rules if not isinstance(rule, Mistake) for name in rule.names}


class _InForce(NamedTuple):
    """Of one tenant: the platform's first, then its own, by name."""

    sets: tuple[Ready, ...]
    rejects: tuple[Ready, ...]
    tells: tuple[Ready, ...]
    reads: frozenset[str]
    # Whether any of those that refuse or tell has something to say: most jobs are asked this alone.
    any: CompiledRule | None = None


class _Facts:
    """A job's facts, and what rules are run on, for each way it could run."""

    def __init__(self, rules: CompiledRules, reads: frozenset[str], given: Submission, spec: JobSpec) -> None:
        numbers: Numbers = given.tenant() if given.tenant and not reads.isdisjoint(NUMBERS) else {}
        cost = given.cost() * given.tasks if given.cost and "job.cost" in reads else 0.0
        self.ways: list[tuple[Mapping[str, object], object]] = []
        for way in ways(spec):
            known = facts(PolicyJob(given.who, way, given.at, given.tasks, cost, given.is_retry, numbers), reads)
            self.ways.append((known, rules.values(known)))

    def find(self, rule: CompiledRule) -> tuple[bool | Failed, Mapping[str, object]]:
        """Whether it is true of any way, and the facts of that way."""
        for known, values in self.ways:
            found = rule.run(values)
            if isinstance(found, Failed) or found is True:
                return found, known
        return False, self.ways[0][0]

    def value(self, rule: CompiledRule) -> Value | Failed:
        return rule.run(self.ways[0][1])


class Judging:
    """A rule that has no answer denies: what cannot be judged is not let in."""

    def __init__(self, view: View, clock: Clock, rules: CompiledRules | None) -> None:
        self._view = view
        self._clock = clock
        self._rules = rules
        self._compiled: dict[tuple[str, Type], CompiledRule | Mistake] = {}
        self._in_force: dict[str, _InForce | None] = {}
        # By tenant: seconds its own policies may still take, and when that was so.
        self._left: dict[str, tuple[float, float]] = {}
        self._joined: dict[tuple[str, ...], CompiledRule | None] = {}
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted or keys.POLICIES in delta.kept:
            self._in_force.clear()
            self._joined.clear()

    # ---- compiling

    def ready(self, record: PolicyRecord) -> Ready:
        sets = tuple((path, self._rule(text, type_of(path))) for path, text in record.set.items())
        return Ready(record, self._rule(record.when, "bool"), sets)

    def _rule(self, expression: str, wanted: Type | None) -> CompiledRule | Mistake:
        if self._rules is None:
            return Mistake(message="this server has no language for policies")
        if wanted is None:
            return Mistake(message="no such field may be set")
        found = self._compiled.get((expression, wanted))
        if found is None:
            if len(self._compiled) >= _COMPILED_MAX:
                self._compiled.clear()
            found = self._compiled[expression, wanted] = self._rules.compile(expression, wanted)
        return found

    def _of(self, tenant: str) -> _InForce | None:
        if tenant not in self._in_force:
            known = self._view.kept.policies
            whose = (keys.scoped("", ""), keys.scoped(tenant, ""))
            found = [
                self.ready(record)
                for prefix in whose
                for name, record in sorted(known.items())
                if name.startswith(prefix) and record.enabled
            ]
            self._in_force[tenant] = self._quick(_sorted(found)) if found else None
        return self._in_force[tenant]

    def _quick(self, in_force: _InForce) -> _InForce:
        rules = [policy.when for policy in (*in_force.rejects, *in_force.tells)]
        good = [rule for rule in rules if not isinstance(rule, Mistake)]
        if self._rules is None or len(good) < len(rules) or len(rules) < 2:
            return in_force
        # Most tenants have the platform's rules and none of their own: they share what is compiled.
        joined = tuple(rule.expression for rule in good)
        if joined not in self._joined:
            self._joined[joined] = self._rules.any_of(good)
        return in_force._replace(any=self._joined[joined])

    # ---- judging

    def concerns(self, tenant: str) -> bool:
        """Whether any policy is in force for the tenant's jobs."""
        return self._of(tenant) is not None

    def judge(self, given: Submission) -> PolicyVerdict:
        """Defaults first, then refusals, then warnings and alerts, all of the job as it became."""
        in_force = self._of(given.who.tenant)
        if in_force is None or self._rules is None:
            return PolicyVerdict(spec=given.spec) if in_force is None else _unjudged(in_force, given.spec)
        if (tired := self._tired(in_force, given.who.tenant)) is not None:
            return PolicyVerdict(spec=given.spec, rejected=tired)
        return self._timed(in_force, self._rules, given, given.who.tenant)

    def _timed(self, in_force: _InForce, rules: CompiledRules, given: Submission, tenant: str) -> PolicyVerdict:
        began = self._clock.monotonic()
        judged = _judge(rules, in_force, given)
        now = self._clock.monotonic()
        self._left[tenant] = self._left_to(tenant, began) - (now - began), began
        return judged

    def _left_to(self, tenant: str, now: float) -> float:
        """Seconds that the rules of a tenant may still take."""
        left, since = self._left.get(tenant, (_SAVED_S, now))
        return min(_SAVED_S, left + (now - since) * _SHARE)

    def _tired(self, in_force: _InForce, tenant: str) -> Said | None:
        """One tenant's costly rules must not hold up the others."""
        if self._left_to(tenant, self._clock.monotonic()) > 0.0:
            return None
        record = max(
            (*in_force.sets, *in_force.rejects, *in_force.tells), key=lambda policy: policy.record.tenant
        ).record
        message = f"the policies of {tenant} took more than {_SHARE:.0%} of the time; have them simplified"
        return Said(policy=record.name, tenant=record.tenant, message=message)

    def try_one(self, ready: Ready, given: Submission, tenant: str) -> PolicyVerdict | None:
        """What one policy alone would have made of a job. None when `tenant` has used up its time for now."""
        if self._rules is None or self._left_to(tenant, self._clock.monotonic()) <= 0.0:
            return None
        return self._timed(_sorted([ready]), self._rules, given, tenant)


def _sorted(found: list[Ready]) -> _InForce:
    by = {action: tuple(policy for policy in found if policy.record.action == action) for action in ("set", "reject")}
    tells = tuple(policy for policy in found if policy.record.action in ("warn", "alert"))
    reads = frozenset(name for policy in found for name in policy.reads)
    return _InForce(by["set"], by["reject"], tells, reads)


def _judge(rules: CompiledRules, in_force: _InForce, given: Submission) -> PolicyVerdict:
    spec, known = given.spec, _Facts(rules, in_force.reads, given, given.spec)
    for policy in in_force.sets:
        after = _set(policy, known, spec)
        if isinstance(after, Said):
            return PolicyVerdict(spec=given.spec, rejected=after)
        if after is not spec:
            spec, known = after, _Facts(rules, in_force.reads, given, after)
    if in_force.any is not None and known.find(in_force.any)[0] is False:
        return PolicyVerdict(spec=spec)
    for policy in in_force.rejects:
        if (no := _says(policy, known)) is not None:
            return PolicyVerdict(spec=spec, rejected=no)
    told: dict[str, list[Said]] = {"warn": [], "alert": []}
    for policy in in_force.tells:
        found = _says(policy, known)
        if found is not None and found.unanswered:
            return PolicyVerdict(spec=spec, rejected=found)
        if found is not None:
            told[policy.record.action].append(found)
    return PolicyVerdict(spec=spec, warnings=tuple(told["warn"]), alerts=tuple(told["alert"]))


def _set(policy: Ready, known: _Facts, spec: JobSpec) -> JobSpec | Said:
    found = _says(policy, known)
    if found is None or found.unanswered:
        return found or spec
    for path, rule in policy.sets:
        value = Failed(message=str(rule)) if isinstance(rule, Mistake) else known.value(rule)
        after = value if isinstance(value, Failed) else put(spec, path, value)
        if isinstance(after, Failed | Refusal):
            return unanswered(policy.record, after.message)
        spec = after
    return spec


def _says(policy: Ready, known: _Facts) -> Said | None:
    """The verdict of a policy that applies to the job, or that its condition cannot be evaluated."""
    if isinstance(policy.when, Mistake):
        return unanswered(policy.record, str(policy.when))
    found, of = known.find(policy.when)
    if isinstance(found, Failed):
        return unanswered(policy.record, found.message)
    return said(policy.record, of, policy.when.names) if found else None


def _unjudged(in_force: _InForce, spec: JobSpec) -> PolicyVerdict:
    policy = (*in_force.sets, *in_force.rejects, *in_force.tells)[0]
    return PolicyVerdict(spec=spec, rejected=unanswered(policy.record, "this server has no language for policies"))
