"""Simulated histories: a seed decides everything, so an unchanged platform writes the same history byte for byte.

`ares sim replay --seed N --history FILE` writes the history itself.
"""

from collections.abc import Iterator
from pathlib import Path

from ares.sim.world.seeds import Range, run
from oracles.recording import Part

SEEDS = 200


def histories(_: Path | None) -> Iterator[Part]:
    lines: dict[int, str] = {}
    for judged in run(Range(count=SEEDS)):
        broken = sorted({violation.rule for violation in judged.violations}) + ["failed"] * bool(judged.failures)
        lines[judged.seed] = f"seed {judged.seed:03} {judged.digest} {', '.join(broken) or 'clean'}\n"
    yield Part("seeds", "".join(lines[seed] for seed in sorted(lines)))
