"""Buys machines for jobs that wait for room, and gives them back. Leader only.

A machine is recorded before its provider hears of it, and its record is the token it is created with: a server that is
killed at any step leaves a record whose step is repeated, or a machine that the next look at the provider's list finds.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable
from typing import TypeVar, cast

import msgspec
import structlog

from ares.control.access.tokens import Tokens
from ares.control.autoscale.standing import ScalingState
from ares.control.queries.nodes import Nodes
from ares.control.state.ids import base32
from ares.control.state.records import Records, absent
from ares.control.state.view import View
from ares.core import keys
from ares.core.autoscale.instance import InstanceStep, room, step
from ares.core.autoscale.purchase import Purchase
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.scaling import INSTANCES_MAX, InstanceRecord, InstanceState
from ares.ports.clock import Clock, Rng
from ares.ports.machines import (
    ListedMachine,
    MachineProvider,
    NamingProvider,
    NotProvided,
    Providers,
    ProviderUnknown,
    WantedMachine,
    WarningProvider,
)
from ares.ports.store import Compare, Delete, Put, Store, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

T = TypeVar("T")

_LOOK_S = 2.0
_LIST_S = 60.0
# After a look at waiting jobs there is none for so many times as long as it took.
_PAUSES = 20.0
# What a provider has not answered by then is not known.
_ANSWER_S = 120.0
# A machine that no record knows is deleted when it is this old: its record may be on its way to this replica's view.
STRANGER_S = 300.0
_JOIN_S = 900.0
# For the records of what it does.
SCALER = Principal(token_id="autoscaler", tenant="platform", role="operator", name="autoscaler")


class Autoscaler:
    """One pass after the other; each looks at all machines, then at what to buy."""

    def __init__(
        self, store: Store, view: View, state: ScalingState, nodes: Nodes, tokens: Tokens, providers: Providers,
        servers: tuple[str, ...], clock: Clock, rng: Rng, telemetry: Telemetry,
    ) -> None:  # fmt: skip
        self._records = Records(store, view)
        self._view = view
        self._state = state
        self._nodes = nodes
        self._tokens = tokens
        self._providers = providers
        self._servers = servers
        self._clock = clock
        self._rng = rng
        self._telemetry = telemetry
        self._listed: dict[str, dict[str, ListedMachine]] = {}
        self._listed_at = float("-inf")
        # By provider and machine: why it will be taken back.
        self._warned: dict[str, dict[str, str]] = {}
        self._next_look = float("-inf")
        # By the id of a machine: the token it joins by, and until when it is given out again.
        self._joins: dict[str, tuple[str, float]] = {}
        # Machines whose provider is not configured any more.
        self._unreachable: set[str] = set()

    async def run(self, guard: Compare) -> None:
        """Without pools, and without machines of earlier ones, there is nothing to look at."""
        self._listed_at = float("-inf")
        self._joins.clear()
        self._state.begin()
        while self._state.pools or self._view.kept.instances:
            try:
                await self.pass_once(guard)
            except StoreError as error:
                log.warning("autoscale.again", why=str(error))
            await self._clock.sleep(_LOOK_S)

    async def pass_once(self, guard: Compare) -> None:
        await self._look_at_lists()
        await self._look_at_warnings()
        await self._look_at_names(guard)
        await self._state.price()
        for instance in self._instances():
            with contextlib.suppress(ProviderUnknown):
                await self._advance(guard, instance)
        await self._look_at_jobs(guard)
        self._measure()
        for pool in self._state.pools.values():
            have = self._state.of_pool(pool.name)
            if self._state.enabled(pool.name) and not (
                self._state.paused(pool.name) or self._state.unpriced(pool.name)
            ):
                await self._keep_least(guard, pool.name, pool.nodes_min - len(have))

    async def _look_at_jobs(self, guard: Compare) -> None:
        """A look takes cycles of the loop that serves requests: it has a small part of the time."""
        began = self._clock.monotonic()
        if began < self._next_look:
            return
        for purchase in await self._state.purchases():
            if self._state.enabled(purchase.pool):
                await self._buy(guard, purchase)
        self._next_look = self._clock.monotonic() + _PAUSES * (self._clock.monotonic() - began)

    def _measure(self) -> None:
        counts = Counter((instance.pool, instance.state) for instance in self._view.kept.instances.values())
        self._telemetry.gauges("ares_autoscale_instances", counts)

    # ---- what providers have

    async def _look_at_lists(self) -> None:
        """Once a minute: what is in a provider's list and in no record costs money for nothing."""
        now = self._clock.monotonic()
        if now - self._listed_at < _LIST_S:
            return
        await self._view.catch_up()
        for name, provider in self._providers.items():
            # A list of before says nothing of machines that came since.
            self._listed.pop(name, None)
            with contextlib.suppress(ProviderUnknown):
                self._listed[name] = found = await _asked(_machines(provider))
                await self._end_strangers(name, provider, found)
        self._listed_at = now

    async def _look_at_warnings(self) -> None:
        """What a provider warned of before it could not be asked still holds."""
        for name, provider in self._providers.items():
            if isinstance(provider, WarningProvider) and any(i.provider == name for i in self._instances()):
                with contextlib.suppress(ProviderUnknown):
                    self._warned[name] = await _asked(_warnings(provider))

    async def _look_at_names(self, guard: Compare) -> None:
        """Of machines on their way, where another names their nodes."""
        for name, provider in self._providers.items():
            coming = [i for i in self._instances() if i.provider == name and i.state == "created"]
            if coming and isinstance(provider, NamingProvider):
                with contextlib.suppress(ProviderUnknown):
                    nodes = await _asked(_named(provider))
                    for instance in coming:
                        await self._rename(guard, instance, nodes.get(instance.id, instance.node))

    async def _rename(self, guard: Compare, instance: InstanceRecord, node: str) -> None:
        if node == instance.node or any(node == other.node for other in self._instances()):
            return
        named, same = msgspec.structs.replace(instance, node=node), self._view.kept.instances.unchanged(instance.id)
        if await self._records.write([guard, same], [Put(keys.instance(instance.id), msgspec.json.encode(named))]):
            self._state.forget(instance)
            log.info("autoscale.named", pool=instance.pool, node=node, asked_for=instance.node)

    def _instances(self) -> tuple[InstanceRecord, ...]:
        return tuple(self._view.kept.instances.values())

    async def _end_strangers(self, name: str, provider: MachineProvider, found: dict[str, ListedMachine]) -> None:
        wall = self._clock.wall()
        strangers = [
            machine.id
            for machine in found.values()
            if machine.id not in self._view.kept.instances and wall - machine.at > STRANGER_S
        ]
        if strangers:
            log.warning("autoscale.strangers", provider=name, machines=strangers)
            await _asked(_deleted(provider, strangers))
            self._telemetry.count("ares_autoscale_strangers_total", len(strangers))

    def _is_listed(self, instance: InstanceRecord, provider: str) -> bool | None:
        """None unless its provider was asked after it was last known to be there."""
        if provider not in self._listed or self._clock.monotonic() - self._listed_at > _LIST_S / 2:
            return None
        known = instance.id in self._listed[provider]
        return known if known or self._clock.wall() - instance.since > _LIST_S else None

    # ---- one machine

    async def _advance(self, guard: Compare, instance: InstanceRecord) -> None:
        pool = self._state.pools.get(instance.pool)
        name = instance.provider or ("" if pool is None else pool.provider)
        provider, listed = self._providers.get(name), self._is_listed(instance, name)
        warned = self._warned.get(name, {}).get(instance.id, "")
        decided = step(instance, pool, self._state.known(instance, listed, warned), self._clock.wall())
        if decided.failed:
            self._state.failed(instance.pool, decided.why)
        match decided.doing:
            case "wait":
                return
            case "create":
                await self._create(guard, instance, provider)
            case "ready":
                await self._become_ready(guard, instance)
            case "drain":
                await self._leave(guard, instance, decided.why)
            case "delete":
                await self._delete(guard, instance, decided, provider)
            case _:
                await self._forget(guard, instance, decided.why)

    async def _create(self, guard: Compare, instance: InstanceRecord, provider: MachineProvider | None) -> None:
        pool = self._state.pools[instance.pool]
        if provider is None:
            self._state.failed(pool.name, f"there is no provider {pool.provider!r}")
            await self._forget(guard, instance, "there is no such provider")
            return
        want = WantedMachine(
            instance.id, pool.name, instance.node, pool.shape, self._servers, await self._join(instance)
        )
        made = await _asked(_created(provider, want))
        if isinstance(made, NotProvided):
            self._state.failed(pool.name, made.why)
            await self._forget(guard, instance, made.why)
        else:
            await self._become(guard, instance, "created", handle=made)

    async def _join(self, instance: InstanceRecord) -> str:
        """The token that its agent joins by: the same one while its provider is asked again and again."""
        text, until = self._joins.get(instance.id, ("", 0.0))
        if until <= self._clock.monotonic():
            text, _ = await self._tokens.create_join(SCALER, node=instance.node, ttl_s=_JOIN_S)
            self._joins[instance.id] = text, self._clock.monotonic() + _JOIN_S / 2
        return text

    async def _become_ready(self, guard: Compare, instance: InstanceRecord) -> None:
        lacking = self._state.lacking(instance)
        if lacking:
            # It would be bought again and again for a job that it cannot take.
            self._state.failed(instance.pool, lacking)
        else:
            self._state.succeeded(instance.pool)
        await self._become(guard, instance, "ready")

    async def _leave(self, guard: Compare, instance: InstanceRecord, why: str) -> None:
        await self._nodes.drain(SCALER, instance.node, f"given back: {why}")
        if instance.state != "leaving":
            await self._become(guard, instance, "leaving", ending=why)

    async def _delete(
        self, guard: Compare, instance: InstanceRecord, decided: InstanceStep, provider: MachineProvider | None
    ) -> None:
        if instance.state != "leaving":
            # Written first: the next leader goes on from here.
            await self._become(guard, instance, "leaving", ending=decided.why)
        if provider is None:
            # Its record is all that is known of it, and it costs money: it stays until its provider can be asked.
            if instance.id not in self._unreachable:
                self._unreachable.add(instance.id)
                log.error("autoscale.no_provider", pool=instance.pool, node=instance.node, provider=instance.provider)
            return
        await _asked(_deleted(provider, [instance.id]))
        await self._forget(guard, instance, decided.why or instance.ending)

    async def _forget(self, guard: Compare, instance: InstanceRecord, why: str) -> None:
        removed = await self._nodes.remove(SCALER, instance.node) if instance.node in self._view.nodes else None
        if isinstance(removed, Refusal):
            # Its lease has not ended, or something is still held there: the record stays until the node can go.
            if instance.state != "leaving":
                await self._become(guard, instance, "leaving", ending=why)
            return
        if await self._records.write([guard], [Delete(keys.instance(instance.id))]):
            self._state.forget(instance)
            self._joins.pop(instance.id, None)
            log.info("autoscale.gone", pool=instance.pool, node=instance.node, why=why)

    async def _become(
        self, guard: Compare, instance: InstanceRecord, state: InstanceState, *, ending: str = "", handle: str = ""
    ) -> None:
        changed = msgspec.structs.replace(
            instance, state=state, since=self._clock.wall(), ending=(ending or instance.ending)[:1000],
            handle=(handle or instance.handle)[:1000],
        )  # fmt: skip
        same = self._view.kept.instances.unchanged(instance.id)
        if await self._records.write([guard, same], [Put(keys.instance(instance.id), msgspec.json.encode(changed))]):
            log.info("autoscale.instance", pool=instance.pool, node=instance.node, state=state)

    # ---- buying

    async def _buy(self, guard: Compare, purchase: Purchase) -> None:
        for _ in range(purchase.machines):
            await self._want(guard, purchase.pool, self._state.because(purchase))
        self._telemetry.count("ares_autoscale_bought_total", purchase.machines, purchase.pool)
        log.info("autoscale.bought", pool=purchase.pool, count=purchase.machines, jobs=len(purchase.jobs))

    async def _keep_least(self, guard: Compare, pool: str, lacking: int) -> None:
        may = room(self._state.pools[pool], len(self._state.of_pool(pool)))
        for _ in range(min(lacking, may)):
            await self._want(guard, pool, "the pool always has so many")

    async def _want(self, guard: Compare, pool: str, reason: str) -> None:
        """The record alone. The next pass tells the provider."""
        token, now = base32(self._rng, 10), self._clock.wall()
        wanted = InstanceRecord(
            id=token, pool=pool, node=f"{pool}-{token}", reason=reason[:1000], asked_at=now, since=now,
            provider=self._state.pools[pool].provider,
        )  # fmt: skip
        key = keys.instance(token)
        await self._records.write([guard, absent(key)], [Put(key, msgspec.json.encode(wanted))])


async def _machines(provider: MachineProvider) -> dict[str, ListedMachine]:
    """As it was promised, or it raises: an answer of another kind is as good as none."""
    listed = [ListedMachine(str(id_), str(handle), float(at)) for id_, handle, at in await provider.machines()]
    return {machine.id: machine for machine in listed}


async def _warnings(provider: WarningProvider) -> dict[str, str]:
    found = [(str(id_), str(why)[:200] or "no reason") for id_, why in await provider.warnings()]
    return dict(found[:INSTANCES_MAX])


async def _named(provider: NamingProvider) -> dict[str, str]:
    return {str(id_): str(node)[:128] for id_, node in (await provider.nodes()).items()}


async def _created(provider: MachineProvider, want: WantedMachine) -> str | NotProvided:
    made = cast("object", await provider.create(want))
    if isinstance(made, NotProvided):
        return NotProvided(str(made.why)[:1000])
    if not isinstance(made, str):
        raise TypeError(f"create gave {type(made).__name__}, which is neither a handle nor NotProvided")
    return made


async def _deleted(provider: MachineProvider, ids: list[str]) -> None:
    await provider.delete(ids)


async def _asked(answer: Awaitable[T]) -> T:
    """What a provider says. A plugin that fails or hangs has said nothing, and stops no other duty of the leader."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await answer
    except ProviderUnknown as error:
        log.warning("provider.unknown", why=str(error))
        raise
    except Exception as error:
        log.error("provider.failed", error=f"{type(error).__name__}: {error}")
        raise ProviderUnknown(f"{type(error).__name__}: {error}") from error
