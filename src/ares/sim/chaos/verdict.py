"""What a run comes to: figures, violations, and the story of its faults, for programs and for people."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ares.check.invariants.history import Asked, Commit, Event, Fault, ProcessStarted, Violation
from ares.sim.chaos.judge import RULES, ChaosCase

_SHOWN_MAX = 20


class Times(msgspec.Struct, frozen=True, rename="camel"):
    """Seconds; None when there was nothing to measure."""

    count: int = 0
    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class ChaosRule(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    promise: str
    tested: int
    violations: int


class ChaosVerdict(msgspec.Struct, frozen=True, rename="camel"):
    seed: int
    run: str
    duration_s: float
    # Jobs by phase, faults by kind, calls by what they were.
    jobs: dict[str, int]
    attempts: int
    faults: dict[str, int]
    calls: dict[str, int]
    # From the loss of a machine to the decision, and to the next grant.
    detection: Times
    recovery: Times
    # How long the machine that ran all this stood still at most.
    stall_s: float
    rules: tuple[ChaosRule, ...]
    violations: tuple[Violation, ...]
    notes: tuple[str, ...] = ()


def verdict(case: ChaosCase, violations: Sequence[Violation], run: str, notes: Sequence[str]) -> ChaosVerdict:
    broken = Counter(violation.rule for violation in violations)
    events = case.events
    return ChaosVerdict(
        seed=case.options.seed,
        run=run,
        duration_s=case.options.duration_s,
        jobs=dict(sorted(Counter(seen.detail.state.phase for seen in case.jobs.values()).items())),
        attempts=sum(seen.detail.state.attempt for seen in case.jobs.values()),
        faults=dict(sorted(Counter(e.kind for e in events if isinstance(e, Fault) and _begins(e)).items())),
        calls=dict(sorted(Counter(e.verb for e in events if isinstance(e, Asked)).items())),
        detection=times(case.detection_s),
        recovery=times(case.recovery_s),
        stall_s=round(case.stall_s, 3),
        rules=tuple(ChaosRule(rule, words, case.tested[rule], broken[rule]) for rule, (words, _) in RULES.items()),
        violations=tuple(violations),
        notes=tuple(notes),
    )


def _begins(fault: Fault) -> bool:
    return not fault.over or fault.kind == "kill-job"


def times(samples: Sequence[float]) -> Times:
    if not samples:
        return Times()
    ordered = sorted(samples)

    def at(part: float) -> float:
        return round(ordered[math.ceil(part * len(ordered)) - 1], 2)

    return Times(len(ordered), at(0.5), at(0.99), round(ordered[-1], 2))


# ---- in words


def summary(found: ChaosVerdict) -> Iterator[str]:
    """For a terminal."""
    yield f"seed {found.seed}, {found.duration_s:g} s of faults"
    yield f"  jobs       {sum(found.jobs.values())}: {_counted(found.jobs)}; {found.attempts} attempts"
    yield f"  faults     {sum(found.faults.values())}: {_counted(found.faults)}"
    yield f"  calls      {sum(found.calls.values())}: {_counted(found.calls)}"
    yield f"  detection  {_times(found.detection)}"
    yield f"  recovery   {_times(found.recovery)}"
    yield f"  stalls     this machine stood still for up to {found.stall_s:.2f} s"
    yield ""
    for rule in found.rules:
        word = f"{rule.violations} broken" if rule.violations else "kept" if rule.tested else "not tried"
        yield f"  {rule.id:<4} {word:>10}  {rule.tested:>6}  {rule.promise}"
    if found.violations:
        yield ""
    for violation in found.violations[:_SHOWN_MAX]:
        yield f"  {violation.rule} {f'job {violation.job}: ' if violation.job else ''}{violation.what}"
    if len(found.violations) > _SHOWN_MAX:
        yield f"  and {len(found.violations) - _SHOWN_MAX} more"
    for note in found.notes:
        yield f"  note: {note}"
    yield ""
    yield f"FAILED: {len(found.violations)} violations" if found.violations else "PASSED: every promise was kept"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _times(measured: Times) -> str:
    if not measured.count:
        return "no attempt was lost"
    return f"p50 {measured.p50:g} s, p99 {measured.p99:g} s, max {measured.max:g} s, of {measured.count} lost attempts"


def story(events: Sequence[Event]) -> Iterator[str]:
    """The faults in their order, and what jobs did meanwhile."""
    began = events[0].t if events else 0.0
    starts = grants = 0
    for event in events:
        if isinstance(event, ProcessStarted):
            starts += 1
        elif isinstance(event, Commit):
            grants += any('"kind":"bound"' in (write.value or "") for write in event.writes)
        elif isinstance(event, Fault):
            meanwhile = f"{grants} grants, {starts} starts" if grants or starts else "nothing"
            starts = grants = 0
            yield f"{event.t - began:8.2f} s  {event.who}: {event.what}  (since the last: {meanwhile})"


def page(found: ChaosVerdict, events: Sequence[Event]) -> str:
    """A report in Markdown."""
    lines = [
        "# ares chaos",
        "",
        "```text",
        *summary(found),
        "```",
        "",
        "## Faults",
        "",
        "```text",
        *story(events),
        "```",
        "",
    ]
    return "\n".join(lines)
