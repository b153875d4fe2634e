"""Outcomes made up for tests of the report: any size, any names, from a seed."""

from collections.abc import Sequence

import numpy as np

from ares.sim.traces.outcome import Intervals, JobColumns, Outcome, ReplayFacts, Series


def outcome(
    policy: str = "fifo",
    *,
    jobs: int = 60,
    nodes: Sequence[str] = ("n0", "n1", "n2"),
    names: Sequence[str] = ("train",),
    tenants: Sequence[str] = ("alpha", "beta"),
    wait_s: float = 600.0,
    seed: int = 1,
) -> Outcome:
    """Jobs of one GPU on nodes of eight, which may overlap more than nodes could: the report does not judge."""
    chance = np.random.default_rng(seed)
    submit = np.sort(chance.uniform(0.0, jobs * 300.0, jobs))
    start = submit + chance.exponential(wait_s, jobs)
    run = chance.lognormal(6.0, 1.5, jobs)
    end, node = start + run, chance.integers(0, len(nodes), jobs)
    whose = chance.integers(0, len(tenants), jobs)
    ones, none = np.ones(jobs), np.full(jobs, np.nan)
    order = np.argsort(start, kind="stable")
    table = JobColumns(
        id=np.array([f"j{n}" for n in range(jobs)]), name=np.array([names[n % len(names)] for n in range(jobs)]),
        tenant=np.array([tenants[n] for n in whose]), submit=submit, first_start=start, last_start=start, end=end,
        run=run, cpus=ones * 4, gpus=ones, ranks=np.ones(jobs, dtype=np.int64), deadline=none,
        late=np.zeros(jobs, dtype=np.bool_), energy_j=run * 300.0, cost=run / 3600 * 2.0,
        attempts=np.ones(jobs, dtype=np.int64), preemptions=np.zeros(jobs, dtype=np.int64),
        phase=np.full(jobs, "SUCCEEDED"), first_node=node,
    )  # fmt: skip
    ran = Intervals(
        job=order, node=node[order], begin=start[order], end=end[order],
        gpu_milli=np.full(jobs, 1000), cpu_milli=np.full(jobs, 4000),
    )  # fmt: skip
    times = np.sort(np.concatenate((submit, start)))
    queued = np.searchsorted(submit, times, side="right") - np.searchsorted(np.sort(start), times, side="right")
    zero = np.zeros(len(times), dtype=np.int64)
    series = Series(time=times, cpu_milli=zero, gpu_milli=zero, queued=queued, fragmentation=np.full(len(times), 0.1))
    facts = ReplayFacts(
        policy=policy, trace="made.swf", seed=seed, nodes=tuple(nodes), node_gpus=(8,) * len(nodes),
        cpu_milli=64_000 * len(nodes), gpu_milli=8000 * len(nodes), began=float(submit[0]), ended=float(end.max()),
        cycles=2 * jobs, events=2 * jobs, wall_s=0.5,
    )  # fmt: skip
    return Outcome(table, ran, series, facts)
