"""Pools of nodes, and when a job of some size would start there."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import UNSET, Meta, UnsetType

from ares.api.jobs import YEAR_S
from ares.api.pools import PoolView, ScalingList, Shape
from ares.core.refusal import Refusal
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery, given
from ares.edge.rest.http.operation import RequestCall
from ares.model.base import Record
from ares.model.job import RANKS_MAX, GpuModel, Resources

_NO_POOL = Refusal(code="not-found", message="no pool has this name; `ares pools` lists them")
# With each GPU, or without any, unless it is said.
_CPU_MILLI, _MEMORY_MIB = 1000, 1024


class PoolsQuery(Record, frozen=True):
    """A size of job to be told the start of, instead of the common ones: at least `gpus` or `cpuMilli`."""

    gpus: Annotated[int, Meta(ge=0, le=1024)] = 0
    gpu_model: GpuModel | UnsetType = UNSET
    cpu_milli: Annotated[int, Meta(ge=1, le=4_096_000)] | UnsetType = UNSET
    memory_mib: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] | UnsetType = UNSET
    ranks: Annotated[int, Meta(ge=1, le=RANKS_MAX)] = 1
    # How long it runs.
    runtime_s: Annotated[float, Meta(ge=1.0, le=YEAR_S)] = 3600.0


class PoolList(Record, frozen=True):
    nodepools: tuple[PoolView, ...]


async def list_pools(call: RequestCall[PoolsQuery, None]) -> ASGIApp:
    query = call.query
    return answer(PoolList(nodepools=await call.edge.services.pools.list(call.who, _shape(query), query.runtime_s)))


async def get_pool(call: RequestCall[PoolsQuery, None]) -> ASGIApp:
    query = call.query
    found = await call.edge.services.pools.list(call.who, _shape(query), query.runtime_s, call.path["name"])
    return answer(found[0] if found else _NO_POOL)


# ---- pools that grow and shrink by themselves


async def list_scaling(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(ScalingList(pools=await call.edge.services.scaling.list(call.who)))


async def get_scaling(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.scaling.show(call.who, call.path["name"]))


async def plan_scaling(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.scaling.plan(call.who))


async def enable_scaling(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.scaling.switch(call.who, call.path["name"], enabled=True))


async def disable_scaling(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.scaling.switch(call.who, call.path["name"], enabled=False))


def _shape(query: PoolsQuery) -> Shape | None:
    cpu, model = given(query.cpu_milli), given(query.gpu_model)
    if not query.gpus and cpu is None:
        return None
    each = max(1, query.gpus)
    wants = Resources(
        cpu_milli=cpu or each * _CPU_MILLI,
        memory_mib=given(query.memory_mib) or each * _MEMORY_MIB,
        gpus=query.gpus,
        gpu_model=model if query.gpus else None,
    )
    return Shape(words=_words(wants, query.ranks), resources=wants, ranks=query.ranks)


def _words(wants: Resources, ranks: int) -> str:
    """8 GPUs, 4 x 8 H100, 16 CPUs."""
    what = wants.gpu_model or ("GPU" if wants.gpus == 1 else "GPUs")
    rank = f"{wants.gpus} {what}" if wants.gpus else f"{wants.cpu_milli / 1000:g} CPUs"
    return rank if ranks == 1 else f"{ranks} x {rank}"
