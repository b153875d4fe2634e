"""`ares show`: all about one job."""

import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument
from ares.edge.cli.render.job_cells import (
    asked_for,
    deadline,
    exit_text,
    pairs,
    placed,
    resources,
    run_time,
    runtime_of,
    why,
)
from ares.edge.cli.render.output import output_option, print_objects
from ares.edge.cli.render.text import duration, memory

if TYPE_CHECKING:
    from ares.api.jobs import JobDetail
    from ares.api.usage import Use
    from ares.edge.client.sync import Client
    from ares.model.job import JobSpec, JobTerm
    from ares.model.state import LedgerEvent, Phase

FAILED: "tuple[Phase, ...]" = ("FAILED", "UNKNOWN")
FAILURES_MAX = 5
CHILDREN_MAX = 3
REFERENCES_MAX = 3


@click.command()
@job_argument()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show(ctx: click.Context, job: str, output: str) -> None:
    """Shows all about a job.

    What was asked for, where it is, what it waits for, its attempts and its result; of an array, the
    states of its tasks and the first that failed. JOB is an id or the beginning of one.
    """
    from ares.edge.client.calls import calls

    client = connect(ctx)
    full = find_job(client, job)
    raw: Any = client.send(calls.job(full).raw())
    if print_objects(output, raw, lambda detail: [detail["state"]["id"]]):
        return
    import msgspec

    from ares.api.jobs import JobDetail

    detail = msgspec.convert(raw, JobDetail)
    if detail.array_counts is None:
        lines = render(detail, client.job_events(full), time.time(), _uses_now(client, detail))
    else:
        lines = render(detail, (), time.time()) + _failed_tasks(client, detail, time.time())
    for line in lines:
        click.echo(line)


def _failed_tasks(client: "Client", detail: "JobDetail", now: float) -> list[str]:
    """The first tasks of an array that went wrong, and how to see the others."""
    from itertools import islice

    from ares.edge.cli.render.job_cells import JOB_HEADER, job_row
    from ares.edge.cli.render.table import layout

    total = sum((detail.array_counts or {}).get(phase, 0) for phase in FAILED)
    if not total:
        return []
    array = detail.state.id
    tasks = islice(client.list(array=array, phase=FAILED, sort="submitted", page=FAILURES_MAX), FAILURES_MAX)
    lines = ["", *layout(JOB_HEADER, (job_row(task, now, wide=False) for task in tasks))]
    if total > FAILURES_MAX:
        lines.append(f"... {total} in all: ares jobs --array {array} --phase FAILED")
    return lines


def _uses_now(client: "Client", detail: "JobDetail") -> str:
    """0.98 of 1 CPUs, 120Mi of 256Mi, 3 processes, GPUs: 0.91 of 1, 12Gi; nothing where that is not known."""
    from ares.edge.cli.commands.top import gpus_now
    from ares.edge.client.errors import AresError

    if detail.state.phase != "RUNNING":
        return ""
    try:
        ranks = client.use(detail.state.id).ranks
    except AresError:
        # A server of an earlier version, or a node that does not answer.
        return ""
    if not ranks:
        return ""
    cpus, asked = sum(use.cpus for use in ranks), sum(use.cpus_asked for use in ranks)
    used, room = sum(use.memory_bytes for use in ranks), sum(use.memory_asked_bytes for use in ranks)
    count = sum(use.processes for use in ranks)
    gpus = f", GPUs: {gpus_now(ranks)}" if any(use.gpus for use in ranks) else ""
    return f"{cpus:.2f} of {asked:g} CPUs, {memory(used >> 20)} of {memory(room >> 20)}, {count} processes{gpus}"


def render(detail: "JobDetail", events: "tuple[LedgerEvent, ...]", now: float, uses_now: str = "") -> list[str]:
    """The lines of the view for people."""
    from ares.edge.cli.render.job_cells import EVENT_HEADER, event_row
    from ares.edge.cli.render.table import layout
    from ares.edge.cli.render.text import phase_colour, printable, use_colour

    facts = [(label, text) for label, text in (*_facts(detail, events, now), ("Uses now", uses_now)) if text]
    phase = detail.state.phase
    shown = click.style(phase, fg=phase_colour(phase)) if use_colour() else phase
    lines = [f"{printable(detail.state.name)}  {detail.state.id}  {shown}"]
    lines += [f"  {label:<12}{printable(text)}" for label, text in facts]
    if events:
        start = events[0].at
        lines += ["", *layout(EVENT_HEADER, (event_row(e, f"+{duration(e.at - start)}") for e in events))]
    return lines


def _facts(detail: "JobDetail", events: "tuple[LedgerEvent, ...]", now: float) -> list[tuple[str, str]]:
    import json

    spec, state, progress = detail.spec, detail.state, detail.progress
    times = {"time limit": spec.time_limit_s, "grace": spec.grace_s, "lease": spec.lease_s}
    limits = ", ".join(f"{name} {duration(value)}" for name, value in times.items() if value is not None)
    fraction = "" if progress is None or progress.fraction is None else f"{progress.fraction:.0%} "
    return [
        ("Command", shlex.join(spec.command)),
        ("Runtime", runtime_of(spec)),
        ("Asks for", asked_for(spec)),
        (
            "Policy",
            f"priority {spec.priority}, restart {spec.restart}, retries {spec.retry.limit}, effects {spec.effects}"
            + ("" if spec.qos == "guaranteed" else f", {spec.qos}"),
        ),
        ("Limits", limits),
        ("Directory", spec.workdir or ""),
        ("Project", spec.project or ""),
        ("Image", "" if spec.image is None else spec.image.ref),
        ("Python", "" if spec.python is None else spec.python.path or f"built from {spec.python.file}"),
        # Names only: values are often secrets. `-o yaml` has them.
        ("Environment", ", ".join(spec.env)),
        ("Secrets", ", ".join(f"{ref.name} as {ref.target}" for ref in spec.secrets)),
        ("Labels", pairs(spec.labels)),
        ("Selector", pairs(spec.selector)),
        ("Notify", ", ".join(spec.notify)),
        ("Place", _wishes(spec)),
        ("Inputs", _inputs(spec)),
        ("Reads", _references(spec)),
        ("Licences", pairs(spec.licences)),
        ("Team", state.team or ""),
        ("Service", state.sla or ""),
        ("Deadline", _deadline(detail, now)),
        ("Submitted", _submitted(detail, now)),
        ("Retry of", state.retry_of or ""),
        ("Child of", "" if state.child_of is None else f"{state.child_of.job}, by its call {state.child_of.call}"),
        ("Children", _children(detail)),
        ("Array", _array(detail)),
        ("Queue", _queue(detail)),
        ("ETA", _eta(detail, now)),
        ("Attempt", f"{state.attempt}, fence {state.fence}" if state.attempt else ""),
        ("Alternative", _alternative(detail)),
        ("Node", placed(state.placements, mock=detail.mock_gpus)),
        ("Leaving", placed(state.leaving)),
        ("Kept", _hold(detail)),
        ("Preemption", _yields(detail, now)),
        ("Checkpoint", _checkpoints(detail, now)),
        ("Decision", _decision(events)),
        ("Run time", run_time(state, now)),
        ("Planned", "" if state.planned_s is None else f"{duration(state.planned_s)}, by what was known at its start"),
        ("Cost", _cost(detail)),
        ("Used", _used(detail.used)),
        ("Progress", "" if progress is None else f"{fraction}{progress.message}".strip()),
        ("Reason", why(state, now, detail.waiting)),
        ("Remedy", "" if detail.waiting is None else _REMEDIES.get(detail.waiting.remedy, "")),
        ("Exit", "" if state.exit is None else _exit(detail, exit_text(state.exit))),
        ("Result", "" if detail.result is None or detail.result.value is None else json.dumps(detail.result.value)),
        ("Outputs", _outputs(detail)),
    ]


def _children(detail: "JobDetail") -> str:
    """3 of 10: 2 RUNNING, 1 SUCCEEDED; the newest are part 7k2m4x9c2xzwez80, ..."""
    from ares.edge.cli.render.job_cells import counts

    if detail.child_counts is None:
        return f"none of {detail.spec.children} yet" if detail.spec.children else ""
    made = f"{sum(detail.child_counts.values())} of {detail.spec.children}: {counts(detail.child_counts)}"
    newest = ", ".join(f"{child.name} {child.id}" for child in detail.children[-CHILDREN_MAX:])
    return f"{made}; the newest are {newest}" if newest else made


def _outputs(detail: "JobDetail") -> str:
    files = () if detail.result is None else detail.result.outputs
    total = sum(file.size for file in files)
    return f"{len(files):,} files, {total:,} bytes: ares outputs {detail.state.id}" if files else ""


def _inputs(spec: "JobSpec") -> str:
    """data: ares://datasets/mnist@sha256:..., 50 MiB, cache"""
    staged = (given for given in spec.inputs if given.from_ is not None)
    return "; ".join(f"{given.name}: {given.from_}, {memory(given.size_mib)}, {given.mode}" for given in staged)


def _references(spec: "JobSpec") -> str:
    shown, more = spec.input_refs[:REFERENCES_MAX], len(spec.input_refs) - REFERENCES_MAX
    return ", ".join((*shown, *([f"and {more} more"] if more > 0 else [])))


def _cost(detail: "JobDetail") -> str:
    """What it is expected to cost. A submitter's claim is told as one: nothing is decided by it."""
    own, claimed = detail.state.cost_estimate, detail.spec.claimed_cost
    parts = [f"{own:,.2f} expected"] if own else []
    parts += [f"{claimed:,.2f} claimed by its submitter"] if claimed is not None else []
    return ", ".join(parts)


def _used(used: "Use") -> str:
    """Of all attempts: 2.00 GPU-hours, 0.84 kWh, cost 5.10; 30 % of the GPU time lost; draws 420 W."""
    if not used.cpu_s and not used.gpu_s:
        return ""
    hours = f"{used.gpu_s / 3600:,.2f} GPU-hours" if used.gpu_s else f"{used.cpu_s / 3600:,.2f} CPU-hours"
    energy = f"{used.energy_wh / 1000:,.2f} kWh" if used.energy_wh >= 100 else f"{used.energy_wh:,.2f} Wh"
    parts = [hours, *([energy] if used.energy_wh else []), *([f"cost {used.cost:,.2f}"] if used.cost else [])]
    lost = [f"{used.lost_gpu_s / used.gpu_s:.0%} of the GPU time lost"] if used.lost_gpu_s else []
    return "; ".join([", ".join(parts), *lost, *([f"draws {used.watts:,.0f} W"] if used.watts else [])])


def _deadline(detail: "JobDetail", now: float) -> str:
    """When it is, and whether it will be met; of a finished job whether it was."""
    from msgspec.structs import replace

    # A job from before its record knew has it in its specification only.
    state, seen = replace(detail.state, deadline_at=detail.spec.deadline_at), detail.deadline
    if seen is None or seen.verdict == "yes":
        return "; ".join(part for part in (deadline(state, now), "" if seen is None else seen.message) if part)
    ways = f"; would be met {', or '.join(way.message for way in seen.ways)}" if seen.ways else ""
    return f"{deadline(state, now)}: {seen.message}{ways}"


def _submitted(detail: "JobDetail", now: float) -> str:
    state = detail.state
    who = f" by {state.submitted_by}" if state.submitted_by else ""
    return f"{duration(now - state.submitted_at)} ago{who}, tenant {state.tenant}"


_REMEDIES = {
    "yours": "ask for less or for something else: submit it again, and cancel this one",
    "wait": "it starts when others have ended",
    "operator": "the cluster needs attention: see `ares nodes`",
}


def _eta(detail: "JobDetail", now: float) -> str:
    from ares.edge.cli.render.explanation import starts
    from ares.edge.cli.render.job_cells import between

    eta = None if detail.waiting is None else detail.waiting.eta
    if eta is None:
        return ""
    clock = between(eta, now)
    return f"{clock}, {starts(eta, now)}" if clock else starts(eta, now)


def _queue(detail: "JobDetail") -> str:
    ahead = detail.queue_position
    return "" if ahead is None else f"{ahead} ahead of it" if ahead else "next"


def _array(detail: "JobDetail") -> str:
    from ares.edge.cli.render.job_cells import counts

    if detail.array_counts is not None:
        return f"{detail.spec.array}: {counts(detail.array_counts)}"
    return "" if detail.state.array is None else f"task {detail.state.index} of {detail.state.array}"


def _wishes(spec: "JobSpec") -> str:
    """What it says about where it runs, beside labels."""
    wish = spec.topology
    parts = [
        "" if wish is None else f"one {wish.level} {'required' if wish.required else 'preferred'}",
        "" if spec.numa == "none" else f"one NUMA node {spec.numa}",
        *(
            f"{'requires' if t.required else 'prefers'} {t.key} {t.op} {','.join(t.values)}".strip()
            for t in spec.affinity
        ),
        *(_near(term) for term in spec.job_affinity),
        *(
            f"tolerates {toleration.key}{'' if toleration.value is None else f'={toleration.value}'}"
            for toleration in spec.tolerations
        ),
        f"in {' or '.join(spec.residency)}" if spec.residency else "",
        "moves when its cluster is cut off" if spec.on_partition == "move" else "",
        "" if spec.isolation == "any" else f"isolation {spec.isolation}",
        "" if spec.network == "host" else f"network {spec.network}",
        *(f"reads {given.name} ({memory(given.size_mib)})" for given in spec.inputs if given.from_ is None),
    ]
    return "; ".join(part for part in parts if part)


def _near(term: "JobTerm") -> str:
    how = "" if term.required else "rather "
    labels = ",".join(f"{key}={value}" for key, value in term.labels.items())
    return f"{how}{'away from' if term.away else 'near'} {labels} by {term.level}"


def _yields(detail: "JobDetail", now: float) -> str:
    """Whether it gives way, and how often it did."""
    wish, state = detail.spec.preemption, detail.state
    last = "" if state.preempted_at is None else f", last {duration(now - state.preempted_at)} ago"
    parts = (
        "" if wish.allowed else "not allowed",
        "" if wish.checkpoint_signal is None else f"{wish.checkpoint_signal} first, {duration(wish.wait_s)} to save",
        f"{state.preemptions} so far{last}: ares why-preempted {state.id}" if state.preemptions else "",
    )
    return "; ".join(part for part in parts if part)


def _checkpoints(detail: "JobDetail", now: float) -> str:
    """Its newest checkpoint, and what it loses without one."""
    newest, policy = detail.state.checkpoint, detail.spec.checkpoint
    if newest is None:
        return "" if policy is None else "none yet"
    size, ago = f"{newest.size:,} bytes", duration(max(0.0, now - newest.taken_at))
    said = f"step {newest.step:,}, {size}, {ago} ago: ares checkpoints {detail.state.id}"
    damaged = len(detail.state.damaged)
    return f"{said}; {damaged} damaged" if damaged else said


def _hold(detail: "JobDetail") -> str:
    state = detail.state
    if not state.hold:
        return ""
    leaving = f", until {', '.join(state.evicting)} left" if state.evicting else ""
    return f"room is kept on {placed(state.hold)}{leaving}"


def _alternative(detail: "JobDetail") -> str:
    number = detail.state.alternative
    known = detail.spec.alternatives[number - 1 : number] if number else ()
    return f"{number}: {resources(known[0])}" if known else ""


def _decision(events: "tuple[LedgerEvent, ...]") -> str:
    """The name of the latest, for `ares replay`."""
    return next((str(e.data["decision"]) for e in reversed(events) if e.kind == "bound" and "decision" in e.data), "")


def _exit(detail: "JobDetail", text: str) -> str:
    ending = detail.state.exit
    assert ending is not None
    used = [
        "" if ending.max_rss_mib is None else f"used {ending.max_rss_mib} MiB at most",
        "" if ending.cpu_s is None else f"{ending.cpu_s:.1f} s of CPU",
    ]
    return ", ".join(part for part in (text or "none", *used) if part)
