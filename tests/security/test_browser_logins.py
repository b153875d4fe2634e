"""Logins of browsers by an identity provider: a real one, and all that may go wrong or be tried on the way."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from msgspec.structs import replace

from ares.core.access import code_login
from ares.core.access.code_login import CodeLogin
from tests.integration.api.world import World, open_world
from tests.oidc import Idp, running
from tests.security.audited import entries, last_entry

OWN = {"x-ares-session": "1"}


@pytest.fixture(scope="module")
def idp() -> Iterator[Idp]:
    with running() as made:
        yield made


@pytest.fixture
async def world(tmp_path: Path, idp: Idp) -> AsyncIterator[World]:
    idp.up, idp.lies = True, {}
    async with open_world(tmp_path, providers=(idp.provider,)) as made, made.client("admin") as admin:
        body = {"name": "alice", "role": "submitter", "identity": idp.identity()}
        assert (await admin.post("/v1/users", json=body)).status_code == 201
        yield made


async def at_provider(browser: httpx2.AsyncClient) -> dict[str, str]:
    """Begins a login, goes to the provider, and is what the browser comes back with."""
    begun = await browser.post("/v1/auth/logins", json={"provider": "corp"}, headers=OWN)
    assert begun.status_code == 200, begun.text
    cookie = begun.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Max-Age=600"} <= {part.strip() for part in cookie.split(";")}
    async with httpx2.AsyncClient(trust_env=False) as outside:
        sent = (await outside.get(begun.json()["url"])).headers["location"]
    assert sent.startswith(f"{browser.base_url}".rstrip("/") + "/ui/login?")
    return {name: values[0] for name, values in parse_qs(urlsplit(sent).query).items()}


async def finish(browser: httpx2.AsyncClient, back: dict[str, str]) -> httpx2.Response:
    return await browser.post("/v1/auth/sessions", json={"code": back["code"], "state": back["state"]}, headers=OWN)


async def test_a_person_logs_in_and_is_the_user_of_the_record(world: World) -> None:
    async with world.client_with(None) as browser:
        assert (await browser.get("/v1/auth")).json()["browser"] == ["corp"]
        done = await finish(browser, await at_provider(browser))
        assert done.status_code == 201, done.text
        assert done.json()["user"] == "alice"
        who = (await browser.get("/v1/whoami")).json()
        assert (who["user"], who["role"], who["proof"]) == ("alice", "submitter", "session")
        # Longer than the provider's token, which said who it is and not for how long.
        lasts_s = who["expiresAt"] - world.services.clock.wall()
        assert 11 * 3600 < lasts_s <= 12 * 3600
        entry = next(entry for entry in entries(world) if entry.operation == "finishBrowserLogin")
        assert (entry.user, entry.outcome, entry.proof) == ("alice", "ALLOW", "jwt")
        async with world.client("admin") as admin:
            await admin.patch("/v1/users/alice", json={"disabled": True})
        await world.view.catch_up()
        assert (await browser.get("/v1/whoami")).status_code == 401


async def test_a_code_is_good_once_and_in_the_browser_that_asked(world: World) -> None:
    async with world.client_with(None) as browser, world.client_with(None) as other:
        back = await at_provider(browser)
        # Login CSRF: an attacker's code in a victim's browser, which began a login of its own, or none.
        assert (await finish(other, back)).json()["code"] == "login-failed"
        await at_provider(other)
        refused = await finish(other, back)
        assert (refused.status_code, refused.json()["code"]) == (401, "login-failed")
        assert "not begun in this browser" in refused.json()["detail"]
        # The code in a login that is its own: its verifier is another.
        mine = await at_provider(other)
        stolen = await finish(other, {"code": back["code"], "state": mine["state"]})
        assert stolen.json()["code"] == "login-failed"
        assert (await other.get("/v1/whoami")).status_code == 401
        # Somebody tried it, so the provider gives nothing for it any more.
        assert (await finish(browser, back)).status_code == 401
        back = await at_provider(browser)
        assert (await finish(browser, back)).status_code == 201
        assert (await finish(browser, back)).status_code == 401
        await last_entry(world)
        reasons = [entry.reason for entry in entries(world) if entry.operation == "finishBrowserLogin"]
        assert {"login:state", "login:code"} <= set(reasons)


async def test_a_token_of_another_login_is_not_taken(world: World, idp: Idp) -> None:
    """A provider that hands out a token that was made for another browser, or by another key, or for others."""
    async with world.client_with(None) as browser:
        for wrong in ({"nonce": "another"}, {"aud": "others"}, {"exp": 1.0}, {"iss": "https://evil.example"}):
            back = await at_provider(browser)
            idp.lies = wrong
            refused = await finish(browser, back)
            assert refused.json()["code"] == "login-failed", wrong
            assert (await browser.get("/v1/whoami")).status_code == 401


async def test_a_person_without_a_record_is_told_so(world: World, idp: Idp) -> None:
    idp.subject = "nobody-here"
    try:
        async with world.client_with(None) as browser:
            told = (await finish(browser, await at_provider(browser))).json()
    finally:
        idp.subject = "alice-sub"
    assert (told["code"], told["detail"]) == ("login-failed", "corp knows you, and Ares has no user for you.")


async def test_a_provider_that_is_away_lets_nobody_in_and_says_so(world: World, idp: Idp) -> None:
    async with world.client_with(None) as browser:
        back = await at_provider(browser)
        idp.up = False
        refused = await finish(browser, back)
        assert (refused.status_code, refused.json()["code"]) == (503, "provider-away")
        assert refused.headers["retry-after"] == "10"
        idp.up = True
        assert (await finish(browser, back)).status_code == 201


@pytest.mark.parametrize(
    "headers",
    [{}, {"sec-fetch-site": "cross-site", **OWN}, {"origin": "http://127.0.0.1:1", **OWN}],
    ids=["form", "site", "port"],
)
async def test_pages_of_others_begin_and_finish_nothing(world: World, headers: dict[str, str]) -> None:
    async with world.client_with(None) as browser:
        back = await at_provider(browser)
        code = {"code": back["code"], "state": back["state"]}
        for path, body in (("/v1/auth/logins", {"provider": "corp"}), ("/v1/auth/sessions", code)):
            refused = await browser.post(path, json=body, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "bad-origin")
        assert (await finish(browser, back)).status_code == 201


async def test_bad_input_is_refused(world: World) -> None:
    async with world.client_with(None) as browser:
        unknown = await browser.post("/v1/auth/logins", json={"provider": "none-such"}, headers=OWN)
        assert (unknown.status_code, "there is: corp" in unknown.json()["detail"]) == (404, True)
        back = await at_provider(browser)
        for wrong in ({"code": "", "state": "x"}, {"code": "x" * 5000, "state": "x"}, {"code": "x"}):
            refused = await browser.post("/v1/auth/sessions", json=wrong, headers=OWN)
            assert refused.status_code == 422
        assert (await finish(browser, back)).status_code == 201


async def test_guesses_are_counted_by_address(world: World) -> None:
    async with world.client_with(None) as browser:
        answers = [(await finish(browser, {"code": "x", "state": "y"})).status_code for _ in range(200)]
        # Not the last one of them: by the clock an address may guess again, and a busy machine is slow.
        assert set(answers) == {401, 429}


def test_what_a_provider_is_sent_follows_from_the_secret_alone(idp: Idp) -> None:
    login = CodeLogin(provider="corp", secret="s" * 43)
    assert code_login.read(login.text) == login
    words = {login.state, login.nonce, login.verifier, login.challenge, login.secret}
    assert len(words) == 5
    for text in ("", "corp", "corp.short", "Corp." + "s" * 43, "corp." + "s" * 44, "corp.\n" + "s" * 43):
        assert code_login.read(text) is None, text
    url = code_login.address(
        login, replace(idp.provider, authorize_url="https://i.example/a?x=1"), "https://a/ui/login"
    )
    asked = parse_qs(urlsplit(url).query)
    assert (asked["x"], asked["code_challenge"], asked["state"]) == (["1"], [login.challenge], [login.state])
    assert asked["scope"] == ["openid profile email"]
    assert login.verifier not in url
    assert login.secret not in url
