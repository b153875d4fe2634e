"""Sessions of browsers: how they are opened and end, and that no other page makes use of one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import websockets

from ares.control.access.browser_sessions import SESSIONS_MAX
from ares.core.refusal import Refusal
from ares.model.access import Role
from tests.integration.api.world import JOB, ROOT, World

OWN = {"x-ares-session": "1"}


@asynccontextmanager
async def opened(world: World, token: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """A browser with a session: the cookie, and no token."""
    async with world.client_with(None) as browser:
        answer = await browser.post("/v1/me/browser-session", headers={"authorization": f"Bearer {token}", **OWN})
        assert answer.status_code == 201, answer.text
        yield browser


def secret_of(browser: httpx2.AsyncClient) -> str:
    (text,) = [cookie.value for cookie in browser.cookies.jar]
    assert text is not None
    return text


async def link_of(world: World, token: str) -> str:
    async with world.client_with(token) as client:
        made = await client.post("/v1/me/login-links")
        assert made.status_code == 201, made.text
        return made.json()["path"].partition("#login=")[2]


async def test_a_token_is_traded_for_a_cookie_that_scripts_and_other_sites_do_not_get(world: World) -> None:
    async with world.client_with(None) as browser:
        token = await world.token("viewer")
        answer = await browser.post("/v1/me/browser-session", headers={"authorization": f"Bearer {token}"})
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert token not in answer.text + cookie
        assert secret_of(browser) not in answer.text
        assert answer.json()["role"] == "viewer"


async def test_a_session_is_the_one_it_was_opened_by(world: World) -> None:
    """Not more, not less, and the same in records: what a token submitted, its session may cancel."""
    token = await world.token("submitter")
    async with world.client_with(token) as client, opened(world, token) as browser:
        mine = (await client.get("/v1/whoami")).json()
        seen = (await browser.get("/v1/whoami")).json()
        assert (seen["proof"], seen["tokenId"], seen["permissions"]) == (
            "session",
            mine["tokenId"],
            mine["permissions"],
        )
        job = (await client.post("/v1/jobs", json={"spec": JOB})).json()["id"]
        assert (await browser.post(f"/v1/jobs/{job}/cancel", headers=OWN)).status_code == 200
        assert (await browser.get("/v1/users")).status_code == 403


async def test_a_link_opens_one_session(world: World) -> None:
    token = await world.token("submitter")
    link = await link_of(world, token)
    async with world.client_with(link) as client:
        assert (await client.get("/v1/whoami")).status_code == 401, "a link is no credential"
        assert (await client.post("/v1/me/login-links")).status_code == 401
    async with opened(world, link) as browser:
        who = (await browser.get("/v1/whoami")).json()
        assert who["permissions"]["jobs:submit"] == "tenant"
        assert (await browser.post("/v1/me/login-links", headers=OWN)).json()["code"] == "escalation"
    async with world.client_with(link) as client:
        assert (await client.post("/v1/me/browser-session")).status_code == 401


async def test_of_two_browsers_with_one_link_one_is_let_in(world: World) -> None:
    link = await link_of(world, await world.token())
    async with world.client_with(link) as client:
        answers = await asyncio.gather(*(client.post("/v1/me/browser-session") for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 401, 401, 401]


async def test_a_session_ends_with_its_token(world: World) -> None:
    token = await world.token("submitter")
    async with opened(world, token) as browser:
        assert (await browser.get("/v1/jobs")).status_code == 200
        assert not isinstance(await world.services.tokens.revoke(ROOT, token.split("_")[1]), Refusal)
        assert (await browser.get("/v1/jobs")).status_code == 401


async def test_a_session_lasts_no_longer_than_its_token(world: World) -> None:
    token = await world.token("submitter", ttl_s=60.0)
    async with opened(world, token) as browser, world.client_with(token) as client:
        mine, seen = [(await caller.get("/v1/whoami")).json()["expiresAt"] for caller in (client, browser)]
        assert seen <= mine
    made = [record for record in world.view.tokens.values() if record.use == "session"]
    assert all(record.expires_at is not None for record in made)


async def test_logging_out_ends_the_session(world: World) -> None:
    async with opened(world, await world.token()) as browser:
        kept = secret_of(browser)
        answer = await browser.delete("/v1/me/browser-session", headers=OWN)
        assert answer.status_code == 204
        assert "Max-Age=0" in answer.headers["set-cookie"]
    async with world.client_with(None) as thief:
        port = world.server.url.rpartition(":")[2]
        assert (await thief.get("/v1/jobs", headers={"cookie": f"ares-{port}={kept}"})).status_code == 401


async def test_cookies_and_tokens_do_not_stand_in_for_each_other(world: World) -> None:
    token, port = await world.token(), world.server.url.rpartition(":")[2]
    async with world.client_with(None) as client:
        assert (await client.get("/v1/jobs", headers={"cookie": f"ares-{port}={token}"})).status_code == 401
    async with opened(world, token) as browser, world.client_with(secret_of(browser)) as client:
        assert (await client.get("/v1/jobs")).status_code == 401


FOREIGN: list[dict[str, str]] = [
    {},
    {"sec-fetch-site": "cross-site", **OWN},
    {"sec-fetch-site": "same-site", **OWN},
    {"sec-fetch-site": "none", **OWN},
    {"origin": "http://evil.example", **OWN},
    # Another port of the same host is another origin, though cookies go there.
    {"origin": "http://127.0.0.1:1", **OWN},
    {"origin": "null", **OWN},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_page_of_another_origin_changes_nothing(world: World, headers: dict[str, str]) -> None:
    """N5: a form, a script of another site or of another port, with the cookie that the browser adds."""
    async with opened(world, await world.token()) as browser:
        answer = await browser.post("/v1/jobs", json={"spec": JOB}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "bad-origin")
        assert (await browser.get("/v1/jobs")).json()["jobs"] == []
        own = {"origin": world.server.url, "sec-fetch-site": "same-origin", **OWN}
        assert (await browser.post("/v1/jobs", json={"spec": JOB}, headers=own)).status_code == 201


async def test_a_socket_with_the_cookie_says_where_it_comes_from(world: World) -> None:
    """N15."""
    async with opened(world, await world.token()) as browser:
        cookie = {"cookie": f"ares-{world.server.url.rpartition(':')[2]}={secret_of(browser)}"}
        url = world.server.url.replace("http", "ws") + "/v1/events"
        tries: list[tuple[dict[str, Any], int]] = [({}, 403), ({"origin": "http://127.0.0.1:1"}, 403)]
        for more, status in tries:
            with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
                await websockets.connect(url, additional_headers={**cookie, **more}, proxy=None)
            assert refused.value.response.status_code == status
        headers = {**cookie, "origin": world.server.url}
        async with websockets.connect(url, additional_headers=headers, proxy=None) as socket:
            assert socket.state.name == "OPEN"


async def test_sessions_are_bounded_and_the_oldest_makes_room(world: World) -> None:
    token = await world.token()
    async with opened(world, token) as browser:
        for _ in range(SESSIONS_MAX):
            async with opened(world, token):
                pass
        held = [record for record in world.view.tokens.values() if record.use == "session"]
        assert len(held) == SESSIONS_MAX
        assert (await browser.get("/v1/jobs")).status_code == 401


@pytest.mark.parametrize("role", ["node", "cluster"])
async def test_machines_have_no_sessions(world: World, role: Role) -> None:
    async with world.client_with(await world.token(role)) as machine:
        assert (await machine.post("/v1/me/browser-session")).status_code == 403


async def test_pages_are_served_to_anybody_and_bring_their_rules(world: World) -> None:
    async with world.client_with(None) as browser:
        assert (await browser.get("/")).headers["location"] == "/ui/"
        for path in ("/ui/", "/ui", "/ui/jobs/abc/why", "/ui/jobs?phase=PENDING"):
            page = await browser.get(path)
            assert page.status_code == 200
            assert page.headers["content-type"].startswith("text/html")
            rules = page.headers["content-security-policy"]
            assert "default-src 'self'" in rules
            assert "frame-ancestors 'none'" in rules
            assert "require-trusted-types-for 'script'" in rules
            assert "unsafe" not in rules
            assert page.headers["cache-control"] == "no-cache"
        for path in ("/ui/assets/nothing.js", "/ui/assets/../../files.py", "/ui/assets/%2e%2e/index.html"):
            assert (await browser.get(path)).status_code == 404, path
