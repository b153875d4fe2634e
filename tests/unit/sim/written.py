"""Small traces written to files, from a seed."""

import random
from pathlib import Path


def table(path: Path, jobs: int = 150, *, seed: int = 1, gap_s: float = 260.0, user: str = "u") -> Path:
    """GPU jobs of three users as a Philly-like CSV, more than 2 nodes of 4 GPUs can do at once."""
    chance = random.Random(seed)
    lines, at = ["job_id,num_gpu,submit_time,duration,user"], 0.0
    for job in range(jobs):
        at += chance.expovariate(1 / gap_s)
        gpus, runs = chance.choice((1, 1, 2, 4)), chance.lognormvariate(6.5, 1.2)
        lines.append(f"{job},{gpus},{at:.0f},{runs:.0f},{user}{chance.choice((0, 0, 0, 1, 2))}")
    path.write_text("\n".join(lines) + "\n")
    return path


NODES = "2x16x4xA100"
