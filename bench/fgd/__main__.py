"""`python -m bench.fgd`: unallocated GPU by policy, published, reproduced and with Ares, on every list.

`--unseen SEED` compares Ares with the two best of them on these lists and on twelve that this seed draws.
"""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from math import sqrt
from statistics import fmean, stdev

from bench.fgd.ares import Ares
from bench.fgd.generated import names
from bench.fgd.lists import arrivals
from bench.fgd.policies import BestFit, DotProd, Fgd, Random
from bench.fgd.simulate import Placer, simulate
from bench.fgd.trace import FOLDER, LISTS, PERCENTS, Pod, Published, published

Means = dict[int, float]
# Just enough for all arrivals that round to 100 %.
FULL = 1.006
# Student's t at 97.5 %, by degrees of freedom; beyond, the normal distribution's.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09)
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
    parser.add_argument("--unseen", type=int, metavar="SEED", help="the given lists, and twelve that this seed draws")
    asked = parser.parse_args()
    if not FOLDER.is_dir():
        print("bench.fgd: the trace is not here; it is looked for in ../shared/data/fgd", file=sys.stderr)
        return 1
    if asked.unseen is not None:
        return _compare((*asked.lists, *names(asked.unseen)), max(2, asked.seeds), asked.workers)
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


def _compare(lists: tuple[str, ...], seeds: int, workers: int) -> int:
    """Means at full arrival with 95 % intervals, and of Ares minus each other policy, pair by pair of equal seeds."""
    policies = ("BestFit", "FGD", "Ares")
    print(f"Unallocated GPU in percent when as much as there is was asked for; {seeds} seeds, 95 % intervals")
    print(f"{'list':<15}" + "".join(f"{title:>17}" for title in (*policies, "Ares - BestFit", "Ares - FGD")))
    above = 0
    with ProcessPoolExecutor(workers) as pool:
        for name in lists:
            jobs = {policy: [pool.submit(one_full, name, policy, seed) for seed in range(seeds)] for policy in policies}
            runs = {policy: [job.result() for job in jobs[policy]] for policy in policies}
            apart = [
                [mine - other for mine, other in zip(runs["Ares"], runs[best], strict=True)] for best in policies[:2]
            ]
            above += any(fmean(differences) > 0 for differences in apart)
            columns = [*(runs[policy] for policy in policies), *apart]
            print(f"{name:<15}" + "".join(f"{fmean(col):>10.2f} ±{_half(col):>5.2f}" for col in columns), flush=True)
    print(f"Ares at or below both on {len(lists) - above} of {len(lists)} lists")
    return int(above > 0)


def one_full(name: str, policy: str, seed: int) -> float:
    return simulate(arrivals(name, seed, FULL), MAKERS[policy](name, seed)).unallocated[100]


def _half(values: list[float]) -> float:
    """Half the width of the mean's 95 % interval, by Student's t."""
    factor = _T[len(values) - 2] if len(values) - 2 < len(_T) else 1.96
    return factor * stdev(values) / sqrt(len(values))


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
