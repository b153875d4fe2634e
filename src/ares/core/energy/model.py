"""The power model: what a node draws when idle and what a placement draws and costs there.

A placement draws its CPUs' watts and its share of every GPU's full load: nothing is measured, so this is an estimate
from above. What GPUs draw when idle is part of that for the shares that are held, and is the pool's for the rest:
`draw` of a node is its jobs' watts and the idle watts of what is not held, so nothing is counted twice.

Sums are kept in whole microwatts, so that adding and taking away in any order gives the same.
For the simulator: `rate_of` of one placement, `rates_of` of an attempt, `meter.spend` for what they come to in a time.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ares.core.energy.known import IDLE_SHARE, UNKNOWN, KnownCard, known, matching
from ares.model.node import NodeInfo, NodeRecord
from ares.model.profile import EnergyPolicy, Pool, Profile
from ares.model.state import Placement, Rate

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
