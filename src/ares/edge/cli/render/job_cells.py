"""Jobs as people read them: cells of tables and lines of `ares show`. Pure: the time is given."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from ares.edge.cli.render.text import cpus, duration, memory

if TYPE_CHECKING:
    from ares.api.decisions import Eta
    from ares.api.jobs import Waiting
    from ares.model.job import JobSpec, Resources
    from ares.model.state import ExitInfo, JobState, LedgerEvent, Phase, Placement

JOB_HEADER = ("ID", "NAME", "STATE", "ATTEMPT", "AGE", "RUN", "ETA", "NODE", "REASON")
JOB_HEADER_WIDE = (
    "ID", "NAME", "STATE", "ATTEMPT", "AGE", "RUN", "ETA", "NODE", "CPUS", "MEMORY", "GPUS", "FENCE", "BY",
    "DEADLINE", "REASON",
)  # fmt: skip
# What gives way on a narrow terminal, in this order: the reason is always shown.
JOB_GIVE_WAY = (
    "FENCE", "ETA", "DEADLINE", "ATTEMPT", "BY", "MEMORY", "CPUS", "NODE", "AGE", "GPUS", "RUN", "NAME",
)  # fmt: skip
_PLACED = 8
_SOON_S = 60.0
_WEEK_S = 6 * 86_400.0
# What deserves a look comes first.
_COUNTED = (
    "FAILED", "UNKNOWN", "RUNNING", "STAGING", "RETRYING", "PREEMPTED", "PENDING", "WAITING", "CANCELLED", "SKIPPED",
    "SUCCEEDED",
)  # fmt: skip
EVENT_HEADER = ("AT", "KIND", "STATE", "ATTEMPT", "FENCE", "BY", "REASON")


def job_row(
    state: "JobState",
    now: float,
    *,
    wide: bool,
    waiting: "Waiting | None" = None,
    tasks: "Mapping[Phase, int] | None" = None,
    at_risk: bool = False,
    mock: bool = False,
) -> tuple[str, ...]:
    """One line of `ares jobs`. An array has `tasks`: how many are in each phase."""
    front = (state.id, state.name, state.phase, str(state.attempt or ""), duration(now - state.submitted_at))
    eta = "" if waiting is None or waiting.eta is None else between(waiting.eta, now)
    where = (run_time(state, now), eta, nodes(state.placements))
    held = (
        cpus(sum(p.cpu_milli for p in state.placements)) if state.placements else "",
        memory(sum(p.memory_mib for p in state.placements)) if state.placements else "",
        _gpus(state.placements, mock),
        str(state.fence),
        state.submitted_by,
        deadline(state, now),
    )
    reason = why(state, now, waiting)
    counted = "" if tasks is None else f"{sum(tasks.values())} tasks: {counts(tasks)}"
    risk = f"will miss its deadline ({deadline(state, now)})" if at_risk else ""
    return (*front, *where, *(held if wide else ()), "; ".join(part for part in (counted, risk, reason) if part))


def _gpus(placements: "tuple[Placement, ...]", mock: bool) -> str:
    count = sum(len(place.gpus) for place in placements)
    return f"{count}{' mock' if mock else ''}" if count else ""


def deadline(state: "JobState", now: float) -> str:
    """in 2h, start in 10m, 5m ago; of a finished job whether it was met."""
    if state.ended_at is not None:
        if state.deadline_at is None:
            return ""
        over = state.ended_at - state.deadline_at
        return f"missed by {duration(over)}" if over > 0 else "met" if state.phase == "SUCCEEDED" else ""
    if state.start_by_at is not None and state.started_at is None and state.first_started_at is None:
        return f"start {until(state.start_by_at, now)}"
    return "" if state.deadline_at is None else until(state.deadline_at, now)


def until(at: float, now: float) -> str:
    return f"in {duration(at - now)}" if at >= now else f"{duration(now - at)} ago"


def between(eta: "Eta", now: float) -> str:
    """now-15:05, 14:20-15:05, Tue 23:50-Wed 00:10; empty when it is unknown."""
    if eta.latest is None:
        return ""
    earliest = "now" if eta.earliest - now < _SOON_S else _clock(eta.earliest, now)
    if eta.latest - now < _SOON_S:
        return earliest
    return f"{earliest}-{_clock(eta.latest, now)}"


def _clock(at: float, now: float) -> str:
    moment, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)  # noqa: DTZ006 - as the reader's clock shows
    form = "%H:%M" if moment.date() == today.date() else "%a %H:%M" if at - now < _WEEK_S else "%d %b %H:%M"
    return moment.strftime(form)


def counts(tasks: "Mapping[Phase, int]") -> str:
    """3 RUNNING, 990 PENDING, 7 SUCCEEDED."""
    return ", ".join(f"{tasks[phase]} {phase}" for phase in _COUNTED if tasks.get(phase))


def run_time(state: "JobState", now: float) -> str:
    """How long the latest attempt ran or runs; nothing while the job waits for the next."""
    if state.started_at is None or state.phase in ("PENDING", "WAITING"):
        return ""
    return duration((now if state.ended_at is None else state.ended_at) - state.started_at)


def nodes(placements: "tuple[Placement, ...]") -> str:
    names = list(dict.fromkeys(p.node for p in placements))
    return f"{names[0]}+{len(names) - 1}" if len(names) > 1 else "".join(names)


def why(state: "JobState", now: float, waiting: "Waiting | None" = None) -> str:
    """What it waits for, the reason of the state, or else how it failed; and when it is tried again."""
    ending = exit_text(state.exit) if state.exit is not None and state.exit.failure is not None else ""
    again = ""
    if state.phase == "RETRYING" and state.retry_at is not None:
        again = f"next try in {duration(state.retry_at - now)}"
    lingering = "processes still ending" if state.lingering else ""
    parts = ("" if waiting is None else waits_for(waiting), state.reason or ending, again, lingering)
    return "; ".join(part for part in parts if part)


def waits_for(waiting: "Waiting") -> str:
    """Why it is not running yet; plainly so if waiting will not help."""
    return f"cannot run: {waiting.message}" if waiting.remedy == "yours" else waiting.message


def exit_text(exit: "ExitInfo") -> str:  # noqa: A002
    """exit 3; SIGKILL (oom); staging: no such file."""
    how = exit.signal or ("" if exit.code is None else f"exit {exit.code}")
    failure = exit.failure if exit.failure not in {None, "exit", "signal"} else ""
    text = f"{how} ({failure})" if how and failure else how or failure or ""
    return f"{text}: {exit.message}" if exit.message and text else text or exit.message


def event_row(event: "LedgerEvent", at: str) -> tuple[str, ...]:
    # An end of the whole gang names the rank in its reason; what a single rank does only in its data.
    rank = f"rank {event.data['rank']}" if event.kind.startswith("rank-") and "rank" in event.data else ""
    reason = ": ".join(part for part in (rank, event.reason) if part)
    return (at, event.kind, event.phase, str(event.attempt or ""), event.fence, event.by, reason)


def asked_for(spec: "JobSpec") -> str:
    """1 CPU, 256Mi, 2 GPUs (A100); of a gang, what each rank has."""
    first = resources(spec.resources)
    gang = spec.gang
    if gang is not None:
        least = "" if gang.min_ranks is None else f"{gang.min_ranks} to "
        spread = "" if gang.per_node is None else f", at most {gang.per_node} on one node"
        first = f"{least}{gang.ranks} ranks{spread}, each {first}"
    return " or ".join((first, *(resources(alternative) for alternative in spec.alternatives)))


def runtime_of(spec: "JobSpec") -> str:
    """torch, 4 processes on each rank, elastic; empty for a command that is started as it is."""
    wish = spec.runtime
    if wish is None:
        return ""
    each = f"{wish.procs} processes on each rank" if isinstance(wish.procs, int) else ""
    each = "one process for each GPU" if wish.procs == "gpus" else each
    parts = (wish.kind, wish.flavour, each, "elastic" if wish.elastic else "")
    return ", ".join(part for part in parts if part)


def resources(ask: "Resources") -> str:
    parts = [
        f"{cpus(ask.cpu_milli)} CPU{'' if ask.cpu_milli == 1000 else 's'}",
        memory(ask.memory_mib) if ask.memory_mib else "memory by its CPUs or GPUs",
    ]
    if ask.gpus:
        share = "" if ask.gpu_milli == 1000 else f"{ask.gpu_milli / 10:g}% of "
        least = f"at least {memory(ask.gpu_memory_mib)}" if ask.gpu_memory_mib else ""
        kind = ", ".join(word for word in (ask.gpu_model, least) if word)
        parts.append(f"{share}{ask.gpus} GPU{'' if ask.gpus == 1 else 's'}{f' ({kind})' if kind else ''}")
    return ", ".join((*parts, *(f"{count} {kind}" for kind, count in ask.devices.items())))


def placed(placements: "tuple[Placement, ...]", *, mock: bool = False) -> str:
    """node-a GPU 0,1 NUMA 0; of a gang, the ranks of each node. Mock GPUs are called so."""
    rank = "rank {} " if len(placements) > 1 else ""
    shown = [rank.format(place.rank) + _place(place, mock) for place in placements[:_PLACED]]
    more = len(placements) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])


def _place(place: "Placement", mock: bool) -> str:
    share = "" if place.gpu_milli == 1000 else f" ({place.gpu_milli / 10:g}% each)"
    parts = (
        place.node,
        f"{'mock ' if mock else ''}GPU {','.join(map(str, place.gpus))}{share}" if place.gpus else "",
        *(f"{kind} {','.join(ids)}" for kind, ids in place.devices.items()),
        "" if place.numa is None else f"NUMA {place.numa}",
    )
    return " ".join(part for part in parts if part)


def pairs(mapping: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in mapping.items())
