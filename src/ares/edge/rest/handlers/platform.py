"""Nodes, tokens, health and metrics."""

from litestar.types import ASGIApp
from msgspec.structs import replace

from ares.api.identity import NewToken
from ares.api.nodes import NodeView
from ares.core.access.table import scope_of
from ares.core.refusal import Refusal
from ares.edge.rest.answers import Answer, ClusterList, HealthView, LeaseList, NodeList, answer
from ares.edge.rest.bodies import GpuQuery, JoinTokenBody, LeasesQuery, NoQuery, SeriesQuery, UsageQuery, given
from ares.edge.rest.handlers.identity import token_view
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import NO_NODE, Problem

PLAIN_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


async def get_usage(call: RequestCall[UsageQuery, None]) -> ASGIApp:
    asked = call.query
    services = call.edge.services
    report = await services.spending.report(call.who, asked.by, given(asked.since_s), asked.limit)
    return answer(replace(report, clusters=services.books.ages()))


async def list_nodes(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(NodeList(nodes=await call.edge.services.nodes.nodes(call.who)))


async def get_node(call: RequestCall[NoQuery, None]) -> ASGIApp:
    nodes = await call.edge.services.nodes.nodes(call.who)
    return node_answer(next((node for node in nodes if node.name == call.path["name"]), None))


def node_answer(node: NodeView | Refusal | None) -> ASGIApp:
    """A node as it is after what was asked, if there is one of that name."""
    return answer(node, missing=NO_NODE)


async def cordon_node(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return await _cordon(call, on=True)


async def uncordon_node(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return await _cordon(call, on=False)


async def _cordon(call: RequestCall[NoQuery, None], *, on: bool) -> ASGIApp:
    return node_answer(await call.edge.services.nodes.cordon(call.who, call.path["name"], on))


async def list_clusters(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(ClusterList(clusters=await call.edge.services.nodes.clusters(call.who)))


async def get_cluster(call: RequestCall[NoQuery, None]) -> ASGIApp:
    clusters = await call.edge.services.nodes.clusters(call.who)
    return answer(next((cluster for cluster in clusters if cluster.id == call.path["cluster"]), None))


async def get_overview(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.overviews.of(call.who))


async def get_gpus(call: RequestCall[GpuQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.gpu_maps.of(call.who, given(call.query.node)))


async def list_leases(call: RequestCall[LeasesQuery, None]) -> ASGIApp:
    return answer(LeaseList(leases=await call.edge.services.nodes.leases(call.who, given(call.query.job))))


# ---- access


async def create_join_token(call: RequestCall[NoQuery, JoinTokenBody]) -> ASGIApp:
    body = call.body
    if (body.node is not None) + (body.cluster is not None) + body.any_name != 1:
        raise Problem("invalid", detail="say whom it admits: one of node, cluster, or anyName", path="$.node")
    if body.cluster is not None and scope_of(call.who, "clusters:admin") is None:
        raise Problem("forbidden", detail=f"the role {call.who.role!r} does not have clusters:admin", reason="role")
    text, record = await call.edge.services.tokens.create_join(
        call.who, node=body.node, ttl_s=body.ttl_s, cluster=body.cluster
    )
    call.made(f"tokens/{record.id}")
    return answer(NewToken(token=text, record=token_view(record)), status=201)


# ---- this server


async def get_status(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.status.now())


async def get_series(call: RequestCall[SeriesQuery, None]) -> ASGIApp:
    names = tuple(name for name in call.query.name.split(",") if name)
    return answer(await call.edge.services.numbers.series.answer(names, call.query.since_s))


async def healthz(call: RequestCall[NoQuery, None]) -> ASGIApp:
    alive = call.edge.services.health.live()
    return answer(HealthView(status="alive" if alive else "failing"), status=200 if alive else 503)


async def readyz(call: RequestCall[NoQuery, None]) -> ASGIApp:
    ready, checks = await call.edge.services.health.ready()
    return answer(HealthView(status="ready" if ready else "not ready", checks=checks), status=200 if ready else 503)


def accepts_open(accept: str) -> bool:
    """Whether a client that sends this `Accept` reads OpenMetrics: Prometheus names it with the version."""
    for kind in accept.split(","):
        name, *parameters = (part.strip() for part in kind.split(";"))
        if name == "application/openmetrics-text" and "q=0" not in (word.replace(" ", "") for word in parameters):
            return True
    return False


async def metrics(call: RequestCall[NoQuery, None]) -> ASGIApp:
    is_open = accepts_open(call.header(b"accept") or "")
    return Answer(await call.edge.services.metrics(is_open), media_type=OPEN_TYPE if is_open else PLAIN_TYPE)
