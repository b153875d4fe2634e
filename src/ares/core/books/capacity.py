"""What pools have over time, whether it is used or not: capacity times price, in whole numbers."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from ares.core.books.days import DAY_S, day_end, day_of, day_start
from ares.core.energy import node_power, price_of
from ares.model.books.book import CapacityRecord, PoolDay, PoolRate
from ares.model.node import NodeRecord
from ares.model.profile import Pool, Profile
from ares.model.state import Placement

_MICRO: Final = 1_000_000
_HOUR_MS: Final = 3_600_000
# A longer time without a look is said to be assumed.
ASSUMED_AFTER_S: Final = 300.0
# After so long without a look the meter begins anew: nothing is known of the days between.
_FORGOTTEN_AFTER_S: Final = 31 * DAY_S
_PLAIN: Final = Pool()


def rates_now(nodes: Iterable[tuple[NodeRecord, bool]], profile: Profile) -> dict[str, PoolRate]:
    """What each pool has. Machines that are not ready cost as much as others."""
    found: dict[str, PoolRate] = {}
    for record, ready in nodes:
        info = record.info
        pool = profile.pools.get(info.pool, _PLAIN)
        gpus = tuple(gpu.index for gpu in info.gpus if not gpu.mig)
        whole = Placement(
            node=info.name, incarnation=0, cpu_milli=info.cpu_milli, memory_mib=info.memory_mib, gpus=gpus
        )
        rate = found.get(info.pool, PoolRate())
        found[info.pool] = PoolRate(
            gpus=rate.gpus + len(gpus),
            down_gpus=rate.down_gpus + (0 if ready else len(gpus)),
            cpu_milli=rate.cpu_milli + info.cpu_milli,
            micro_hour=rate.micro_hour + round(price_of(whole, pool) * _MICRO),
            idle_milliwatts=rate.idle_milliwatts + round(node_power(info, pool, profile.energy).idle / 1000),
        )
    return found


def measured(
    known: Mapping[str, CapacityRecord], rates: Mapping[str, PoolRate], now: float
) -> tuple[CapacityRecord, ...]:
    """The records that a look changes, the newest last: it has the time up to now and these rates. A clock that is
    behind the newest record changes nothing but the rates."""
    today = day_of(now)
    newest = known[max(known)] if known else None
    if newest is None or now - newest.until > _FORGOTTEN_AFTER_S:
        return (CapacityRecord(day=today, until=now, rates=dict(rates)),)
    found: list[CapacityRecord] = []
    assumed = now - newest.until > ASSUMED_AFTER_S
    while newest.day < today:
        found.append(extended(newest, day_end(newest.day), assumed=assumed))
        begins = day_end(newest.day)
        newest = CapacityRecord(day=day_of(begins), until=begins, rates=newest.rates)
    found.append(replace(extended(newest, now, assumed=assumed), rates=dict(rates)))
    return tuple(found)


def extended(record: CapacityRecord, until: float, *, assumed: bool = False) -> CapacityRecord:
    """The record up to a later time of its day, by the rates it has."""
    until = min(until, day_end(record.day))
    passed_ms = round((until - max(record.until, day_start(record.day))) * 1000)
    if passed_ms <= 0:
        return record
    pools = dict(record.pools)
    for name, rate in record.rates.items():
        pools[name] = _grown(pools.get(name, PoolDay()), rate, passed_ms)
    more_s = passed_ms / 1000 if assumed else 0.0
    return replace(record, until=until, pools=pools, assumed_s=record.assumed_s + more_s)


def _grown(pool: PoolDay, rate: PoolRate, passed_ms: int) -> PoolDay:
    return PoolDay(
        gpu_ms=pool.gpu_ms + rate.gpus * passed_ms,
        down_gpu_ms=pool.down_gpu_ms + rate.down_gpus * passed_ms,
        cpu_ms=pool.cpu_ms + rate.cpu_milli * passed_ms // 1000,
        micro=pool.micro + round(rate.micro_hour * passed_ms / _HOUR_MS),
        idle_joules=pool.idle_joules + round(rate.idle_milliwatts * passed_ms / 1_000_000),
    )
