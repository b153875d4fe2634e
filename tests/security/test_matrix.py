"""Every principal on every route of the running app, for its own tenant, for another one, and for nothing at all."""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import websockets
from litestar.routes import HTTPRoute, WebSocketRoute

from ares.edge.rest.api import ApiSettings
from ares.edge.rest.app import build_app
from ares.edge.rest.http.gate import PERMISSION
from ares.edge.rest.http.operation import PUBLIC
from ares.model.access import Role
from tests.integration.api.world import JOB, MISSING, World
from tests.security.matrix import POLICY, PRINCIPALS, VERBS, WHERES, Verb, Where, cell

STATUS = {"1": {401}, "3": {403}, "4": {404}}
NOBODY = "nobody-of-that-name"
NUMBERS = itertools.count(1)
# Those who act in a tenant by naming it.
WIDE = ("auditor", "operator", "admin")
# How a tenant's things are made.
MADE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "user": ("POST", "/v1/users", {"role": "viewer"}),
    "policy": ("PUT", "/v1/policies/{name}", POLICY),
    "secret": ("PUT", "/v1/secrets/{name}", {"value": "not-a-secret"}),
    "dataset": ("PUT", "/v1/datasets/{name}", {"entries": []}),
    "cron": ("PUT", "/v1/crons/{name}", {"schedule": "0 0 * * *", "spec": {"command": ["true"]}}),
    "channel": ("PUT", "/v1/channels/{name}", {"kind": "email", "to": ["ops@example.org"]}),
    "alert": ("", "", {}),
}


@dataclass(frozen=True)
class Route:
    operation: str
    method: str
    path: str


def routes_of(world: World) -> list[Route]:
    """What the running app serves under its first prefix, whether anybody thought of it here or not."""
    found: list[Route] = []
    for route in build_app(world.services, ApiSettings()).routes:
        if not route.path_format.startswith("/v1/"):
            continue
        if isinstance(route, HTTPRoute):
            found += [
                Route(handler.name or "", method, route.path_format)
                for handler in route.route_handlers
                for method in handler.http_methods
                if method != "OPTIONS" and handler.opt.get(PERMISSION) != PUBLIC
            ]
        elif isinstance(route, WebSocketRoute):
            found.append(Route(route.route_handler.name or "", "WEBSOCKET", route.path_format))
    return found


@dataclass
class Stage:
    """A principal, and things of its tenant and of another one to try its hand on."""

    world: World
    principal: str
    token: str | None
    client: httpx2.AsyncClient
    helpers: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    async def job(self, where: Where, *, mine: bool, flow: bool = False) -> str:
        """A job, or a workflow of one job."""
        if where == "missing":
            return MISSING
        tenant = "acme" if where == "own" else "other"
        token = self.token if mine and where == "own" else None
        bearer = token or await self.helper("submitter", tenant)
        path, body = ("/v1/flows", {"jobs": {"train": {"command": ["true"]}}}) if flow else ("/v1/jobs", {"spec": JOB})
        made = await self.client.post(path, json=body, headers={"authorization": f"Bearer {bearer}"})
        if made.status_code == 403:
            # Those who may not submit look at somebody else's.
            return await self.job(where, mine=False, flow=flow)
        return made.json()["id"]

    async def helper(self, role: Role, tenant: str) -> str:
        """Somebody else's token."""
        if (role, tenant) not in self.helpers:
            self.helpers[role, tenant] = await self.world.token(role, tenant)
        return self.helpers[role, tenant]

    async def name(self, verb: Verb, where: Where, *, mine: bool) -> str:
        match verb.names:
            case "job" | "flow":
                return await self.job(where, mine=mine, flow=verb.names == "flow")
            case "token":
                if where == "missing":
                    return "0123456789"
                text = await self.world.token("viewer", "acme" if where == "own" else "other")
                return text.split("_")[1]
            case "tenant":
                return {"own": "acme", "other": "other", "missing": NOBODY}[where]
            case kind if kind in MADE:
                return "0123456789" if where == "missing" else await self.thing(kind, where, mine=mine)
            case _:
                return NOBODY

    async def thing(self, kind: str, where: Where, *, mine: bool) -> str:
        """Something that a tenant has, made by the principal itself if it can."""
        tenant = "acme" if where == "own" else "other"
        if kind == "alert":
            await self.world.services.alerts.raise_("test", tenant, f"subject {next(NUMBERS)}", "text")
            await self.world.view.catch_up()
            return max(self.world.view.kept.alerts.values(), key=lambda one: one.first_at).id
        name, (method, path, body) = f"{kind}-{next(NUMBERS)}", MADE[kind]
        body = {**body, "name": name} if method == "POST" else body
        for token in (self.token if mine and where == "own" else None, await self.helper("tenant-admin", tenant)):
            if token is not None:
                headers = {"authorization": f"Bearer {token}"}
                made = await self.client.request(method, path.format(name=name), json=body, headers=headers)
                if made.status_code < 300:
                    return name
        raise AssertionError(f"nobody could make {kind}: {made.text}")


async def knock(stage: Stage, route: Route, verb: Verb, where: Where, *, mine: bool) -> httpx2.Response | int:
    principal = stage.principal
    name = await stage.name(verb, where, mine=mine)
    path = re.sub(r"\{path[^}]*\}", "file.txt", route.path)
    path = re.sub(r"\{version[^}]*\}", "1", path)
    path = re.sub(r"\{[^}]*\}", name, path) + verb.query
    headers = {} if stage.token is None else {"authorization": f"Bearer {stage.token}"}
    if where == "other" and (verb.names in ("", "decision", "thing") or (verb.names in MADE and principal in WIDE)):
        # There is no object to be another tenant's: the request itself is made in its name.
        headers["x-ares-tenant"] = "other"
    if route.method == "WEBSOCKET":
        return await shake_hands(stage.world, path, headers)
    if verb.content is None:
        request = stage.client.build_request(route.method, path, headers=headers, json=verb.body)
    else:
        headers = {**headers, "content-type": "application/octet-stream"}
        request = stage.client.build_request(route.method, path, headers=headers, content=verb.content)
    answer = await stage.client.send(request, stream=True)
    # Streams that were let in never end.
    if not answer.headers.get("content-type", "").startswith(("text/event-stream", "text/plain")):
        await answer.aread()
    await answer.aclose()
    return answer


async def shake_hands(world: World, path: str, headers: dict[str, str]) -> int:
    try:
        url = world.server.url.replace("http", "ws") + path
        async with websockets.connect(url, additional_headers=headers, proxy=None):
            return 101
    except websockets.exceptions.InvalidStatus as refused:
        return refused.response.status_code


def judge(expected: str, found: int, about: object) -> None:
    if expected == "y":
        # Let in: what it is told then is another matter, but neither who it is nor what went wrong on our side.
        assert found not in (401, 403) and found < 500, about  # noqa: PT018
    else:
        assert found in STATUS[expected], about


@contextlib.asynccontextmanager
async def stage_of(world: World, principal: str) -> AsyncGenerator[Stage]:
    token = None if principal == "anonymous" else await world.token(principal, "acme")  # pyright: ignore[reportArgumentType]
    await world.services.tenants.ensure({"acme", "other"})
    async with world.client_with(None) as client:
        yield Stage(world, principal, token, client)


async def test_the_matrix_knows_every_route(world: World) -> None:
    """N2: a route that nobody put into the matrix fails here."""
    assert {route.operation for route in routes_of(world)} == set(VERBS)


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_matrix(world: World, principal: str) -> None:
    """N10, N11, N13, N30: one assertion for each route and each of own, other and missing."""
    cells = 0
    async with stage_of(world, principal) as stage:
        for route in routes_of(world):
            verb = VERBS[route.operation]
            expected = cell(verb.group, principal)
            for where in WHERES:
                answer = await knock(stage, route, verb, where, mine=True)
                found = answer if isinstance(answer, int) else answer.status_code
                word = getattr(expected, where)
                judge(word, found, (principal, route, where, word, found))
                cells += 1
    assert cells == 3 * len(VERBS)


@pytest.mark.parametrize("principal", PRINCIPALS)
async def test_others_jobs_in_the_tenant(world: World, principal: str) -> None:
    """N11: who may stop what a colleague started."""
    async with stage_of(world, principal) as stage:
        for operation in ("cancelJob", "deleteJob", "retryJob", "requeueJob"):
            route = next(one for one in routes_of(world) if one.operation == operation)
            answer = await knock(stage, route, VERBS[operation], "own", mine=False)
            assert not isinstance(answer, int)
            judge(cell("steer others'", principal).own, answer.status_code, (principal, operation, answer.status_code))


async def test_what_is_not_there_and_what_is_not_ours_look_the_same(world: World) -> None:
    """N10: byte for byte, on every route with a job in its path, for every role that is bound to a tenant."""
    for principal in ("viewer", "submitter", "tenant-admin"):
        async with stage_of(world, principal) as stage:
            for route in routes_of(world):
                verb = VERBS[route.operation]
                if verb.names == "job" and route.method != "WEBSOCKET":
                    other = await knock(stage, route, verb, "other", mine=True)
                    missing = await knock(stage, route, verb, "missing", mine=True)
                    assert not isinstance(other, int)
                    assert not isinstance(missing, int)
                    assert (other.status_code, other.content) == (404, missing.content), (principal, route)
                    assert _shown(other) == _shown(missing)


def _shown(answer: httpx2.Response) -> dict[str, str]:
    return {
        name: value for name, value in answer.headers.items() if name != "date" and not name.startswith("ratelimit")
    }


async def test_operators_read_other_peoples_output_only_with_a_reason(world: World) -> None:
    for role in ("operator", "admin"):
        async with stage_of(world, role) as stage:
            job = await stage.job("other", mine=False)
            headers = {"authorization": f"Bearer {stage.token}"}
            async with world.client_with(None) as client:
                for path in (f"/v1/jobs/{job}/logs?follow=false", f"/v1/jobs/{job}/outputs"):
                    bare = await client.get(path, headers=headers)
                    assert (bare.status_code, bare.json()["code"]) == (403, "break-glass")
                    short = await client.get(path, headers={**headers, "x-ares-break-glass": "because"})
                    assert short.status_code == 403
                    said = await client.get(path, headers={**headers, "x-ares-break-glass": "customer ticket 4711"})
                    assert said.status_code == 200, (path, said.text)


async def test_those_who_run_the_platform_see_that_a_job_is_there_and_not_what_is_in_it(world: World) -> None:
    async with world.client("submitter", "other") as client:
        spec = {
            **JOB,
            "command": ["train", "canary-7f3a"],
            "env": {"KEY": "canary-7f3a"},
            "labels": {"x": "canary-7f3a"},
        }
        job = (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]
        assert "canary-7f3a" in (await client.get(f"/v1/jobs/{job}")).text
    for role in ("operator", "auditor"):
        async with world.client(role) as client:
            for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/events", f"/v1/jobs/{job}/explain"):
                answer = await client.get(path)
                assert answer.status_code == 200
                assert "canary-7f3a" not in answer.text, path
            assert (await client.get("/v1/jobs", headers={"x-ares-tenant": "other"})).json()["jobs"][0]["id"] == job


async def test_an_administrator_acts_for_a_tenant_by_name(world: World) -> None:
    async with world.client("admin") as admin, world.client("viewer", "other") as viewer:
        made = await admin.post("/v1/jobs", json={"spec": JOB}, headers={"x-ares-tenant": "other"})
        assert made.status_code == 201
        seen = (await viewer.get(f"/v1/jobs/{made.json()['id']}")).json()
        assert seen["state"]["tenant"] == "other"
        assert (await admin.post(f"/v1/jobs/{made.json()['id']}/cancel")).status_code == 200


async def test_nobody_else_acts_for_a_tenant_by_name(world: World) -> None:
    """N8, N13: also on routes about what belongs to no tenant, some of which show a tenant's own part of it."""
    await asyncio.sleep(0)
    for role in ("viewer", "submitter", "tenant-admin"):
        async with world.client(role, "acme") as client:
            for other in ("acme-prod", "acm", "ACME", "acme/", "other"):
                for path in ("/v1/jobs", "/v1/profile", "/v1/reservations", "/v1/nodepools", "/v1/events"):
                    answer = await client.get(path, headers={"x-ares-tenant": other})
                    assert (answer.status_code, answer.json()["code"]) == (403, "tenant-mismatch"), (role, path, other)
