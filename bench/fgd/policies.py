"""The published policies, as their authors define them. Scores are whole numbers; the first of equals wins."""

from functools import lru_cache

import numpy as np

from bench.fgd.lists import typical
from bench.fgd.simulate import Cluster, Floats, Ints
from bench.fgd.trace import WHOLE, Pod

_CPU_MOST, _GPU_MOST = 128_000, 8_000


class _Tightest:
    lasts = True

    def devices(self, cluster: Cluster, pod: Pod, node: int) -> list[int]:
        return cluster.tightest(pod, node)


class Random:
    lasts = False

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng([seed, 2])

    def score(self, cluster: Cluster, pod: Pod, at: Ints | slice) -> Floats:
        return self._draw.random(len(cluster.cpu[at]))

    def devices(self, cluster: Cluster, pod: Pod, node: int) -> list[int]:
        fitting = np.flatnonzero(cluster.gpu[node] >= pod.gpu_milli)
        return fitting[: pod.gpus].tolist() if pod.gpu_milli == WHOLE else [int(self._draw.choice(fitting))]


class BestFit(_Tightest):
    def score(self, cluster: Cluster, pod: Pod, at: Ints | slice) -> Floats:
        cpu = (cluster.cpu[at] - pod.cpu_milli) / _CPU_MOST
        gpu = (_idle(cluster, at) - pod.gpus_milli) / _GPU_MOST
        # Their normalisation stretches the scores and so keeps the order.
        return np.trunc((1 - (0.5 * cpu + 0.5 * gpu)) * 100)


class DotProd(_Tightest):
    def score(self, cluster: Cluster, pod: Pod, at: Ints | slice) -> Floats:
        cpu = (cluster.cpu[at] / _CPU_MOST) * (pod.cpu_milli / _CPU_MOST)
        gpu = (_idle(cluster, at) / _GPU_MOST) * (pod.gpus_milli / _GPU_MOST)
        return np.trunc(100 * (1 - (cpu + gpu) / 2))


def _idle(cluster: Cluster, at: Ints | slice) -> Ints:
    return np.maximum(cluster.gpu[at], 0).sum(axis=1)


class Weights:
    """How much of an idle thousandth is a fragment, by GPU model, CPUs left and what is left of the device.

    `device`: to the typical pods that need one device, or that no whole device would help.
    `whole`: beyond that, to those that need more whole devices than the node has left.
    """

    def __init__(self, name: str, models: list[str]) -> None:
        shapes = typical(name)
        self.steps = np.array(sorted({0, *(shape.cpu_milli for shape in shapes)}))
        self.device = np.zeros((len(models), len(self.steps), WHOLE + 1))
        self.whole = np.zeros((len(models), len(self.steps), 9))
        for at, model in enumerate(models):
            for step, cpu in enumerate(self.steps):
                for shape in shapes:
                    never = not shape.gpus or shape.cpu_milli > cpu or (shape.models and model not in shape.models)
                    self.device[at, step, : WHOLE + 1 if never else shape.gpu_milli] += shape.share
                    if not never and shape.gpus > 1:
                        self.whole[at, step, : shape.gpus] += shape.share

    def step(self, cpu: Ints) -> Ints:
        return np.searchsorted(self.steps, cpu, "right") - 1


@lru_cache
def _weights(name: str, models: tuple[str, ...]) -> Weights:
    return Weights(name, list(models))


class Fgd:
    """Fragmentation gradient descent: where the expected fragment grows least."""

    lasts = True

    def __init__(self, name: str) -> None:
        self._name = name

    def score(self, cluster: Cluster, pod: Pod, at: Ints | slice) -> Floats:
        return self._each(cluster, pod, at).max(axis=1)

    def devices(self, cluster: Cluster, pod: Pod, node: int) -> list[int]:
        if pod.gpu_milli == WHOLE:
            return cluster.tightest(pod, node)
        return [int(self._each(cluster, pod, np.array([node]))[0].argmax())]

    def _each(self, cluster: Cluster, pod: Pod, at: Ints | slice) -> Floats:
        """The score of every device that could be chosen; of any, where the choice does not matter."""
        weights = _weights(self._name, tuple(cluster.models))
        model, cpu, gpu = cluster.model[at], cluster.cpu[at], cluster.gpu[at]
        left = np.maximum(gpu, 0)
        full = np.count_nonzero(left == WHOLE, axis=1)
        before = _fragment(weights, model, weights.step(cpu), left, full)
        step = weights.step(np.maximum(cpu - pod.cpu_milli, 0))
        if pod.gpus == 0:
            after = _fragment(weights, model, step, left, full)[:, None]
        elif pod.gpu_milli == WHOLE:
            fits = left == WHOLE
            taken = fits & (fits.cumsum(axis=1) <= pod.gpus)
            after = _fragment(weights, model, step, np.where(taken, 0, left), np.maximum(full - pod.gpus, 0))[:, None]
        else:
            parts = left * weights.device[model[:, None], step[:, None], left]
            fewer = np.maximum(left - pod.gpu_milli, 0)
            moved = parts.sum(axis=1)[:, None] - parts + fewer * weights.device[model[:, None], step[:, None], fewer]
            count = full[:, None] - (left == WHOLE)
            after = moved + WHOLE * count * weights.whole[model[:, None], step[:, None], count]
        scores = np.trunc(100 / (1 + np.exp((after - before[:, None]) / 1000)))
        return scores if pod.gpus == 0 or pod.gpu_milli == WHOLE else np.where(left >= pod.gpu_milli, scores, -1.0)


def _fragment(weights: Weights, model: Ints, step: Ints, left: Ints, full: Ints) -> Floats:
    parts = left * weights.device[model[:, None], step[:, None], left]
    return parts.sum(axis=1) + WHOLE * full * weights.whole[model, step, full]
