"""Quotas of tenants, and what is used of them."""

from typing import Any

from litestar.types import ASGIApp

from ares.api.quotas import QuotaView
from ares.control.governance.quotas import QuotaChange
from ares.core.access.table import reaches
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import not_found
from ares.model.base import Note, Record
from ares.model.quota import Quota


class QuotaBody(Record, frozen=True):
    """All limits of a tenant, in place of those it has."""

    quota: Quota
    note: Note = ""


class QuotaList(Record, frozen=True):
    """By tenant."""

    quotas: tuple[QuotaView, ...]


async def get_quota(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.quotas.show(call.who.tenant))


async def list_quotas(call: RequestCall[NoQuery, None]) -> ASGIApp:
    found = await call.edge.services.quotas.list()
    return answer(QuotaList(quotas=tuple(quota for quota in found if reaches(call.who, "quota:read", quota.tenant))))


async def get_tenant_quota(call: RequestCall[NoQuery, None]) -> ASGIApp:
    name = call.path["name"]
    if not reaches(call.who, "quota:read", name):
        raise not_found()
    return answer(await call.edge.services.quotas.show(await _known(call)))


async def put_quota(call: RequestCall[NoQuery, QuotaBody]) -> ASGIApp:
    quotas = call.edge.services.quotas
    return answer(await quotas.put(call.who, await _known(call), call.body.quota, call.body.note))


async def patch_quota(call: RequestCall[NoQuery, QuotaChange]) -> ASGIApp:
    return answer(await call.edge.services.quotas.change(call.who, await _known(call), call.body))


async def delete_quota(call: RequestCall[NoQuery, None]) -> ASGIApp:
    quotas, name = call.edge.services.quotas, await _known(call)
    await quotas.remove(name)
    return answer(await quotas.show(name))


async def _known(call: RequestCall[NoQuery, Any]) -> str:
    name = call.path["name"]
    if not await call.edge.services.quotas.knows(call.who, name):
        raise not_found()
    return name
