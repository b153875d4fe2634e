"""Machines are never lost: whatever step a server dies at, the next one finds every machine and gives it back."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from ares.control.autoscale.autoscaler import STRANGER_S, Autoscaler
from ares.control.autoscale.standing import ScalingState
from ares.core import keys
from ares.model.access import Principal
from ares.model.scaling import NodeShape, ScalingPool
from ares.ports.machines import ListedMachine, MachineWarning, NotProvided, Providers, ProviderUnknown, WantedMachine
from tests.world import ALICE, World

OPERATOR = Principal(token_id="op", tenant="acme", role="operator")
POOL = ScalingPool(
    name="gold",
    shape=NodeShape(cpu_milli=8000, memory_mib=8192),
    nodes_max=3,
    after_s=0.0,
    register_s=6.0,
    backoff_s=1.0,
    backoff_max_s=1.0,
)


class Killed(BaseException):
    """The server dies here."""


class Cloud:
    """A provider that the server may die at: before it hears of a call, or before the server hears of its answer."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.running: dict[str, float] = {}
        self.most = 0
        self.refuses = ""
        self.steps = 0
        self.dies_at = -1
        self.warned: dict[str, str] = {}

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.dies_at:
            raise Killed

    async def create(self, want: WantedMachine) -> str | NotProvided:
        self._step()
        if self.refuses:
            return NotProvided(self.refuses)
        self.running.setdefault(want.id, self.world.clock.wall())
        self.most = max(self.most, len(self.running))
        self._step()
        return f"i-{want.id}"

    async def machines(self) -> Sequence[ListedMachine]:
        self._step()
        return [ListedMachine(id_, f"i-{id_}", at) for id_, at in self.running.items()]

    async def warnings(self) -> Sequence[MachineWarning]:
        return [MachineWarning(id_, why) for id_, why in self.warned.items()]

    async def delete(self, ids: Sequence[str]) -> None:
        self._step()
        for id_ in ids:
            self.running.pop(id_, None)
        self._step()


def scaler(
    world: World, cloud: Cloud, pool: ScalingPool = POOL, providers: Providers | None = None
) -> tuple[Autoscaler, ScalingState]:
    """A server's, new: what an earlier one had in memory is gone."""
    replica = world.one
    state = ScalingState(world.store, replica.view, replica.planner, world.clock, [pool])
    made = Autoscaler(
        world.store, replica.view, state, replica.nodes, replica.tokens,
        {"process": cloud} if providers is None else providers, (), world.clock, world.rng, replica.telemetry,
    )  # fmt: skip
    return made, state


async def passes(world: World, cloud: Cloud, count: int, seconds: float = 2.0) -> None:
    """So many passes of the leader; a new server takes over where one dies."""
    made, _ = scaler(world, cloud)
    for _ in range(count):
        try:
            await made.pass_once(world.one.guards[-1])
        except Killed:
            made, _ = scaler(world, cloud)
        except ProviderUnknown:
            pass
        await world.advance(seconds)


def records(world: World) -> set[str]:
    return set(world.one.view.kept.instances)


async def switched(world: World, cloud: Cloud, *, enabled: bool = True) -> None:
    _, state = scaler(world, cloud)
    await state.switch(OPERATOR, "gold", enabled=enabled)


async def test_nothing_is_bought_before_the_pool_is_switched_on() -> None:
    async with World(scheduling=False) as world:
        cloud = Cloud(world)
        await world.submit()
        await passes(world, cloud, 3)
        assert (cloud.running, records(world)) == ({}, set())
        _, state = scaler(world, cloud)
        plan = await state.plan(OPERATOR)
        assert [(purchase.pool, purchase.count, purchase.enabled) for purchase in plan.purchases] == [
            ("gold", 1, False)
        ]


async def test_no_machine_leaks_whatever_step_the_server_dies_at() -> None:
    """Bought, never registered, given back: each machine of the provider has a record all the time."""
    async with World(scheduling=False) as world:
        cloud = Cloud(world)
        job = await world.submit()
        await switched(world, cloud)
        await passes(world, cloud, 3)
        whole = cloud.steps
        assert (len(cloud.running), records(world)) == (1, set(cloud.running))
        # Its agent never comes: it is given back, and the pool pauses.
        await passes(world, cloud, 4, seconds=4.0)
        assert cloud.steps > whole
        await world.one.jobs.cancel(ALICE, job, "")
        await passes(world, cloud, 6, seconds=4.0)
        assert (cloud.running, records(world)) == ({}, set())

        for dies_at in range(1, 9):
            job = await world.submit()
            cloud.steps, cloud.dies_at, cloud.most = 0, dies_at, 0
            await passes(world, cloud, 4)
            assert set(cloud.running) <= records(world), dies_at
            assert cloud.most <= 1, f"bought twice when killed at {dies_at}"
            await world.one.jobs.cancel(ALICE, job, "")
            await passes(world, cloud, 6, seconds=4.0)
            assert (cloud.running, records(world)) == ({}, set()), dies_at


async def test_a_machine_without_a_record_is_deleted_when_it_is_old_enough() -> None:
    async with World(scheduling=False) as world:
        cloud = Cloud(world)
        cloud.running["stranger"] = world.clock.wall()
        await passes(world, cloud, 2, seconds=61.0)
        assert "stranger" in cloud.running
        await world.advance(STRANGER_S)
        await passes(world, cloud, 1)
        assert not cloud.running


async def test_a_pool_that_gets_nothing_pauses_and_says_why() -> None:
    async with World(scheduling=False) as world:
        cloud = Cloud(world)
        await world.submit()
        await switched(world, cloud)
        cloud.refuses = "no capacity in this zone"
        made, state = scaler(world, cloud)
        for _ in range(2):
            await made.pass_once(world.one.guards[-1])
        (shown,) = await state.list(OPERATOR)
        assert (shown.trouble, shown.instances) == ("no capacity in this zone", ())
        assert shown.paused_until == world.clock.wall() + 1.0
        asked = cloud.steps
        await made.pass_once(world.one.guards[-1])
        assert cloud.steps == asked
        assert "pauses: no capacity" in (await state.plan(OPERATOR)).message


async def test_records_are_written_before_the_provider_hears_of_them() -> None:
    async with World(scheduling=False) as world:
        cloud = Cloud(world)
        await world.submit()
        await switched(world, cloud)
        made, _ = scaler(world, cloud)
        await made.pass_once(world.one.guards[-1])
        (token,) = records(world)
        assert cloud.running == {}
        assert (await world.store.get(keys.instance(token))) is not None
        assert "because job" in world.one.view.kept.instances[token].reason


async def bought(world: World, cloud: Cloud, made: Autoscaler) -> str:
    """The id of a machine for one waiting job, created and not registered."""
    await world.submit()
    await switched(world, cloud)
    for _ in range(2):
        await made.pass_once(world.one.guards[-1])
    (token,) = records(world)
    assert token in cloud.running
    return token


async def test_a_list_that_cannot_be_had_says_nothing_of_newer_machines() -> None:
    class Mute(Cloud):
        mute = False

        async def machines(self) -> Sequence[ListedMachine]:
            if self.mute:
                raise ProviderUnknown("no answer")
            return await super().machines()

    async with World(scheduling=False) as world:
        cloud = Mute(world)
        slow = msgspec.structs.replace(POOL, register_s=900.0)
        made, state = scaler(world, cloud, slow)
        token = await bought(world, cloud, made)
        cloud.mute = True
        for _ in range(4):
            await world.advance(35.0)
            await made.pass_once(world.one.guards[-1])
        assert records(world) == {token}
        (shown,) = await state.list(OPERATOR)
        assert (shown.trouble, shown.paused_until) == ("", None)


async def test_a_machine_without_its_pool_keeps_its_record_until_its_provider_has_deleted_it() -> None:
    async with World(scheduling=False) as world:
        cloud = Cloud(world)
        made, _ = scaler(world, cloud)
        token = await bought(world, cloud, made)
        # The section of the pool was taken out of the configuration, and with it the only name of its provider.
        other = msgspec.structs.replace(POOL, name="silver")
        alone, _ = scaler(world, cloud, other, {})
        for _ in range(4):
            await alone.pass_once(world.one.guards[-1])
            await world.advance(2.0)
        assert (records(world), set(cloud.running)) == ({token}, {token})
        # Another pool has the same provider.
        again, _ = scaler(world, cloud, other)
        await again.pass_once(world.one.guards[-1])
        assert (records(world), cloud.running) == (set(), {})


async def test_a_provider_that_is_asked_again_is_given_the_same_join_token() -> None:
    class Unsure(Cloud):
        async def create(self, want: WantedMachine) -> str | NotProvided:
            raise ProviderUnknown("no answer")

    async with World(scheduling=False) as world:
        cloud = Unsure(world)
        await world.submit()
        await switched(world, cloud)
        await passes(world, cloud, 6)
        await world.one.view.catch_up()
        assert sum(token.single_use for token in world.one.view.tokens.values()) == 1


async def test_answers_of_a_plugin_that_are_none_stop_no_duty_of_the_leader() -> None:
    """An error that leaves the loop would end the scheduler with it."""

    class Strange(Cloud):
        async def machines(self) -> Sequence[ListedMachine]:
            return cast("Any", [None])

        async def create(self, want: WantedMachine) -> str | NotProvided:
            return cast("Any", {"id": want.id})

        def delete(self, ids: Sequence[str]) -> Any:
            raise OSError("at once")

    async with World(scheduling=False) as world:
        cloud = Strange(world)
        await world.submit()
        await switched(world, cloud)
        await passes(world, cloud, 3)
        assert len(records(world)) == 1
        gone = msgspec.structs.replace(POOL, launch_s=1.0)
        made, _ = scaler(world, cloud, gone)
        await made.pass_once(world.one.guards[-1])
        assert [instance.state for instance in world.one.view.kept.instances.values()] == ["leaving"]


async def test_the_least_of_a_pool_is_within_its_budget() -> None:
    async with World(scheduling=False) as world:
        cloud = Cloud(world)
        await switched(world, cloud)
        dear = msgspec.structs.replace(POOL, nodes_min=3, node_hour=2.0, budget_hour=5.0)
        made, _ = scaler(world, cloud, dear)
        for _ in range(3):
            await made.pass_once(world.one.guards[-1])
        assert len(cloud.running) == 2


async def test_a_provider_that_fails_stops_nothing_and_is_asked_again() -> None:
    class Broken(Cloud):
        async def create(self, want: WantedMachine) -> str | NotProvided:
            if self.steps < 3:
                self.steps += 1
                raise ValueError("a defect of the plugin")
            return await super().create(want)

    async with World(scheduling=False) as world:
        cloud = Broken(world)
        await world.submit()
        await switched(world, cloud)
        await passes(world, cloud, 5, seconds=1.0)
        assert set(cloud.running) == records(world) != set()


async def test_a_machine_that_its_provider_takes_back_is_drained_before() -> None:
    async with World(scheduling=False) as world:
        cloud = Cloud(world)
        await world.submit()
        await switched(world, cloud)
        await passes(world, cloud, 3)
        (instance,) = world.one.view.kept.instances.values()
        await world.agent(instance.node)
        made, _ = scaler(world, cloud)
        await made.pass_once(world.one.guards[-1])
        assert world.one.view.kept.instances[instance.id].state == "ready"
        # Not this cluster's machine, or of no record: nothing comes of it.
        cloud.warned = {"another": "the market"}
        await made.pass_once(world.one.guards[-1])
        assert not world.one.view.nodes[instance.node].drained_by
        cloud.warned[instance.id] = "the market"
        await made.pass_once(world.one.guards[-1])
        node, record = world.one.view.nodes[instance.node], world.one.view.kept.instances[instance.id]
        assert (node.cordoned, node.drain_reason) == (True, "given back: its provider takes it back: the market")
        assert (record.state, record.ending) == ("leaving", "its provider takes it back: the market")
