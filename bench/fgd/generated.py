"""Lists that no published figure is about: the default list drawn anew, with other shares of one kind of pod.

A list's name says all of it: the kind, how much of it in percent, and the seed it was drawn by, as `models-33-7`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from bench.fgd.trace import WHOLE, Pod, listed, machines

Draw = np.random.Generator
_PER_KIND = (20, 33), (25, 50), (10, 60), (30, 50), (0, 250), (20, 40)


def names(seed: int) -> tuple[str, ...]:
    """Twelve lists of one seed, two of each kind."""
    return tuple(
        f"{kind}-{percent}-{seed}" for kind, levels in zip(_KINDS, _PER_KIND, strict=True) for percent in levels
    )


@lru_cache
def generated(name: str) -> tuple[Pod, ...]:
    kind, percent, seed = name.split("-")
    draw = np.random.default_rng([int(seed), int(percent), *map(ord, kind)])
    return tuple(_KINDS[kind](draw, int(percent) / 100))


def _named(draw: Draw, part: float) -> list[Pod]:
    """Models are asked for by this part of the pods with GPUs, as pods of the list `gpuspec10` do that ask."""
    wishes = [pod.models for pod in listed("gpuspec10") if pod.models]
    return _wishing(draw, listed("default"), part, lambda: wishes[int(draw.integers(len(wishes)))])


def _liked(draw: Draw, part: float) -> list[Pod]:
    """The same, but which models are liked is drawn: large ones more often, by the root of their number."""
    return _wishing(draw, listed("default"), part, _likes(draw))


def _shares(draw: Draw, part: float) -> list[Pod]:
    """This part of all GPU asked for is in shares of one."""
    return _mixed(draw, lambda pod: pod.gpu_milli < WHOLE, part)


def _several(draw: Draw, part: float) -> list[Pod]:
    """This part of all GPU asked for is asked for by pods with several."""
    return _mixed(draw, lambda pod: pod.gpus > 1, part)


def _plain(draw: Draw, part: float) -> list[Pod]:
    """So many times as many pods without GPUs."""
    with_gpus = [pod for pod in listed("default") if pod.gpus]
    without = [pod for pod in listed("default") if not pod.gpus]
    count = round(part * len(without))
    return with_gpus + [without[at] for at in draw.integers(len(without), size=count).tolist()]


def _everything(draw: Draw, part: float) -> list[Pod]:
    """Models are asked for by this part, as many GPUs by pods with several, and pods without GPUs are half or twice."""
    several = _several(draw, part)
    with_gpus = _wishing(draw, several, part, _likes(draw))
    without = [pod for pod in several if not pod.gpus]
    count = round(float(draw.uniform(0.5, 2.0)) * len(without))
    return [pod for pod in with_gpus if pod.gpus] + [
        without[at] for at in draw.integers(len(without), size=count).tolist()
    ]


_KINDS: dict[str, Callable[[Draw, float], list[Pod]]] = {
    "models": _named,
    "likes": _liked,
    "shares": _shares,
    "several": _several,
    "plain": _plain,
    "mixed": _everything,
}


def _mixed(draw: Draw, chosen: Callable[[Pod], bool], part: float) -> list[Pod]:
    """As much GPU as the list asks for, drawn from pods of either sort; pods without GPUs stay."""
    known = listed("default")
    found = [pod for pod in known if not pod.gpus]
    total = sum(pod.gpus_milli for pod in known)
    for sort, share in ((True, part), (False, 1.0 - part)):
        some = [pod for pod in known if pod.gpus and chosen(pod) is sort]
        asked = 0
        while asked < share * total:
            pod = some[int(draw.integers(len(some)))]
            found.append(pod)
            asked += pod.gpus_milli
    return found


def _wishing(draw: Draw, known: Sequence[Pod], part: float, wish: Callable[[], tuple[str, ...]]) -> list[Pod]:
    """A wish that no machine could serve is none: nodes of its models have too few GPUs or CPUs for the pod."""
    found: list[Pod] = []
    for pod in known:
        models = wish() if pod.gpus and draw.random() < part else ()
        served = not models or any(
            machine.model in models and machine.gpus >= pod.gpus and machine.cpu_milli >= pod.cpu_milli
            for machine in machines()
        )
        found.append(pod._replace(models=models) if served else pod)
    return found


def _likes(draw: Draw) -> Callable[[], tuple[str, ...]]:
    models = sorted({machine.model for machine in machines()})
    counts = np.array([sum(machine.gpus for machine in machines() if machine.model == model) for model in models])
    liked = np.sqrt(counts) * draw.lognormal(0.0, 0.5, len(models))

    def wish() -> tuple[str, ...]:
        many = int(draw.choice([1, 2, 3], p=[0.7, 0.2, 0.1]))
        return tuple(sorted(draw.choice(models, many, replace=False, p=liked / liked.sum()).tolist()))

    return wish
