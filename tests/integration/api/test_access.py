"""Nobody comes in without a credential, and nobody gets further than their role."""

import re

import httpx2
import pytest
import websockets
from litestar import Litestar, get, websocket
from litestar.connection import WebSocket
from litestar.routes import HTTPRoute, WebSocketRoute

from ares.core.access.table import TABLE
from ares.edge.rest.api import ApiSettings
from ares.edge.rest.app import UndeclaredRoute, build_app
from ares.edge.rest.http.operation import PUBLIC
from ares.edge.rest.http.problems import KINDS
from ares.edge.rest.routes.routes import OPERATIONS, SOCKETS
from tests.integration.api.world import JOB, MISSING, ROOT, World

EXPECTED_PUBLIC = {
    prefix + path
    for prefix in ("/v1", "/api/v1")
    for path in ("/auth", "/auth/logins", "/auth/sessions", "/healthz", "/readyz", "/openapi.json")
} | {"/healthz", "/readyz", "/", "/ui", "/ui/nobody"}  # fmt: skip
ROLES = ("viewer", "submitter", "admin")
# A request for each operation that gets past the decoding of its input.
BODIES = {
    "submitJob": {"spec": JOB},
    "submitBatch": {"jobs": [{"spec": JOB}]},
    "createToken": {"role": "viewer"},
    "createJoinToken": {},
}
QUERIES = {"resolveJob": "?prefix=abc", "followEvents": "?cursor=nonsense"}


def routes_of(app: Litestar) -> list[tuple[str, str]]:
    """(method, path) of everything the running app serves, whether we know about it or not."""
    found: list[tuple[str, str]] = []
    for route in app.routes:
        path = re.sub(r"\{id[^}]*\}", MISSING, route.path_format)
        path = re.sub(r"\{[^}]*\}", "nobody", path)
        if isinstance(route, HTTPRoute):
            found += [(method, path) for method in route.methods if method != "OPTIONS"]
        elif isinstance(route, WebSocketRoute):
            found.append(("WEBSOCKET", path))
    return found


async def knock(world: World, method: str, path: str, token: str | None) -> int:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    if method == "WEBSOCKET":
        try:
            url = world.server.url.replace("http", "ws") + path
            async with websockets.connect(url, additional_headers=headers, proxy=None):
                return 101
        except websockets.exceptions.InvalidStatus as refused:
            return refused.response.status_code
    async with world.client_with(token) as client:
        return (await client.request(method, path)).status_code


async def test_every_route_demands_a_credential(world: World) -> None:
    """N1: the routes are taken from the app itself."""
    app = build_app(world.services, ApiSettings())
    routes = routes_of(app)
    # All of them are served under /api as well.
    routes += [(method, f"/api{path}") for method, path in routes if path.startswith("/v1/")]
    assert len(routes) > 2 * len(OPERATIONS)
    refused = {(m, p) for m, p in routes if await knock(world, m, p, None) == 401}
    assert {path for _, path in set(routes) - refused} == EXPECTED_PUBLIC
    changing = {path for method, path in set(routes) - refused if method != "GET"}
    assert changing == {path for path in EXPECTED_PUBLIC if "/auth/" in path}


async def test_a_refusal_says_nothing_about_why(world: World) -> None:
    good = await world.token()
    expired = await world.token(ttl_s=-1.0)
    revoked = await world.token()
    await world.services.tokens.revoke(ROOT, revoked.split("_")[1])
    wrong_secret = good[:-4] + ("AAAA" if not good.endswith("AAAA") else "BBBB")
    answers: list[httpx2.Response] = []
    for token in (
        None,
        "",
        "x",
        "ares_",
        "ares_a_b",
        f"ares_{'0' * 11}_{'A' * 43}",
        wrong_secret,
        expired,
        revoked,
        "é",
    ):
        async with world.client_with(None) as client:
            headers = [] if token is None else [(b"authorization", (b"Bearer " + token.encode()).strip())]
            answers.append(await client.get("/v1/jobs", headers=headers))
    for scheme in (f"Basic {good}", good, f"Token {good}"):
        async with world.client_with(None) as client:
            answers.append(await client.get("/v1/jobs", headers={"authorization": scheme}))
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].headers["www-authenticate"] == "Bearer"
    assert "detail" not in answers[0].json()


async def test_a_token_in_the_url_is_no_credential(world: World) -> None:
    token = await world.token()
    assert await knock(world, "GET", f"/v1/jobs?token={token}", None) == 401
    assert await knock(world, "WEBSOCKET", f"/v1/events?access_token={token}", None) == 401
    assert await knock(world, "WEBSOCKET", f"/v1/events?token={token}", token) == 422


@pytest.mark.parametrize("role", ROLES)
async def test_every_role_gets_exactly_its_permissions(world: World, role: str) -> None:
    async with world.client(role) as client:  # pyright: ignore[reportArgumentType]
        for operation in OPERATIONS:
            path = "/v1" + operation.path.replace("{id}", MISSING).replace("{name}", "n").replace("{token}", "t")
            path = path.replace("{cluster}", "c") + QUERIES.get(operation.id, "")
            answer = await client.request(operation.method, path, json=BODIES.get(operation.id))
            allowed = operation.access == PUBLIC or role in TABLE[operation.access]  # pyright: ignore[reportArgumentType]
            # To whom jobs of others do not exist, they do not even where they could not have touched their own.
            refused = 404 if "{id}" in operation.path and role != "admin" else 403
            assert (answer.status_code == refused) != allowed or (allowed and refused == 404), (role, operation.id)


async def test_a_nodes_credential_is_worth_nothing_here(world: World) -> None:
    """N30."""
    token = await world.token("node")
    for operation in OPERATIONS:
        if operation.access != PUBLIC:
            path = "/v1" + operation.path.replace("{", "").replace("}", "")
            assert await knock(world, operation.method, path, token) == 403
    for socket in SOCKETS:
        assert await knock(world, "WEBSOCKET", "/v1" + socket.path.replace("{id}", MISSING), token) == 403


async def test_a_join_token_is_no_credential(world: World) -> None:
    async with world.client("admin") as admin:
        join = (await admin.post("/v1/join-tokens", json={"node": "n1"})).json()["token"]
    assert await knock(world, "GET", "/v1/jobs", join) == 401


async def test_a_route_without_a_permission_stops_the_build(world: World) -> None:
    """N2."""

    @get("/v1/forgotten", sync_to_thread=False)
    def forgotten() -> str:
        return "open to all"

    @websocket("/v1/forgotten-socket")
    async def forgotten_socket(socket: WebSocket) -> None:
        await socket.accept()

    @get("/v1/declared", sync_to_thread=False, opt={"permission": "jobs:read"})
    def declared() -> str:
        return "fine"

    for route in (forgotten, forgotten_socket):
        with pytest.raises(UndeclaredRoute, match="forgotten"):
            build_app(world.services, ApiSettings(), [route])
    assert build_app(world.services, ApiSettings(), [declared])


async def test_the_body_cannot_name_another_tenant(world: World) -> None:
    """N8."""
    async with world.client(tenant="acme") as client:
        for other in ("acme-prod", "acm", "other"):
            answer = await client.post("/v1/jobs", json={"spec": JOB, "tenantId": other})
            assert (answer.status_code, answer.json()["code"]) == (403, "tenant-mismatch")
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


async def test_tokens_are_made_listed_and_revoked(world: World) -> None:
    async with world.client("admin") as admin:
        await admin.post("/v1/tenants", json={"name": "other"})
        made = await admin.post("/v1/tokens", json={"role": "viewer", "name": "ci", "tenant": "other", "ttlS": 60})
        assert made.status_code == 201
        token, record = made.json()["token"], made.json()["record"]
        assert (record["tenant"], record["role"], record["name"]) == ("other", "viewer", "ci")
        listed = await admin.get("/v1/tokens")
        assert record in listed.json()["tokens"]
        assert token.split("_", 2)[2] not in listed.text
        assert "sha256" not in listed.text
        async with world.client_with(token) as made_client:
            me = (await made_client.get("/v1/whoami")).json()
            assert (me["tenant"], me["role"], me["name"], me["tokenId"]) == ("other", "viewer", "ci", record["id"])
            gone = await admin.delete(f"/v1/tokens/{record['id']}")
            assert (gone.status_code, gone.content) == (204, b"")
            assert (await made_client.get("/v1/whoami")).status_code == 401
        assert (await admin.delete("/v1/tokens/nosuchtoken")).status_code == 404
        node = await admin.post("/v1/tokens", json={"role": "node"})
        assert (node.status_code, node.json()["path"]) == (422, "$.role")
        long = await admin.post("/v1/join-tokens", json={"ttlS": 901})
        assert (long.status_code, long.json()["path"]) == (422, "$.ttlS")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200), ("localhost:1234", 200), ("LOCALHOST", 200), ("[::1]:80", 200),
        ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("evil:80", 421),
        ("", 421), ("[::2]", 421), ("a b", 421),
    ],
)  # fmt: skip
async def test_only_known_host_names_are_served(world: World, host: str, status: int) -> None:
    """N5: also where no credential is needed, and where there is no route."""
    token = await world.token()
    for path in ("/v1/jobs", "/healthz"):
        async with world.client_with(token) as client:
            assert (await client.get(path, headers={"host": host})).status_code == status
    async with world.client_with(token) as client:
        assert (await client.get("/nowhere", headers={"host": host})).status_code == (404 if status == 200 else 421)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil", "http://127.0.0.1:1"])
async def test_foreign_web_pages_are_refused(world: World, origin: str) -> None:
    token = await world.token()
    async with world.client_with(token) as client:
        answer = await client.post("/v1/jobs", json={"spec": JOB}, headers={"origin": origin})
        assert (answer.status_code, answer.json()["code"]) == (403, "bad-origin")
        own = await client.post("/v1/jobs", json={"spec": JOB}, headers={"origin": world.server.url})
        assert own.status_code == 201
    url = world.server.url.replace("http", "ws") + "/v1/events"
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        await websockets.connect(
            url, origin=websockets.Origin(origin), additional_headers={"authorization": f"Bearer {token}"}, proxy=None
        )
    assert refused.value.response.status_code == 403


async def test_errors_never_tell_what_broke(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("canary-secret at /internal/path")

    monkeypatch.setattr(world.services.nodes, "nodes", broken)
    async with world.client() as client:
        answer = await client.get("/v1/nodes")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "canary" not in answer.text
    assert "internal/path" not in answer.text
    assert re.fullmatch(r"urn:ares:incident:[0-9a-f]{16}", answer.json()["instance"])


async def test_a_store_that_is_away_is_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from ares.ports.store import StoreUnavailable

    async def away(*_: object) -> None:
        raise StoreUnavailable("no store")

    monkeypatch.setattr(world.services.jobs, "get", away)
    async with world.client() as client:
        answer = await client.get(f"/v1/jobs/{MISSING}")
    assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
    assert int(answer.headers["retry-after"]) >= 1


async def test_health_is_open_and_metrics_are_not(world: World) -> None:
    async with world.client_with(None) as anyone, world.client("operator") as viewer:
        assert (await anyone.get("/healthz")).json()["status"] == "alive"
        ready = await anyone.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert float(ready.json()["checks"]["store_age_s"]) < 60
        world.view.connected = False
        assert (await anyone.get("/readyz")).status_code == 503
        assert (await anyone.get("/metrics")).status_code == 401
        text = (await viewer.get("/metrics")).text
        assert 'ares_http_requests_total{status="401"} 1.0' in text
        assert 'ares_auth_denials_total{reason="no-credential"} 1.0' in text


async def test_answers_are_not_sniffed_or_stored(world: World) -> None:
    async with world.client() as client:
        for path in ("/v1/jobs", "/nowhere", "/healthz"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers


def test_kinds_have_sane_statuses() -> None:
    assert all(400 <= kind.status < 600 and kind.title and kind.fix for kind in KINDS.values())
