"""How pools that scale stand: their machines, what they may buy, and what is worth buying now."""

from collections.abc import Sequence

import msgspec

from ares.api.pools import InstanceView, PurchaseView, ScalingPlan, ScalingView
from ares.control.autoscale.prices import Prices
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.pacing import stepped
from ares.control.state.records import Records
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import sees_all
from ares.core.autoscale.instance import Known, pause_s, room
from ares.core.autoscale.purchase import Growth, Purchase, purchases, virtual
from ares.core.autoscale.worth import JobStake, expected_wait_s, stake_of
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.node import NodeRecord
from ares.model.scaling import InstanceRecord, ScalingPool, ScalingSwitch
from ares.ports.clock import Clock
from ares.ports.machines import PriceSource
from ares.ports.store import Put, Store

# Jobs that a reason names.
_NAMED_MAX = 5
_NO_POOL = Refusal(
    code="not-found", message="no pool of this name scales; `ares autoscale list` has those that do",
    fix="configure it: [autoscale.pools.NAME] in ares.toml",
)  # fmt: skip


class ScalingState:
    """Read on every replica; failures and idle times are the leader's own, and begin anew with the next one."""

    def __init__(
        self, store: Store, view: View, planner: LiveCluster, clock: Clock, pools: Sequence[ScalingPool],
        source: PriceSource | None = None,
    ) -> None:  # fmt: skip
        self._records = Records(store, view)
        self._view = view
        self._planner = planner
        self._clock = clock
        self.pools = {pool.name: pool for pool in pools}
        self._prices = Prices(source, clock)
        self._failures: dict[str, tuple[int, float, str]] = {}
        # By the name of a machine's node: when it last held something, and when it was last ready.
        self._busy_at: dict[str, float] = {}
        self._ready_at: dict[str, float] = {}
        # How long a job in the middle of the queue would wait, as of the last look.
        self._expected_s = 0.0

    # ---- for the loop

    async def price(self) -> None:
        """Machines cost what the catalogue says now."""
        await self._prices.refresh()
        self.pools = {name: self._prices.priced(pool) for name, pool in self.pools.items()}

    def unpriced(self, pool: str) -> bool:
        return bool(self._prices.lacking(self.pools[pool]))

    def begin(self) -> None:
        """This replica leads, perhaps again: what it saw when it last did is long ago."""
        self._failures.clear()
        self._busy_at.clear()
        self._ready_at.clear()

    def enabled(self, pool: str) -> bool:
        switch = self._view.kept.scaling.get(pool)
        return switch is not None and switch.enabled

    def of_pool(self, pool: str) -> list[InstanceRecord]:
        return [instance for instance in self._view.kept.instances.values() if instance.pool == pool]

    def failed(self, pool: str, why: str) -> None:
        self._failures[pool] = (self._failures.get(pool, (0, 0.0, ""))[0] + 1, self._clock.wall(), why)

    def succeeded(self, pool: str) -> None:
        self._failures.pop(pool, None)

    def paused(self, pool: str) -> float:
        """Until when; 0 when it is not."""
        count, at, _ = self._failures.get(pool, (0, 0.0, ""))
        until = at + pause_s(self.pools[pool], count)
        return until if count and until > self._clock.wall() else 0.0

    def known(self, instance: InstanceRecord, listed: bool | None, warned: str = "") -> Known:
        now, name = self._clock.monotonic(), instance.node
        record = self._view.nodes.get(name)
        busy = bool(self._view.by_node.get(name)) or self._claimed(name)
        if busy or instance.state != "ready" or name not in self._busy_at:
            self._busy_at[name] = now
        is_ready = record is not None and self._is_ready(name)
        if is_ready or name not in self._ready_at:
            self._ready_at[name] = now
        pool = self.pools.get(instance.pool)
        have = [each for each in self.of_pool(instance.pool) if each.state != "leaving"]
        return Known(
            listed=listed,
            ready=is_ready,
            busy=busy,
            idle_s=now - self._busy_at[name],
            drained=record is not None and bool(record.drained_by),
            spare=pool is None or len(have) > pool.nodes_min,
            silent_s=now - self._ready_at[name],
            warned=warned,
        )

    def forget(self, instance: InstanceRecord) -> None:
        """The machine is gone."""
        self._busy_at.pop(instance.node, None)
        self._ready_at.pop(instance.node, None)

    def lacking(self, instance: InstanceRecord) -> str:
        """What its machine has less of than its pool's shape says; empty when it is as promised."""
        shape, info = self.pools[instance.pool].shape, self._view.nodes[instance.node].info
        for what, has, wants in (
            ("CPU (thousandths)", info.cpu_milli, shape.cpu_milli),
            ("memory (MiB)", info.memory_mib, shape.memory_mib),
            ("GPUs", len(info.gpus), shape.gpus),
        ):
            if has < wants:
                return f"{instance.node} has {has} {what}, and the pool's shape says {wants}; correct the shape"
        return ""

    async def purchases(self) -> tuple[Purchase, ...]:
        """What is worth buying now, for any pool that has room and does not pause."""
        growths = [
            Growth(pool, room(pool, len(self.of_pool(pool.name))))
            for pool in self.pools.values()
            if not self.paused(pool.name) and not self._prices.lacking(pool)
        ]
        soonest = min((growth.pool.after_s for growth in growths if growth.room), default=None)
        if soonest is None or not any(self._may_be_ripe(job, soonest) for job in self._heads()):
            return ()
        self._planner.refresh_ready()
        self._expected_s = expected_wait_s(self._planner.cluster)
        steps = purchases.steps(self._planner.cluster, self._coming(), growths, self._stake, self._clock.wall())
        return await stepped(steps)

    def because(self, purchase: Purchase) -> str:
        named = ", ".join(purchase.jobs[:_NAMED_MAX])
        more = f" and {len(purchase.jobs) - _NAMED_MAX} more" if len(purchase.jobs) > _NAMED_MAX else ""
        many = "s" if len(purchase.jobs) > 1 else ""
        bought = f"bought {purchase.machines} x {purchase.pool}"
        return f"{bought} because job{many} {named}{more} found no room{_paid(purchase)}"

    def _heads(self) -> list[str]:
        """The first of each kind of waiting job: of those alike, it has waited longest."""
        return [job for job_class in self._planner.cluster.waiting.active.values() for job in job_class.line.jobs(0, 1)]

    def _may_be_ripe(self, job: str, after_s: float) -> bool:
        """A deadline may be a reason before it has waited."""
        stake = self._stake(job)
        return stake.waited_s >= after_s or stake.deadline_at is not None

    def _stake(self, job: str) -> JobStake:
        entry = self._view.entries.get(job)
        spec = None if entry is None else self._view.spec(entry.state)
        if entry is None or spec is None:
            return JobStake(0.0)
        state, policy = entry.state, self._planner.cluster.profile.routing
        return stake_of(spec, state.tenant, self._waited_s(job), self._expected_s, policy)

    def _waited_s(self, job: str) -> float:
        entry = self._view.entries.get(job)
        return 0.0 if entry is None else self._clock.wall() - entry.state.queued_at

    def _coming(self) -> tuple[NodeRecord, ...]:
        """Machines on their way, as they will be."""
        return tuple(
            virtual(instance.node, self.pools[instance.pool])
            for instance in self._view.kept.instances.values()
            if instance.state in ("wanted", "created") and instance.pool in self.pools
        )

    def _is_ready(self, name: str) -> bool:
        return name in self._planner.cluster.ready_nodes

    def _claimed(self, name: str) -> bool:
        cluster = self._planner.cluster
        return any(place.node == name for kept in cluster.reserved.values() for place in kept.placements)

    # ---- for people

    async def list(self, who: Principal) -> tuple[ScalingView, ...]:
        await self._view.catch_up()
        await self.price()
        return tuple(self._shown(who, pool) for pool in sorted(self.pools.values(), key=lambda pool: pool.name))

    async def show(self, who: Principal, name: str) -> ScalingView | Refusal:
        await self._view.catch_up()
        await self.price()
        return self._shown(who, self.pools[name]) if name in self.pools else _NO_POOL

    async def switch(self, who: Principal, name: str, *, enabled: bool) -> ScalingView | Refusal:
        """Whether machines are bought for the pool. Those it has are given back when they are idle, on or off."""
        if name not in self.pools:
            return _NO_POOL
        record = ScalingSwitch(pool=name, enabled=enabled, by=who.author, at=self._clock.wall())
        put = Put(keys.scaling(name), msgspec.json.encode(record))

        async def attempt() -> bool | None:
            return await self._records.ensure([], [put]) or None

        await self._records.settle(f"that pool {name} is switched", attempt)
        return self._shown(who, self.pools[name])

    async def plan(self, who: Principal) -> ScalingPlan:
        """What would be bought now. Changes nothing."""
        await self._view.catch_up()
        await self.price()
        found = await self.purchases()
        waiting, coming = len(self._planner.cluster.waiting), len(self._coming())
        shown = tuple(
            PurchaseView(
                pool=purchase.pool,
                count=purchase.machines,
                jobs=tuple(job for job in purchase.jobs if self._sees(who, job)),
                cost_hour=purchase.cost,
                enabled=self.enabled(purchase.pool),
                message=f"{purchase.machines} x {purchase.pool} would start {_jobs(len(purchase.jobs))}",
            )
            for purchase in found
        )
        return ScalingPlan(purchases=shown, waiting=waiting, coming=coming, message=self._why(found, waiting, coming))

    def _why(self, found: tuple[Purchase, ...], waiting: int, coming: int) -> str:
        if found:
            return ""
        if not self.pools:
            return "no pool scales: configure one, [autoscale.pools.NAME] in ares.toml"
        if not waiting:
            return "no job has waited for room long enough"
        unpriced = [why for pool in self.pools.values() if (why := self._prices.lacking(pool))]
        if unpriced:
            return unpriced[0]
        paused = [name for name in self.pools if self.paused(name)]
        if paused:
            return f"{', '.join(paused)} pauses: {self._failures[paused[0]][2]}"
        if coming:
            return f"{coming} machines are on their way"
        return f"no machine of a pool that has room would start one of the {waiting} waiting jobs"

    def _sees(self, who: Principal, job: str) -> bool:
        entry = self._view.entries.get(job)
        return sees_all(who) or (entry is not None and entry.state.tenant == who.tenant)

    def _shown(self, who: Principal, pool: ScalingPool) -> ScalingView:
        have, switch = self.of_pool(pool.name), self._view.kept.scaling.get(pool.name)
        wide = sees_all(who)
        return ScalingView(
            pool=pool,
            enabled=self.enabled(pool.name),
            enabled_by="" if switch is None else switch.by,
            instances=tuple(
                InstanceView(
                    id=instance.id, node=instance.node, state=instance.state, reason=instance.reason if wide else "",
                    ending=instance.ending, asked_at=instance.asked_at, since=instance.since, handle=instance.handle,
                )
                for instance in sorted(have, key=lambda each: (each.asked_at, each.id))
            ),
            cost_hour=len(have) * pool.node_hour,
            room=room(pool, len(have)),
            paused_until=self.paused(pool.name) or None,
            trouble=self._prices.lacking(pool) or self._failures.get(pool.name, (0, 0.0, ""))[2],
            price=self._prices.view(pool),
        )  # fmt: skip


def _paid(purchase: Purchase) -> str:
    """Why the price is worth it, where there is one."""
    found = purchase.worth
    if found.urgent:
        return f"; {_jobs(found.urgent)} would be late if it waited longer"
    if not found.price:
        return ""
    return f"; waiting has cost {found.value:.2f}, and {purchase.machines} x {purchase.pool} costs {found.price:.2f}"


def _jobs(count: int) -> str:
    return "1 waiting job" if count == 1 else f"{count:,} waiting jobs"
