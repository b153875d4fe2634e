"""What machines cost, by a catalogue that is read again and again. The last one that could be read counts."""

import msgspec
import structlog
from msgspec.structs import replace

from ares.api.pools import PriceView
from ares.core.routing.egress import prices_of
from ares.core.routing.facts import DataRoute
from ares.model.scaling import PriceCatalogue, ScalingPool
from ares.ports.clock import Clock
from ares.ports.machines import PriceSource

log = structlog.get_logger()

_READ_S = 300.0
# After one that could not be read.
_AGAIN_S = 30.0


class Prices:
    def __init__(self, source: PriceSource | None, clock: Clock) -> None:
        self._source, self._clock = source, clock
        self._next_at = float("-inf")
        self._catalogue: PriceCatalogue | None = None
        self._hours: dict[str, float] = {}
        self.egress: dict[tuple[str, str], DataRoute] = {}
        self._trouble = ""

    async def refresh(self) -> None:
        """Reads it if it is time to. Never fails: what is wrong with it is shown."""
        now = self._clock.monotonic()
        if self._source is None or now < self._next_at:
            return
        self._next_at = now + _AGAIN_S
        try:
            read = msgspec.json.decode(await self._source.read(), type=PriceCatalogue)
        except (OSError, ValueError, RecursionError) as error:
            self._trouble = f"{self._source.place} cannot be read: {str(error)[:300]}"
            log.warning("prices.unread", place=self._source.place, error=str(error)[:300])
            return
        if self._catalogue is None or read.version != self._catalogue.version:
            log.info("prices.read", place=self._source.place, version=read.version, machines=len(read.machines))
        self._catalogue, self._trouble, self._next_at = read, "", now + _READ_S
        self._hours = {machine.name: machine.node_hour for machine in read.machines}
        self.egress = prices_of(read.egress)

    @property
    def version(self) -> str:
        """Of the catalogue that counts; empty without one."""
        return "" if self._catalogue is None else self._catalogue.version

    @property
    def age_s(self) -> float:
        return 0.0 if self._catalogue is None else max(0.0, self._clock.wall() - self._catalogue.at)

    def priced(self, pool: ScalingPool) -> ScalingPool:
        """With the price of now; as it is configured where there is none."""
        return replace(pool, node_hour=self._hours[pool.price]) if pool.price in self._hours else pool

    def lacking(self, pool: ScalingPool) -> str:
        """Why nothing is bought for want of a price; empty when it is known."""
        if not pool.price or pool.price in self._hours:
            return ""
        if self._source is None:
            return f"its price {pool.price!r} is in no catalogue: autoscale.catalogue names none"
        version = "" if self._catalogue is None else f" of version {self._catalogue.version}"
        return self._trouble or f"the catalogue{version} has no price {pool.price!r}"

    def view(self, pool: ScalingPool) -> PriceView | None:
        if not pool.price or self._catalogue is None or self._source is None:
            return None
        return PriceView(
            name=pool.price, catalogue=self._source.place, version=self.version, age_s=self.age_s,
            currency=self._catalogue.currency, trouble=self._trouble,
        )  # fmt: skip
