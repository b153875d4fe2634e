"""Who somebody is: logins that must not pass, rights that end while they are used, and rights nobody may give."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets
from joserfc.jwk import RSAKey
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection

from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.edge.rest.api import ApiSettings
from ares.model.access import Principal
from tests.integration.api.world import JOB, ROOT, World, open_world
from tests.oidc import Idp, by_shared_secret, running, sign, unsigned
from tests.security.audited import last_entry

QUICK = ApiSettings(recheck_s=0.05, heartbeat_s=0.05)


@pytest.fixture(scope="module")
def idp() -> Iterator[Idp]:
    with running() as made:
        yield made


async def user(world: World, name: str, role: str = "submitter", tenant: str = "acme", **more: Any) -> str:
    """The token of a new user."""
    await world.services.tenants.ensure({tenant})
    async with world.client("admin", tenant) as admin:
        made = await admin.post("/v1/users", json={"name": name, "role": role, **more})
        assert made.status_code == 201, made.text
        token = await admin.post("/v1/tokens", json={"role": role, "user": name})
        assert token.status_code == 201, token.text
        return token.json()["token"]


# ---- N3


def forgeries(idp: Idp) -> dict[str, list[str]]:
    """Tokens that must not pass, by why."""
    stranger = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
    public = idp.keys["rsa"].as_pem(private=False)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    good = idp.claims()
    signed = {"alg": "RS256", "kid": "rsa"}
    return {
        "alg": [
            unsigned(good),
            by_shared_secret(public, {"kid": "rsa"}, good),
            by_shared_secret(b"", {"kid": "rsa"}, good),
            idp.token(alg="PS256"),
        ],
        "jku": [sign(stranger, {**signed, "jku": "https://evil.example/keys"}, good)],
        "x5u": [sign(stranger, {**signed, "x5u": "https://evil.example/cert"}, good)],
        "jwk": [sign(stranger, {**signed, "jwk": stranger.as_dict(private=False)}, good)],
        "kid": [sign(stranger, {**signed, "kid": "evil"}, good), sign(stranger, {"alg": "RS256"}, good)],
        "signature": [
            sign(stranger, signed, good),
            # A key of another kind than the algorithm's.
            sign(stranger, {"alg": "RS256", "kid": "ec"}, good),
            idp.token()[:-6] + "AAAAAA",
        ],
        "iss": [idp.token(iss=idp.url + ".evil.example"), idp.token(iss=idp.url + "/"), idp.token(iss=idp.url[:-1])],
        "aud": [idp.token(aud="ares-prod"), idp.token(aud=["other", "are"]), idp.token(aud=None)],
        "expired": [idp.token(exp=good["iat"] - 60), idp.token(exp=None), idp.token(exp=True)],
        "nbf": [idp.token(nbf=good["iat"] + 300), idp.token(nbf="soon")],
        "sub": [idp.token(sub=None), idp.token(sub="")],
        "no_user": [idp.token(sub="alice-sub2"), idp.token(sub="alice-su")],
        "form": ["a.b.c", "..", idp.token().rpartition(".")[0] + ".", "e30.e30.AAAA"[::-1], "x" * 20_000 + ".a.b"],
    }


async def test_forged_logins_are_refused(tmp_path: Path, idp: Idp) -> None:
    """N3: each for its own reason, and without a word of it in the answer."""
    async with open_world(tmp_path, ApiSettings(), (idp.provider,)) as world:
        await user(world, "alice", identity=idp.identity())
        for key, alg in (("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")):
            who = await world.services.tokens.authenticate(idp.token(key, alg))
            assert isinstance(who, Principal), who
            assert (who.tenant, who.user, who.role, who.proof) == ("acme", "alice", "submitter", "jwt")
        for why, tokens in forgeries(idp).items():
            for token in tokens:
                denied = await world.services.tokens.authenticate(token)
                assert isinstance(denied, Refusal), (why, token)
                assert denied.reason == f"bad_token:{why}", token
        async with world.client_with(None) as client:
            bodies = {
                (answer.status_code, answer.content)
                for tokens in forgeries(idp).values()
                for answer in [await client.get("/v1/jobs", headers={"authorization": f"Bearer {tokens[0]}"})]
            }
        assert len(bodies) == 1
        assert bodies.pop()[0] == 401
        entry = await last_entry(world)
        assert (entry.outcome, entry.reason) == ("DENY", "bad_token:form")


async def test_keys_are_fetched_seldom_and_kept(tmp_path: Path, idp: Idp) -> None:
    """N3: a stranger's key ids make nobody ask the provider more often, and while it is away known keys do."""
    async with open_world(tmp_path, ApiSettings(), (idp.provider,)) as world:
        await user(world, "alice", identity=idp.identity())
        before = idp.asked["/keys"]
        assert isinstance(await world.services.tokens.authenticate(idp.token()), Principal)
        idp.up = False
        try:
            for number in range(20):
                token = idp.token(header={"kid": f"k{number}"})
                assert await world.services.tokens.authenticate(token) == denied("bad_token", "kid")
            assert isinstance(await world.services.tokens.authenticate(idp.token()), Principal)
        finally:
            idp.up = True
        assert idp.asked["/keys"] - before == 1


async def test_a_provider_may_bring_new_people_but_not_take_names(tmp_path: Path, idp: Idp) -> None:
    provider = replace(
        idp.provider, create=True, tenant_claim="org", role_claim="groups",
        roles={"ml-admins": "tenant-admin", "ml": "submitter"},
    )  # fmt: skip
    async with open_world(tmp_path, ApiSettings(), (provider,)) as world:
        await user(world, "bob")
        authenticate = world.services.tokens.authenticate
        said: dict[str, Any] = {"org": "acme", "preferred_username": "carol", "groups": ["x", "ml"]}
        first, again = await asyncio.gather(*(authenticate(idp.token(sub="carol-sub", **said)) for _ in range(2)))
        assert isinstance(first, Principal)
        assert (first.user, first.role, first.tenant) == ("carol", "submitter", "acme")
        assert isinstance(again, Principal)
        refused: list[dict[str, Any]] = [
            # Nobody becomes somebody who is there already, and no tenant comes from a claim alone.
            {"sub": "evil", **said, "preferred_username": "bob"},
            {"sub": "evil", **said, "preferred_username": "../bob"},
            {"sub": "evil", **said, "org": "nobody-made-it"},
            {"sub": "evil", **said, "groups": ["guests"]},
            {"sub": "evil", **said, "org": None},
            # A record's tenant and the claimed one must agree.
            {"sub": "carol-sub", **said, "org": "other"},
        ]
        for claims in refused:
            denied = await authenticate(idp.token(**claims))
            assert isinstance(denied, Refusal), claims
            assert denied.code == "bad_token"
        # The record decides from now on: the claim raises nobody again.
        said["groups"] = ["ml-admins"]
        raised = await authenticate(idp.token(sub="carol-sub", **said))
        assert isinstance(raised, Principal)
        assert raised.role == "submitter"


# ---- N7


@contextlib.asynccontextmanager
async def socket(world: World, token: str) -> AsyncGenerator[ClientConnection]:
    url = world.server.url.replace("http", "ws") + "/v1/events"
    headers = {"authorization": f"Bearer {token}"}
    async with websockets.connect(url, additional_headers=headers, proxy=None) as ws:
        yield ws


async def closed(ws: ClientConnection) -> int:
    """The code it is closed with, whatever it is told before."""
    await asyncio.wait_for(ws.wait_closed(), 20)
    assert ws.close_code is not None
    return ws.close_code


async def status(world: World, token: str, method: str = "GET", path: str = "/v1/jobs", **body: Any) -> int:
    async with world.client_with(token) as client:
        return (await client.request(method, path, **body)).status_code


CHANGES: dict[str, tuple[str, str, dict[str, Any] | None, str]] = {
    "disabled": ("PATCH", "/v1/users/alice", {"disabled": True}, "revoked:user_disabled"),
    "deleted": ("DELETE", "/v1/users/alice", None, "revoked:user_gone"),
    "tenant disabled": ("PATCH", "/v1/tenants/acme", {"disabled": True}, "revoked:tenant_disabled"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_who_is_shut_out_is_out_everywhere(tmp_path: Path, idp: Idp, change: str) -> None:
    """N7: by token and by login, for new requests and on open sockets; others go on."""
    method, path, body, word = CHANGES[change]
    async with open_world(tmp_path, QUICK, (idp.provider,)) as world:
        token, login = await user(world, "alice", identity=idp.identity()), idp.token()
        other = await user(world, "bob", tenant="other")
        async with (
            socket(world, token) as by_token,
            socket(world, login) as by_login,
            socket(world, other) as safe,
            world.client("admin", "root") as admin,
        ):
            assert await status(world, token) == await status(world, login) == 200
            done = await admin.request(method, path, json=body, headers={"x-ares-tenant": "acme"})
            assert done.status_code == 200, done.text
            assert {await closed(by_token), await closed(by_login)} == {4401}
            assert await status(world, token) == await status(world, login) == 401
            denied = await world.services.tokens.authenticate(token)
            assert isinstance(denied, Refusal)
            assert denied.reason == word
            await safe.ping()
            assert await status(world, other) == 200


async def test_a_lowered_role_counts_at_once(tmp_path: Path, idp: Idp) -> None:
    """N7: the token's own role does not help."""
    async with open_world(tmp_path, QUICK, (idp.provider,)) as world:
        token, login = await user(world, "alice", "tenant-admin", identity=idp.identity()), idp.token()
        async with socket(world, token) as ws, socket(world, login) as by_login, world.client("admin") as admin:
            assert await status(world, token, "GET", "/v1/users") == 200
            await admin.patch("/v1/users/alice", json={"role": "viewer"})
            assert {await closed(ws), await closed(by_login)} == {4401}
            for credential in (token, login):
                assert await status(world, credential, "GET", "/v1/users") == 403
                assert await status(world, credential, "POST", "/v1/jobs", json={"spec": JOB}) == 403
                assert await status(world, credential) == 200


async def test_a_name_that_is_given_again_gets_no_old_tokens(world: World) -> None:
    """N7: whoever is called alice next is somebody else."""
    token = await user(world, "alice")
    async with world.client("admin") as admin:
        await admin.delete("/v1/users/alice")
        listed = (await admin.get("/v1/tokens")).json()["tokens"]
        assert next(one for one in listed if one["user"] == "alice")["revoked"]
    fresh = await user(world, "alice")
    assert (await status(world, token), await status(world, fresh)) == (401, 200)


# ---- N14


async def test_nobody_gives_more_than_they_have(world: World) -> None:
    """N14: above one's own role, in another tenant, or by way of somebody who has more."""
    root, boss = await user(world, "root", "admin"), await user(world, "boss", "tenant-admin")
    await user(world, "other-boss", "tenant-admin", tenant="acme-prod")
    root_id = root.split("_")[1]
    attempts: list[tuple[str, str, Any]] = [
        *(("POST", "/v1/users", {"name": "mole", "role": role}) for role in ("admin", "operator", "auditor")),
        *(("POST", "/v1/tokens", {"role": role}) for role in ("admin", "operator", "auditor")),
        ("POST", "/v1/users", {"name": "mole", "role": "viewer", "tenant": "acme-prod"}),
        ("POST", "/v1/tokens", {"role": "viewer", "tenant": "acme-prod"}),
        ("POST", "/v1/me/tokens", {"role": "admin"}),
        ("PATCH", "/v1/users/boss", {"role": "admin"}),
        # Somebody's login for one's own would be their role for one's own.
        ("PATCH", "/v1/users/root", {"identity": "https://login.example.com boss"}),
        ("PATCH", "/v1/users/root", {"disabled": True}),
        ("PATCH", "/v1/users/root", {"role": "viewer"}),
        ("DELETE", "/v1/users/root", None),
        ("POST", "/v1/tokens", {"role": "viewer", "user": "root"}),
        ("DELETE", f"/v1/tokens/{root_id}", None),
    ]
    async with world.client_with(boss) as client:
        for method, path, body in attempts:
            answer = await client.request(method, path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "escalation"), (method, path, body)
            entry = await last_entry(world)
            assert (entry.outcome, entry.reason) == ("DENY", "escalation")
        # Another tenant's are not there, whatever is tried.
        for method, path in (("GET", "/v1/users/other-boss"), ("DELETE", "/v1/users/other-boss")):
            assert (await client.request(method, path)).status_code == 404
        assert (await client.get("/v1/tenants/acme-prod")).status_code == 404
        assert [one["name"] for one in (await client.get("/v1/tenants")).json()["tenants"]] == ["acme"]
        assert {one["tenant"] for one in (await client.get("/v1/tokens")).json()["tokens"]} == {"acme"}
        elsewhere = await client.get("/v1/users", headers={"x-ares-tenant": "acme-prod"})
        assert (elsewhere.status_code, elsewhere.json()["code"]) == (403, "tenant-mismatch")
    assert {one.name for one in await world.services.users.list(ROOT)} == {"root", "boss"}


async def test_a_narrow_token_makes_no_wider_one(world: World) -> None:
    """N14: neither for itself nor for a user it may make."""
    await user(world, "boss", "tenant-admin")
    async with world.client("admin") as admin:
        wish = {"role": "tenant-admin", "user": "boss", "permissions": ["tokens:admin", "users:admin", "jobs:read"]}
        narrow = (await admin.post("/v1/tokens", json=wish)).json()["token"]
    async with world.client_with(narrow) as client:
        wider: list[tuple[str, Any]] = [
            ("/v1/tokens", {"role": "viewer"}),
            ("/v1/tokens", {"role": "submitter", "permissions": ["jobs:read", "jobs:submit"]}),
            ("/v1/users", {"name": "mole", "role": "viewer"}),
        ]
        for path, body in wider:
            assert (await client.post(path, json=body)).json()["code"] == "escalation", body
        # What it may not do is not even looked at.
        assert (await client.post("/v1/jobs", json={"spec": JOB})).status_code == 403
        assert (await client.post("/v1/me/tokens", json={})).status_code == 403
        made = await client.post("/v1/tokens", json={"role": "viewer", "permissions": ["jobs:read"]})
        assert made.status_code == 201
    async with world.client_with(made.json()["token"]) as client:
        assert (await client.get("/v1/jobs")).status_code == 200
        assert (await client.get("/v1/nodes")).status_code == 403


async def test_own_tokens_last_no_longer_than_what_made_them(world: World) -> None:
    """N14: a leaked token that ends soon makes none that does not; one that lasts may be renewed."""
    lasting = await user(world, "alice")
    async with world.client_with(lasting) as client:
        made = await client.post("/v1/me/tokens", json={"ttlS": 600, "role": "viewer", "name": "laptop"})
        assert made.status_code == 201
        assert (made.json()["record"]["user"], made.json()["record"]["role"]) == ("alice", "viewer")
        assert (await client.post("/v1/tokens", json={"role": "viewer"})).status_code == 403
    async with world.client_with(made.json()["token"]) as client:
        for body in ({}, {"ttlS": 900}, {"ttlS": 300, "role": "submitter"}):
            assert (await client.post("/v1/me/tokens", json=body)).json()["code"] == "escalation", body
        assert (await client.post("/v1/me/tokens", json={"ttlS": 300})).status_code == 201
        own = (await client.get("/v1/me/tokens")).json()["tokens"]
        assert {one["user"] for one in own} == {"alice"}
        # Everybody else's are not there.
        other = (await user(world, "bob")).split("_")[1]
        assert (await client.delete(f"/v1/me/tokens/{other}")).status_code == 404
        # One that may do less ends none that may do more, but itself.
        assert (await client.delete(f"/v1/me/tokens/{lasting.split('_')[1]}")).json()["code"] == "escalation"
        assert (await client.delete(f"/v1/me/tokens/{made.json()['record']['id']}")).status_code == 204
    async with world.client_with(lasting) as client:
        assert (await client.delete(f"/v1/me/tokens/{lasting.split('_')[1]}")).status_code == 204
    assert await status(world, lasting) == 401


async def test_nobody_locks_themselves_out(world: World) -> None:
    root = await user(world, "root", "admin")
    async with world.client_with(root) as client:
        mistakes: list[tuple[str, str, Any]] = [
            ("PATCH", "/v1/users/root", {"disabled": True}),
            ("PATCH", "/v1/users/root", {"role": "viewer"}),
            ("DELETE", "/v1/users/root", None),
            ("PATCH", "/v1/tenants/acme", {"disabled": True}),
        ]
        for method, path, body in mistakes:
            assert (await client.request(method, path, json=body)).json()["code"] == "self-lockout"
        assert (await client.patch("/v1/users/root", json={"team": "ops"})).status_code == 200


# ---- teams


async def test_a_job_is_counted_for_its_users_team(world: World) -> None:
    alice, boss = await user(world, "alice", team="vision"), await user(world, "boss", "tenant-admin", team="ops")

    async def team_of(token: str, team: str | None) -> Any:
        spec = {**JOB, **({} if team is None else {"team": team})}
        async with world.client_with(token) as client:
            answer: httpx2.Response = await client.post("/v1/jobs", json={"spec": spec})
            if answer.status_code != 201:
                return answer.status_code
            return (await client.get(f"/v1/jobs/{answer.json()['id']}")).json()["state"]["team"]

    assert await team_of(alice, None) == "vision"
    assert await team_of(alice, "vision") == "vision"
    assert await team_of(alice, "ops") == 403
    assert await team_of(boss, "vision") == "vision"
    # A token that is nobody's says itself whom it is for.
    assert await team_of(await world.token(), "vision") == "vision"
    async with world.client_with(alice) as client:
        batch = await client.post("/v1/jobs/batch", json={"jobs": [{"spec": {**JOB, "team": "ops"}}, {"spec": JOB}]})
        first, second = batch.json()["results"]
        assert (first["error"]["status"], second["error"]) == (403, None)


async def test_only_a_tenant_that_there_is_can_be_acted_in(world: World) -> None:
    """N17, N18: a header does not become part of a key or a path."""
    async with world.client("admin") as admin:
        for name in ("typo", "../acme", "acme/", "ACME", "*", "x" * 500):
            for method, path, body in (("POST", "/v1/jobs", {"spec": JOB}), ("GET", "/v1/jobs", None)):
                answer = await admin.request(method, path, json=body, headers={"x-ares-tenant": name})
                assert (answer.status_code, answer.json()["code"]) == (422, "no-such-tenant"), name
