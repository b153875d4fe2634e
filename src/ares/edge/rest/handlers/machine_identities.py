"""How machines come in and go: a join token for a certificate, what certificates there are, taking them back."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.api.identity import CertificateView
from ares.core.refusal import Refusal
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NodeName, NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import NO_NODE, NOT_FOUND
from ares.model.base import Record
from ares.model.machine import MachineRole


class JoinBody(Record, frozen=True):
    """The machine's name, and its request for a certificate (PKCS#10 in PEM)."""

    name: NodeName
    request: Annotated[str, Meta(max_length=16_384)]


class CertificateList(Record, frozen=True):
    certificates: tuple[CertificateView, ...]


async def join(call: RequestCall[NoQuery, JoinBody]) -> ASGIApp:
    return answer(await call.edge.services.authority.join(call.token, call.body.name, call.body.request))


async def list_certificates(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(CertificateList(certificates=tuple(await call.edge.services.authority.list(call.who))))


async def revoke_node(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return await _revoke(call, "node", call.path["name"], NO_NODE)


async def revoke_cluster(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return await _revoke(call, "cluster", call.path["name"], NOT_FOUND)


async def _revoke(call: RequestCall[NoQuery, None], role: MachineRole, name: str, missing: Refusal) -> ASGIApp:
    return answer(await call.edge.services.authority.revoke(call.who, role, name), missing=missing)
