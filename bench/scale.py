"""How much of everything one run measures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Counts. The quick ones show that it works; only the full ones are worth writing down."""

    spawns: int
    singles: int
    batched: int
    jobs: int
    peer_jobs: int
    slurm_jobs: int
    starts: int
    queued: int
    fsyncs: int
    # Open connections of the single submissions; jobs per batch.
    connections: int = 64
    batch: int = 1000
    # No-op jobs that may run at once.
    slots: int = 64
    # Jobs Ares grants to its agent at once: the agent runs few of them at a time, and is never without.
    granted: int = 128
    timeout_s: float = 300.0
    # For the scheduling core: nodes of the small and the large cluster, and how many jobs wait.
    nodes: tuple[int, int] = (1000, 10_000)
    waiting: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    # Distinct jobs that wait, all promised a start: few and many.
    promised: tuple[int, int] = (1000, 4000)
    # For replays: jobs and nodes of the made trace, and how many jobs of each log; all of them when none are said.
    replayed: tuple[int, int] = (100_000, 1000)
    logged: int | None = None
    # For losses: rounds, each of one killed, one frozen and one cut-off agent; how many agents that are well are
    # watched, and for how many minutes.
    losses: int = 34
    watched: tuple[int, float] = (200, 8.0)
    # For tenants: how many, and how often and long each side is under load.
    tenants: int = 1000
    rounds: int = 6
    round_s: float = 10.0
    # For pauses: nodes, jobs that wait, and for how long each case is watched.
    paused_nodes: tuple[int, ...] = (10, 1000)
    paused_jobs: tuple[int, ...] = (1000, 5000)
    paused_s: float = 12.0
    # For starvation: rounds and small jobs of the live case, and seeds of the simulated one.
    starved_rounds: int = 3
    starved_jobs: int = 200
    starved_seeds: int = 20
    # For neighbours: jobs of the noisy one.
    neighbour_jobs: int = 50_000
    # For workflows: jobs of a fan-out, and of a chain.
    flow_jobs: int = 10_000
    flow_chain: int = 1000
    # For planners: jobs of many kinds that are placed while others are submitted.
    mixed: int = 6000
    # For replicas: no-op jobs.
    shared_jobs: int = 2000
    # For a federation: jobs that are offered at once, and one by one.
    offers: int = 2000
    offers_paced: int = 200
    # For the dashboard: jobs in its list.
    listed: int = 100_000
    # For the budget: rounds, and what each of them counts.
    budget_rounds: int = 6
    budget_spawns: int = 1000
    budget_jobs: int = 500
    budget_singles: int = 1000
    budget_commits: int = 6000


FULL = Scale(
    spawns=4000, singles=10_000, batched=50_000, jobs=6000, peer_jobs=4000, slurm_jobs=500, starts=300,
    queued=100_000, fsyncs=500,
)  # fmt: skip
QUICK = Scale(
    spawns=500, singles=1000, batched=5000, jobs=500, peer_jobs=300, slurm_jobs=50, starts=30, queued=100_000,
    fsyncs=100, nodes=(100, 1000), waiting=(1000, 10_000, 100_000), replayed=(5000, 100), logged=2000,
    losses=2, watched=(100, 0.5), tenants=100, rounds=2, round_s=3.0, neighbour_jobs=5000,
    promised=(250, 1000), paused_nodes=(10,), paused_jobs=(1000,), paused_s=8.0,
    starved_rounds=1, starved_jobs=60, starved_seeds=2, flow_jobs=500, flow_chain=30, mixed=1000, shared_jobs=300,
    offers=200, offers_paced=20,
    listed=5000,
    budget_rounds=2, budget_spawns=300, budget_jobs=128, budget_singles=300, budget_commits=1500,
)  # fmt: skip
