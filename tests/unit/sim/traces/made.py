"""Small traces, made by hand."""

from typing import Any

from ares.check.replay.trace import Trace, TraceJob, fleet
from ares.model.job import Gang, JobSpec, Preemption, Resources
from ares.sim.traces.outcome import Outcome


def job(submit: float, run_s: float, cpus: int = 1, *, gpus: int = 0, ranks: int = 0, **more: Any) -> TraceJob:
    """What is not known of a trace's job is of its specification."""
    own = {name: more.pop(name) for name in ("runs_s", "fails", "tenant", "user") if name in more}
    spec = JobSpec(
        command=("true",),
        resources=Resources(cpu_milli=1000 * cpus, memory_mib=1, gpus=gpus),
        gang=Gang(ranks=ranks, min_ranks=more.pop("min_ranks", None)) if ranks else None,
        **more,
    )
    return TraceJob(id="", submit=submit, run_s=run_s, spec=spec, **own)


def trace(*jobs: TraceJob, nodes: int = 1, cpus: int = 4, gpus: int = 0, model: str = "A100") -> Trace:
    named = tuple(
        TraceJob(
            id=f"j{at}", submit=one.submit, run_s=one.run_s, spec=one.spec, tenant=one.tenant, user=one.user,
            runs_s=one.runs_s, fails=one.fails,
        )
        for at, one in enumerate(jobs)
    )  # fmt: skip
    return Trace("made", named, fleet(nodes, cpus, gpus, model))


SAVES = Preemption(checkpoint_signal="SIGUSR1")


def starts(outcome: Outcome) -> list[float]:
    return outcome.jobs.first_start.tolist()


def ends(outcome: Outcome) -> list[float]:
    return outcome.jobs.end.tolist()


def over_used(outcome: Outcome) -> list[str]:
    """Where more ran on a node at once than it has, by adding up what ran."""
    ran, found = outcome.intervals, list[str]()
    for node in sorted(set(ran.node.tolist())):
        here = ran.node == node
        moments = [
            (at, sign, int(cpu), int(gpu))
            for times, sign in ((ran.end[here], -1), (ran.begin[here], 1))
            for at, cpu, gpu in zip(times, ran.cpu_milli[here], ran.gpu_milli[here], strict=True)
        ]
        cpu = gpu = 0
        cpus = outcome.facts.cpu_milli // len(outcome.facts.nodes)
        # What ends at a moment makes room for what begins then.
        for at, sign, more_cpu, more_gpu in sorted(moments):
            cpu, gpu = cpu + sign * more_cpu, gpu + sign * more_gpu
            if cpu > cpus or gpu > 1000 * outcome.facts.node_gpus[node]:
                found.append(f"{at:g} s on {outcome.facts.nodes[node]}: {cpu} CPU and {gpu} GPU thousandths")
    return found
