"""The page of `ares explain`, section by section. Pure: the time is given."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ares.edge.cli.render.changes import as_typed
from ares.edge.cli.render.job_cells import runtime_of
from ares.edge.cli.render.table import layout
from ares.edge.cli.render.text import amount, cpus, duration, memory, printable

if TYPE_CHECKING:
    from ares.api.decisions import AskExplained, Eta, Explanation, FactorShown, Standing
    from ares.api.jobs import JobDetail

REMEDIES: Mapping[str, str] = {
    "yours": "yours to fix: it can never start as it is",
    "wait": "wait: it starts when others have ended",
    "operator": "the operator's: the cluster needs attention, see `ares nodes`",
}
_GPUS_MAX = 32


def page(found: "Explanation", detail: "JobDetail", now: float) -> list[str]:
    """All there is to say, the most useful first."""
    head = f"{printable(detail.state.name)}  {found.job}  {found.phase}"
    if found.reason is None and not found.alternatives:
        return [head, f"  {_not_waiting(found.phase)}"]
    lines = [f"{head} for {duration(now - (detail.state.queued_at or detail.state.submitted_at))}", ""]
    facts = [*_facts(found, now), ("Runtime", runtime_of(detail.spec))]
    lines += [f"  {label:<12}{printable(text)}" for label, text in facts if text]
    for number, alternative in enumerate(found.alternatives):
        title = (
            "" if len(found.alternatives) == 1 else f" for alternative {number}" if number else " for the first choice"
        )
        lines += _funnel(alternative, title) + _nearest(alternative, title)
    lines += _gpus(found) + _holders(found, now) + _rank(found.factors) + _limits(found.limits)
    return lines


def _not_waiting(phase: str) -> str:
    if phase in {"STAGING", "RUNNING"}:
        return "it does not wait; `ares show` says where it runs"
    if phase in {"WAITING", "RETRYING", "PREEMPTED"}:
        return "it is not in the queue now, but will come back to it; `ares show` says when"
    return "it has ended; `ares show` says how"


def _facts(found: "Explanation", now: float) -> list[tuple[str, str]]:
    reason = found.reason
    change = found.change
    return [
        ("Reason", "" if reason is None else f"{reason.code}: {reason.message}"),
        ("Whose move", REMEDIES.get(found.remedy or "", "")),
        ("Position", _position(found)),
        ("Starts", "" if found.starts is None else starts(found.starts, now)),
        ("ETA", "" if found.eta is None else _eta(found.eta, now)),
        ("Promised", _promise(found, now)),
        ("Preempting", found.no_eviction),
        ("Start now", "" if change is None else f"{change.message}: {as_typed(change.fields)}"),
    ]


def _eta(eta: "Eta", now: float) -> str:
    """The interval that four of five like it start in, and how often such intervals held."""
    return f"{starts(eta, now)}; meant to hold in 4 of 5 cases, see `ares predict error`"


def _promise(found: "Explanation", now: float) -> str:
    """Held from when on, and where."""
    promise = found.promise
    if promise is None:
        return ""
    nodes = sorted({place.node for place in promise.placements})
    where = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    when = "now" if promise.start <= now else f"in {duration(promise.start - now)}"
    return f"a start {when} on {where}: the room is held for it from then on"


def _position(found: "Explanation") -> str:
    if found.ahead is None:
        return ""
    if not found.ahead:
        return "next: nobody is ahead of it"
    own = "" if found.ahead_in_tenant is None else f", {found.ahead_in_tenant} of your own"
    return f"{found.ahead} ahead{own}"


def when(eta: "Eta", now: float) -> str:
    """now, in 4m, in 4m to 12m, or not before 4m."""
    earliest = max(0.0, eta.earliest - now)
    if eta.latest is None:
        return f"not before {duration(earliest)} from now" if earliest >= 1 else "nobody can say"
    latest = max(0.0, eta.latest - now)
    if latest <= 2:
        return "now"
    if int(earliest) == int(latest):
        return f"in {duration(latest)}"
    return f"in {duration(earliest)} to {duration(latest)}"


def starts(eta: "Eta", now: float) -> str:
    return f"{when(eta, now)}: {eta.basis} (worked out {duration(now - eta.computed_at)} ago)"


def section(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table with a title and an empty line before it; nothing when it has no rows."""
    cells = list(rows)
    return ["", title, *(f"  {line}" for line in layout(header, cells))] if cells else []


def _funnel(alternative: "AskExplained", title: str) -> list[str]:
    """From all machines down: filters that refused some, and what is left at the end."""
    rows: list[tuple[str, str, str]] = []
    before = None
    for step in alternative.funnel:
        if before is None:
            rows.append(("all machines", str(step.nodes), ""))
        elif step.nodes != before:
            rows.append((step.filter, str(step.nodes), str(before - step.nodes)))
        before = step.nodes
    return section(f"Machines left{title}", ("AFTER", "LEFT", "REFUSED"), rows)


def _nearest(alternative: "AskExplained", title: str) -> list[str]:
    rows = ((miss.node, miss.refused_by, miss.message) for miss in alternative.nearest)
    return section(f"Nearest misses{title}", ("NODE", "REFUSED BY", "WHY"), rows)


def _gpus(found: "Explanation") -> list[str]:
    """Free ones first on each machine: they are what is there."""
    rows = [
        (
            gpu.node,
            str(gpu.index),
            gpu.model,
            memory(gpu.memory_mib),
            "in MIG slices" if gpu.mig else f"{gpu.free_milli / 10:g}%",
            str(gpu.numa_node),
            ", ".join(gpu.jobs) or ("" if gpu.free_milli == 1000 else "of another tenant"),
        )
        for gpu in found.gpus[:_GPUS_MAX]
    ]
    more = len(found.gpus) - _GPUS_MAX
    lines = section("GPUs there", ("NODE", "GPU", "MODEL", "MEMORY", "FREE", "NUMA", "HELD BY"), rows)
    return [*lines, f"  ... and {more} more"] if more > 0 else lines


def _holders(found: "Explanation", now: float) -> list[str]:
    rows = (
        (
            holder.node,
            holder.job or "of another tenant",
            amount(holder.gpus),
            amount(holder.cpus),
            "kept for it" if holder.reserved else duration(now - holder.since),
            ""
            if holder.reserved
            else "does not say"
            if holder.ends_at is None
            else f"in {duration(holder.ends_at - now)}",
        )
        for holder in found.holders
    )
    return section("Who is there", ("NODE", "JOB", "GPUS", "CPUS", "SINCE", "ENDS"), rows)


def _rank(factors: "tuple[FactorShown, ...]") -> list[str]:
    """The rank is the sum of the parts as they are shown."""
    primary = [factor for factor in factors if factor.sum == "primary"]
    rows = [_part(factor.name, factor) for factor in primary]
    rows += [("rank", "", "", f"{sum(round(factor.product, 2) for factor in primary):.2f}")] if rows else []
    rows += [_part(f"{factor.name} (between equals)", factor) for factor in factors if factor.sum != "primary"]
    return section("Rank", ("FACTOR", "VALUE", "x WEIGHT", "= PART"), rows)


def _part(name: str, factor: "FactorShown") -> tuple[str, ...]:
    return name, f"{factor.value:.4f}", f"{factor.weight:g}", f"{factor.product:.2f}"


def _limits(limits: "tuple[Standing, ...]") -> list[str]:
    def shown(standing: "Standing", value: int | None) -> str:
        if value is None:
            return ""
        return memory(value) if standing.resource == "memory" else cpus(value)

    rows = (
        (
            limit.path,
            limit.resource,
            shown(limit, limit.asked),
            shown(limit, limit.used),
            shown(limit, limit.limit),
            "" if limit.limit is None else shown(limit, max(0, limit.limit - limit.used)),
            shown(limit, limit.soft),
        )
        for limit in limits
    )
    return section("Limits", ("OF", "RESOURCE", "ASKED", "USED", "LIMIT", "FREE", "OWN SHARE"), rows)
