"""What attempts use: the rates of their placements times how long they hold them, by pool and GPU model."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from ares.model.state import BOUND, JobState, Placement, Rate, Spent

HOUR_S = 3600.0
Fate = Literal["kept", "lost", "open"]


def spend(
    placements: Sequence[Placement], rates: Sequence[Rate], seconds: float, fate: Fate = "kept"
) -> tuple[Spent, ...]:
    """What these placements use in a time, energy in joules. `rates` as `model.rates_of` gives them."""
    return merged(_each(placements, rates, seconds, fate))


def spent_by(state: JobState, now: float, fate: Fate) -> tuple[Spent, ...]:
    """What all attempts used up to now. The use of the current one becomes `fate`."""
    since = state.bound_at if state.metered_at is None else state.metered_at
    if state.phase not in BOUND or since is None or not state.rates:
        return state.spent
    more = _each(state.placements, state.rates, max(0.0, now - since), fate)
    return merged([*(replace(part, fate=fate) if part.fate == "open" else part for part in state.spent), *more])


def merged(parts: Iterable[Spent]) -> tuple[Spent, ...]:
    """One entry for each pool, GPU model and fate, in the order of their first appearance."""
    sums: dict[tuple[str, str, Fate], Spent] = {}
    for part in parts:
        key = (part.pool, part.gpu_model, part.fate)
        before = sums.get(key)
        sums[key] = part if before is None else added(before, part)
    return tuple(sums.values())


def added(one: Spent, other: Spent) -> Spent:
    return replace(
        one,
        gpu_s=one.gpu_s + other.gpu_s,
        cpu_s=one.cpu_s + other.cpu_s,
        energy_j=one.energy_j + other.energy_j,
        cost=one.cost + other.cost,
    )


def _each(placements: Sequence[Placement], rates: Sequence[Rate], seconds: float, fate: Fate) -> Iterator[Spent]:
    every = rates if len(rates) == len(placements) else [rates[0]] * len(placements)
    for place, rate in zip(placements, every, strict=True):
        yield Spent(
            pool=rate.pool,
            gpu_model=rate.gpu_model,
            gpu_s=seconds * len(place.gpus) * place.gpu_milli / 1000,
            cpu_s=seconds * place.cpu_milli / 1000,
            energy_j=seconds * rate.watts,
            cost=seconds * rate.per_hour / HOUR_S,
            fate=fate,
        )


def kept_rates(state: JobState, left: Sequence[Placement]) -> tuple[Rate, ...]:
    """Rates of the placements that are left of an attempt."""
    if len(state.rates) != len(state.placements):
        return state.rates
    stay = {place.rank for place in left}
    return tuple(rate for place, rate in zip(state.placements, state.rates, strict=True) if place.rank in stay)
