"""`python -m bench.fgd`: unallocated GPU by policy, published, reproduced and with Ares, on every list."""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import fmean

from bench.fgd.ares import Ares
from bench.fgd.policies import BestFit, DotProd, Fgd, Random
from bench.fgd.simulate import Placer, simulate
from bench.fgd.trace import FOLDER, LISTS, PERCENTS, Pod, Published, arrivals, published

Means = dict[int, float]
MAKERS: dict[str, Callable[[str, int], Callable[[Pod], bool]]] = {
    "Random": lambda name, seed: Placer(seed, Random(seed)),
    "DotProd": lambda name, seed: Placer(seed, DotProd()),
    "BestFit": lambda name, seed: Placer(seed, BestFit()),
    "FGD": lambda name, seed: Placer(seed, Fgd(name)),
    "Ares": Ares,
}


def one(name: str, policy: str, seed: int) -> Means:
    return simulate(arrivals(name, seed), MAKERS[policy](name, seed)).unallocated


def reproduced(known: Published, found: float) -> bool:
    """Within three standard deviations or half a point."""
    return abs(found - known.mean) <= max(3 * known.deviation, 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fgd", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lists", nargs="+", default=LISTS, choices=LISTS)
    asked = parser.parse_args()
    if not FOLDER.is_dir():
        print("bench.fgd: the trace is not here; it is looked for in ../shared/data/fgd", file=sys.stderr)
        return 1
    print(f"Unallocated GPU in percent, mean of {asked.seeds} seeds, by arrived percent; published in brackets")
    print(f"{'list':<12}{'policy':<9}" + "".join(f"{percent:>17}" for percent in PERCENTS))
    missed = 0
    with ProcessPoolExecutor(asked.workers) as pool:
        for name in asked.lists:
            for policy in MAKERS:
                jobs = [pool.submit(one, name, policy, seed) for seed in range(asked.seeds)]
                means = _means([job.result() for job in jobs])
                missed += _show(name, policy, means)
    print("all reproduced, Ares at or below FGD at 100 %" if not missed else f"{missed} figures off, marked !")
    return int(missed > 0)


def _means(runs: list[Means]) -> Means:
    return {percent: fmean(run[percent] for run in runs) for percent in PERCENTS}


def _show(name: str, policy: str, means: Means) -> int:
    """Prints one line; how many of its figures are not as they should be."""
    off = 0
    line = f"{name:<12}{policy:<9}"
    for percent in PERCENTS:
        known = published()[name, "FGD" if policy == "Ares" else policy, percent]
        good = (
            (means[percent] <= known.mean or percent != 100) if policy == "Ares" else reproduced(known, means[percent])
        )
        off += not good
        line += f"{means[percent]:>8.2f} {f'({known.mean:.2f})':>7}{' ' if good else '!'}"
    print(line, flush=True)
    return off


if __name__ == "__main__":
    sys.exit(main())
