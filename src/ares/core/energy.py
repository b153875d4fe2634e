"""What running jobs draw and cost: watts and prices of machines, and what attempts use of them."""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from ares.core.topology.cards import words
from ares.model.node import NodeInfo, NodeRecord
from ares.model.profile import EnergyPolicy, Pool, Profile
from ares.model.state import BOUND, JobState, Placement, Rate, Spent

# ---- what GPU models draw
# Idle draw is hardly ever in a data sheet: the figures here are round values of what drivers report for idle boards.


class KnownCard(NamedTuple):
    """Watts of one GPU as drivers count them: of boards with two GPUs, half a board."""

    watts: float
    idle: float


# For a GPU of an unknown model.
UNKNOWN: Final = KnownCard(300.0, 30.0)
# The idle share of full load, where only the full load is known.
IDLE_SHARE: Final = 0.1

# By words of the model's name. Of the entries that match, the one with the most words counts.
KNOWN: Final[dict[str, KnownCard]] = {
    # NVIDIA, data centre. Drivers call an H100 SXM "H100 80GB HBM3" and an H200 SXM just "H200".
    "GB200": KnownCard(1200.0, 140.0),
    "B300": KnownCard(1400.0, 150.0),
    "B200": KnownCard(1000.0, 140.0),
    "B100": KnownCard(700.0, 110.0),
    "GH200": KnownCard(700.0, 75.0),
    "H200": KnownCard(700.0, 75.0),
    "H200 NVL": KnownCard(600.0, 70.0),
    "H100": KnownCard(700.0, 70.0),
    "H100 PCIe": KnownCard(350.0, 50.0),
    "H100 NVL": KnownCard(400.0, 60.0),
    "H800": KnownCard(700.0, 70.0),
    "H800 PCIe": KnownCard(350.0, 50.0),
    "H20": KnownCard(400.0, 60.0),
    "A100": KnownCard(400.0, 55.0),
    "A100 PCIe": KnownCard(300.0, 45.0),
    "A100 PCIe 40GB": KnownCard(250.0, 35.0),
    "A800": KnownCard(400.0, 55.0),
    "A40": KnownCard(300.0, 30.0),
    "A30": KnownCard(165.0, 25.0),
    "A16": KnownCard(62.5, 12.0),
    "A10": KnownCard(150.0, 20.0),
    "A10G": KnownCard(300.0, 20.0),
    "A2": KnownCard(60.0, 8.0),
    "L40": KnownCard(300.0, 35.0),
    "L40S": KnownCard(350.0, 35.0),
    "L20": KnownCard(275.0, 30.0),
    "L4": KnownCard(72.0, 12.0),
    "T4": KnownCard(70.0, 10.0),
    "V100": KnownCard(300.0, 40.0),
    "V100 PCIe": KnownCard(250.0, 30.0),
    "V100S": KnownCard(250.0, 30.0),
    "V100M16": KnownCard(300.0, 40.0),
    "V100M32": KnownCard(300.0, 40.0),
    "P100": KnownCard(300.0, 35.0),
    "P100 PCIe": KnownCard(250.0, 30.0),
    "P40": KnownCard(250.0, 20.0),
    "P4": KnownCard(75.0, 8.0),
    "M40": KnownCard(250.0, 20.0),
    "M60": KnownCard(150.0, 15.0),
    "K80": KnownCard(150.0, 25.0),
    # NVIDIA, workstation and consumer.
    "RTX PRO 6000": KnownCard(600.0, 30.0),
    "RTX 6000 Ada": KnownCard(300.0, 25.0),
    "RTX 5000 Ada": KnownCard(250.0, 20.0),
    "RTX A6000": KnownCard(300.0, 25.0),
    "RTX A5000": KnownCard(230.0, 20.0),
    "RTX A4000": KnownCard(140.0, 12.0),
    "Quadro RTX 8000": KnownCard(260.0, 20.0),
    "Quadro RTX 6000": KnownCard(260.0, 20.0),
    "TITAN RTX": KnownCard(280.0, 15.0),
    "TITAN V": KnownCard(250.0, 25.0),
    "TITAN Xp": KnownCard(250.0, 10.0),
    "5090": KnownCard(575.0, 25.0),
    "5080": KnownCard(360.0, 15.0),
    "4090": KnownCard(450.0, 20.0),
    "4080": KnownCard(320.0, 15.0),
    "3090": KnownCard(350.0, 20.0),
    "3090 Ti": KnownCard(450.0, 20.0),
    "3080": KnownCard(320.0, 20.0),
    "3080 Ti": KnownCard(350.0, 20.0),
    "3070": KnownCard(220.0, 15.0),
    "2080": KnownCard(215.0, 15.0),
    "2080 Super": KnownCard(250.0, 15.0),
    "2080 Ti": KnownCard(250.0, 15.0),
    "1080": KnownCard(180.0, 10.0),
    "1080 Ti": KnownCard(250.0, 10.0),
    # AMD. An MI250 is two GPUs to its driver.
    "MI325X": KnownCard(1000.0, 140.0),
    "MI300X": KnownCard(750.0, 130.0),
    "MI300A": KnownCard(550.0, 100.0),
    "MI250": KnownCard(250.0, 45.0),
    "MI250X": KnownCard(250.0, 45.0),
    "MI210": KnownCard(300.0, 40.0),
    "MI100": KnownCard(290.0, 35.0),
    "MI60": KnownCard(300.0, 20.0),
    "MI50": KnownCard(300.0, 20.0),
}


@lru_cache(4096)
def known(model: str) -> KnownCard | None:
    """What is known of a model, by the name its driver gives it."""
    found = matching(tuple(KNOWN), model)
    return None if found is None else KNOWN[found]


def matching(names: tuple[str, ...], model: str) -> str | None:
    """The name whose words are all in the model's: the one with the most of them, the first of equals."""
    here = words(model)
    fits = [name for name in names if words(name) <= here]
    return max(fits, key=lambda name: len(words(name)), default=None)


# ---- the power model
# A placement draws its CPUs' watts and its share of every GPU's full load: nothing is measured, so this is an estimate
# from above. What GPUs draw when idle is part of that for the shares that are held, and is the pool's for the rest:
# `draw` of a node is its jobs' watts and the idle watts of what is not held, so nothing is counted twice.
#
# Sums are kept in whole microwatts, so that adding and taking away in any order gives the same.
# For the simulator: `rate_of` of one placement, `rates_of` of an attempt, `spend` for what they come to in a time.


MICRO = 1_000_000
_MIB_PER_GIB = 1024
# Compute slices of a GPU that MIG can hand out.
_MIG_SLICES = 7
_MIG = re.compile(r"mig-(\d)g\b")
_PLAIN = Pool()
_POLICY = EnergyPolicy()


class Power(NamedTuple):
    """Milliwatts at full load, and when idle."""

    full: int
    idle: int


class NodePower(NamedTuple):
    """The power of one machine. CPUs that are not held and devices of unknown kinds draw nothing."""

    # Milliwatts of one CPU in use.
    cpu: int
    # GPUs by index, without GPUs that are cut into slices.
    gpus: dict[int, Power]
    # Microwatts of one device of a kind, at full load and when idle.
    devices: dict[str, Power]
    # Microwatts of all GPUs when nothing runs.
    idle: int


def card_of(model: str, pool: Pool = _PLAIN, policy: EnergyPolicy = _POLICY) -> KnownCard:
    """Watts of one GPU: as its pool says, else as the profile says of its model, else as is known of it."""
    usual = known(model) or UNKNOWN
    by_profile = matching(tuple(policy.gpu_watts), model) if policy.gpu_watts else None
    watts = pool.gpu_watts or (usual.watts if by_profile is None else policy.gpu_watts[by_profile])
    idle = usual.idle if watts == usual.watts else min(usual.idle, IDLE_SHARE * watts)
    return KnownCard(watts, min(watts, idle if pool.gpu_idle_watts is None else pool.gpu_idle_watts))


def node_power(info: NodeInfo, pool: Pool = _PLAIN, policy: EnergyPolicy = _POLICY) -> NodePower:
    """Shared by all machines alike: it must not be changed."""
    gpus = tuple((gpu.index, gpu.model, gpu.mig) for gpu in info.gpus)
    return _node_power(gpus, tuple(info.devices), pool, policy.cpu_watts, tuple(policy.gpu_watts.items()))


@lru_cache(1024)
def _node_power(
    gpus: tuple[tuple[int, str, bool], ...],
    kinds: tuple[str, ...],
    pool: Pool,
    cpu_watts: float,
    gpu_watts: tuple[tuple[str, float], ...],
) -> NodePower:
    policy = EnergyPolicy(gpu_watts=dict(gpu_watts))
    powers = {index: _power(card_of(model, pool, policy)) for index, model, _ in gpus}
    cut = [powers[index] for index, _, mig in gpus if mig]
    # A slice does not say which GPU it is part of: the thirstiest counts.
    whole = max(cut, default=Power(0, 0))
    return NodePower(
        cpu=_milli(cpu_watts if pool.cpu_watts is None else pool.cpu_watts),
        gpus={index: powers[index] for index, _, mig in gpus if not mig},
        devices={kind: _slice(kind, whole) for kind in kinds} if cut else {},
        idle=1000 * sum(power.idle for power in powers.values()),
    )


def drawn(node: NodePower, place: Placement) -> int:
    """Microwatts of a placement, with what its GPUs draw when idle."""
    gpus = sum((node.gpus.get(gpu) or _UNKNOWN).full for gpu in place.gpus)
    devices = sum(node.devices[kind].full * len(ids) for kind, ids in place.devices.items() if kind in node.devices)
    return place.cpu_milli * node.cpu + place.gpu_milli * gpus + devices


def price_of(place: Placement, pool: Pool) -> float:
    """The price of a placement for an hour."""
    gpus, cpus = len(place.gpus) * place.gpu_milli / 1000, place.cpu_milli / 1000
    memory = place.memory_mib / _MIB_PER_GIB
    price = gpus * pool.gpu_hour + cpus * pool.cpu_hour + memory * pool.memory_gib_hour
    return price * pool.spot_factor if pool.spot else price


def rate_of(record: NodeRecord, place: Placement, pool: Pool = _PLAIN, policy: EnergyPolicy = _POLICY) -> Rate:
    """What the placement draws on this node and costs in this pool, as long as it lasts."""
    info = record.info
    model = next((gpu.model for gpu in info.gpus if gpu.index == place.gpus[0]), "") if place.gpus else ""
    watts = drawn(node_power(info, pool, policy), place) / MICRO
    return Rate(pool=info.pool, gpu_model=model, watts=watts, per_hour=price_of(place, pool))


def rates_of(nodes: Mapping[str, NodeRecord], profile: Profile, placements: Sequence[Placement]) -> tuple[Rate, ...]:
    """Rates of an attempt: one for each placement, or a single one when all are alike. A node that is gone has none."""
    rates = tuple(
        _NOTHING
        if (record := nodes.get(place.node)) is None
        else rate_of(record, place, profile.pools.get(record.info.pool, _PLAIN), profile.energy)
        for place in placements
    )
    return rates[:1] if len(set(rates)) == 1 else rates


class WaveRates:
    """The same, each found once for all attempts of one moment that are given alike."""

    def __init__(self, nodes: Mapping[str, NodeRecord], profile: Profile) -> None:
        self._nodes, self._profile = nodes, profile
        self._found: dict[Hashable, tuple[Rate, ...]] = {}

    def of(self, placements: Sequence[Placement]) -> tuple[Rate, ...]:
        if len(placements) > 1 or placements[0].devices:
            return rates_of(self._nodes, self._profile, placements)
        place = placements[0]
        alike = (place.node, place.cpu_milli, place.memory_mib, place.gpus, place.gpu_milli)
        found = self._found.get(alike)
        if found is None:
            found = self._found[alike] = rates_of(self._nodes, self._profile, placements)
        return found


def _power(card: KnownCard) -> Power:
    return Power(_milli(card.watts), _milli(card.idle))


def _milli(watts: float) -> int:
    return round(1000 * watts)


def _slice(kind: str, whole: Power) -> Power:
    """Microwatts of a MIG slice, by how many of the GPU's slices it has."""
    found = _MIG.match(kind)
    parts = int(found[1]) if found else 0
    return Power(*(1000 * milliwatts * parts // _MIG_SLICES for milliwatts in whole))


_UNKNOWN = _power(UNKNOWN)
_NOTHING = Rate()


# ---- what attempts use


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
    saved = since if fate != "lost" else _saved_until(state, since, now)
    more = [*_each(state.placements, state.rates, max(0.0, now - saved), fate)]
    if saved > since:
        # What the attempt did until its checkpoint is not lost.
        more += _each(state.placements, state.rates, saved - since, "kept")
    before: Fate = "kept" if saved > since else fate
    return merged([*(replace(part, fate=before) if part.fate == "open" else part for part in state.spent), *more])


def _saved_until(state: JobState, since: float, now: float) -> float:
    saved = state.checkpoint
    return since if saved is None or saved.fence != state.fence else min(now, max(since, saved.taken_at))


def portion(state: JobState, seconds: float, fate: Fate) -> tuple[Spent, ...]:
    """What the current attempt uses in a time."""
    return merged(_each(state.placements, state.rates, seconds, fate))


def merged(parts: Iterable[Spent]) -> tuple[Spent, ...]:
    """One entry for each pool, GPU model and fate, in the order of their first appearance."""
    sums: dict[tuple[str, str, Fate], Spent] = {}
    for part in parts:
        key = (part.pool, part.gpu_model, part.fate)
        before = sums.get(key)
        sums[key] = part if before is None else added(before, part)
    return tuple(sums.values())


def newly_spent(changes: Iterable[tuple[Sequence[Spent], Sequence[Spent]]]) -> list[Spent]:
    """What attempts that ended have used, by pool and fate, of jobs that had spent this before and that after."""
    sums: dict[tuple[str, Fate], list[float]] = {}
    for before, after in changes:
        for sign, parts in ((1, after), (-1, before)):
            for part in parts:
                if part.fate != "open":
                    total = sums.setdefault((part.pool, part.fate), [0.0, 0.0, 0.0])
                    total[0] += sign * part.gpu_s
                    total[1] += sign * part.energy_j
                    total[2] += sign * part.cost
    return [
        # Rounding must not make a counter go back.
        Spent(pool=pool, fate=fate, gpu_s=max(0.0, gpu_s), energy_j=max(0.0, energy_j), cost=max(0.0, cost))
        for (pool, fate), (gpu_s, energy_j, cost) in sums.items()
    ]


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
