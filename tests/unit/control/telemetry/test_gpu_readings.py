"""What drivers tell of held GPUs: shown, counted as energy that was measured, and only of what a caller may see."""

from ares.api.job_sessions import LiveUse, RankUse
from ares.control.queries.gpus import GpuMaps
from ares.model.access import Principal
from ares.model.base import AttemptRef
from ares.model.job_session import AttemptUse, GpuReading
from ares.model.state import JobState
from tests.world import ADMIN, ALICE, World

OTHER = Principal(token_id="bob-token", tenant="beta", role="submitter")


async def _held(world: World) -> JobState:
    agent = await world.agent("n1", gpus=2)
    job = await world.submit(gpus=1)
    await world.bind(job, "n1", gpus=(1,))
    agent.started(agent.starts[job])
    await world.settle()
    return world.state(job)


def _use(state: JobState, *readings: GpuReading) -> AttemptUse:
    ref = AttemptRef(job=state.id, tenant=state.tenant, fence=state.fence)
    return AttemptUse(ref=ref, rank=0, gpus=readings)


async def test_what_a_gpu_draws_is_a_gauge_and_adds_up_to_measured_energy() -> None:
    async with World(scheduling=False) as world:
        state, readings = await _held(world), world.one.gpu_readings
        said = [GpuReading(index=1, busy_percent=90, watts=200.0, celsius=60)]

        async def measure(states: list[JobState]) -> tuple[list[AttemptUse], tuple[str, ...]]:
            # An agent speaks of the GPUs that the job has, and of no other.
            return [_use(state, *said, GpuReading(index=0, watts=9000.0))], ()

        world.one.job_sessions.measure = measure
        await readings.look()
        await world.advance(10.0)
        said[:] = [GpuReading(index=1, busy_percent=90, watts=400.0, celsius=70)]
        await readings.look()
        readings.measure(world.one.telemetry)
        page = world.one.telemetry.render().decode()
        assert 'ares_gpu_power_watts{node="n1",gpu_id="1"} 400' in page
        assert 'ares_gpu_temperature_celsius{node="n1",gpu_id="1"} 70' in page
        assert 'gpu_id="0"' not in page
        assert 'ares_energy_joules_total{pool="default",source="measured"} 3000' in page
        # A driver that tells no draw is not taken to draw nothing.
        await world.advance(10.0)
        said[:] = [GpuReading(index=1, busy_percent=90)]
        await readings.look()
        readings.measure(world.one.telemetry)
        page = world.one.telemetry.render().decode()
        assert "ares_gpu_power_watts{" not in page
        assert 'source="measured"} 3000' in page


async def test_the_map_has_each_gpu_by_itself_and_nothing_of_other_tenants() -> None:
    async with World(scheduling=False) as world:
        state = await _held(world)
        device = GpuReading(index=1, busy_percent=93, watts=312.4, celsius=71)

        class Uses:
            async def all(self, who: Principal) -> LiveUse:
                rank = RankUse(
                    job=state.id, name="n", tenant="alpha", user="u", node="n1", rank=0, cpus=1.0, cpus_asked=1.0,
                    memory_bytes=1, memory_asked_bytes=1, processes=1, gpus=(1,), devices=(device,),
                )  # fmt: skip
                return LiveUse(ranks=(rank,) if who.tenant in ("alpha", ADMIN.tenant) else ())

        maps = GpuMaps(world.one.view, Uses(), world.clock)  # pyright: ignore[reportArgumentType]
        for who in (ALICE, ADMIN):
            seen = await maps.of(who)
            assert (seen.busy, seen.watts, seen.celsius) == ((-1, 93), (-1, 312), (-1, 71))
        other = await maps.of(OTHER, "n1")
        assert (other.held_milli, other.job) == ((0, 1000), (-1, -1))
        assert (other.busy, other.watts, other.celsius) == ((-1, -1),) * 3
        assert (await maps.of(ALICE, "n2")).nodes == ()
