"""What operators do with machines: drain, taint, consolidate; and how machines come in and go."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.api.identity import CertificateView
from ares.core.refusal import Refusal
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NodeName, NoQuery, ReasonBody
from ares.edge.rest.handlers.platform import node_answer
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import NO_NODE, NOT_FOUND, Problem, granted
from ares.model.base import LabelKey, Record
from ares.model.node import MachineRole, Taint

# ---- what operators do


class TaintQuery(Record, frozen=True):
    key: LabelKey


class ConsolidationBody(Record, frozen=True):
    """So many nodes with so many free GPUs each. With `apply` the plan of that `revision` is carried out."""

    gpus: Annotated[int, Meta(ge=1, le=64)]
    nodes: Annotated[int, Meta(ge=1, le=1000)] = 1
    apply: bool = False
    revision: Annotated[str, Meta(max_length=64, pattern=r"^[0-9a-f]*$(?!\n)")] = ""


async def drain_node(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    services, name = call.edge.services, call.path["name"]
    granted(await services.nodes.drain(call.who, name, call.body.reason), NO_NODE)
    return await _status(call, name)


async def get_drain(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return await _status(call, call.path["name"])


async def _status(call: RequestCall[NoQuery, ReasonBody] | RequestCall[NoQuery, None], name: str) -> ASGIApp:
    return answer(await call.edge.services.drain.status(call.who, name), missing=NO_NODE)


async def undrain_node(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return node_answer(await call.edge.services.nodes.undrain(call.who, call.path["name"]))


async def taint_node(call: RequestCall[NoQuery, Taint]) -> ASGIApp:
    return node_answer(await call.edge.services.nodes.taint(call.who, call.path["name"], call.body))


async def untaint_node(call: RequestCall[TaintQuery, None]) -> ASGIApp:
    return node_answer(await call.edge.services.nodes.untaint(call.who, call.path["name"], call.query.key))


async def remove_node(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return node_answer(await call.edge.services.nodes.remove(call.who, call.path["name"]))


async def consolidate(call: RequestCall[NoQuery, ConsolidationBody]) -> ASGIApp:
    body, service = call.body, call.edge.services.consolidate
    if not body.apply:
        return answer(await service.plan(call.who, body.gpus, body.nodes))
    if not body.revision:
        detail = "to carry out a plan, say which: its revision, as it was shown without apply"
        raise Problem("invalid", detail=detail, path="$.revision")
    return answer(await service.apply(call.who, body.gpus, body.nodes, body.revision))


# ---- identities


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
