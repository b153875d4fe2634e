"""A tenant's datasets: published, listed, read and removed."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.api.projects import DatasetList, PartsBody
from ares.edge.rest.answers import JSON, Answer, answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import granted
from ares.model.base import Record

BYTES = "application/octet-stream"
_Version = Annotated[str, Meta(max_length=64, pattern=r"^([0-9a-f]{64})?$(?!\n)")]


class VersionQuery(Record, frozen=True):
    """Left out: the newest."""

    version: _Version = ""


class RemovalQuery(Record, frozen=True):
    """Without a version all of them go; with `force` also those that jobs which have not ended are given."""

    version: _Version = ""
    force: bool = False


async def list_datasets(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(DatasetList(datasets=await call.edge.services.datasets.list(call.who)))


async def get_dataset(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.datasets.get(call.who, call.path["dataset"]))


async def put_dataset(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.datasets.publish(call.who, call.path["dataset"], call.raw))


async def delete_dataset(call: RequestCall[RemovalQuery, None]) -> ASGIApp:
    query, name = call.query, call.path["dataset"]
    return answer(await call.edge.services.datasets.remove(call.who, name, query.version, force=query.force))


async def get_manifest(call: RequestCall[VersionQuery, None]) -> ASGIApp:
    found = await call.edge.services.datasets.manifest(call.who, call.path["dataset"], call.query.version)
    return Answer(granted(found), media_type=JSON)


async def get_parts(call: RequestCall[NoQuery, PartsBody]) -> ASGIApp:
    services, body = call.edge.services, call.body
    data = granted(await services.datasets.parts(call.who, call.path["dataset"], body.version, body.parts))
    too_much = services.meters.take(call.who.tenant, len(data))
    return Answer(data, media_type=BYTES) if too_much is None else answer(too_much)
