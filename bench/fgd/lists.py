"""Lists by name, published or generated, their kinds of pods, and arrivals drawn from them."""

from collections import Counter
from functools import lru_cache

import numpy as np

from bench.fgd.generated import generated
from bench.fgd.trace import LISTS, WHOLE, Pod, Shape, listed, machines

# Pods arrive until they asked for this share of all GPUs.
ARRIVING = 1.3


def pods(name: str) -> tuple[Pod, ...]:
    return listed(name) if name in LISTS else generated(name)


@lru_cache
def typical(name: str) -> tuple[Shape, ...]:
    """The most frequent kinds of pods that together make up 95 % of a list."""
    kinds = Counter((pod.cpu_milli, pod.gpus, pod.gpu_milli, pod.models) for pod in pods(name))
    total = sum(kinds.values())
    chosen: list[tuple[tuple[int, int, int, tuple[str, ...]], int]] = []
    covered = 0
    for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        if covered >= 0.95 * total:
            break
        chosen.append((kind, count))
        covered += count
    return tuple(Shape(*kind, count / covered) for kind, count in chosen)


def arrivals(name: str, seed: int, arriving: float = ARRIVING) -> list[Pod]:
    """All pods of the list in random order, then more of them, drawn at random, until enough is asked for."""
    known = pods(name)
    draw = np.random.default_rng(seed)
    enough = arriving * WHOLE * sum(machine.gpus for machine in machines())
    order: list[Pod] = [known[at] for at in draw.permutation(len(known)).tolist()]
    asked = sum(pod.gpus_milli for pod in order)
    while asked < enough:
        pod = known[int(draw.integers(len(known)))]
        order.append(pod)
        asked += pod.gpus_milli
    return order
