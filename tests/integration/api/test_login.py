"""Logging in from the command line, with a real provider and a real server, and all that one then is and makes."""

import asyncio
import io
import json
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ares.api.identity import ProviderView
from ares.app import main
from ares.edge.client import login
from ares.edge.client.aio import AsyncClient
from ares.edge.client.errors import LoginFailed
from tests.integration.api.world import ROOT, World, open_world
from tests.oidc import Idp, running

Ares = Callable[..., Coroutine[Any, Any, tuple[int, str, str]]]


@pytest.fixture(scope="module")
def idp() -> Iterator[Idp]:
    with running() as made:
        yield made


@pytest.fixture
async def world(tmp_path: Path, idp: Idp, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    for name in ("ARES_URL", "ARES_TOKEN", "ARES_TOKEN_FILE", "ARES_TENANT", "ARES_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ARES_HOME", str(tmp_path / "home"))
    async with open_world(tmp_path, providers=(idp.provider,)) as made:
        yield made


@pytest.fixture
def ares(capsys: pytest.CaptureFixture[str]) -> Ares:
    async def run(*arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main.run, list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


async def alice(world: World, idp: Idp) -> None:
    async with world.client("admin") as admin:
        body = {"name": "alice", "role": "submitter", "team": "vision", "identity": idp.identity()}
        assert (await admin.post("/v1/users", json=body)).status_code == 201


async def test_a_login_lasts_until_logout(world: World, idp: Idp, ares: Ares, tmp_path: Path) -> None:
    await alice(world, idp)
    idp.pending = ["authorization_pending", "authorization_pending"]
    code, out, err = await ares("--url", world.server.url, "login")
    assert code == 0
    assert out.endswith(f"logged in at {world.server.url} as alice of acme (submitter)\n")
    assert f"open {idp.url}/agree?c=WXYZ" in err
    file = tmp_path / "home" / "login.json"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    me = json.loads((await ares("whoami", "-o", "json"))[1])
    assert (me["user"], me["team"], me["role"], me["proof"]) == ("alice", "vision", "submitter", "jwt")
    assert me["permissions"]["jobs:cancel"] == "mine"
    assert "in 4m" in (await ares("whoami"))[1]
    # A token of one's own needs no administrator, and nothing that is not one's own is there.
    made = (await ares("token", "create", "--me", "--ttl", "1h", "--permission", "jobs:read"))[1].strip()
    assert made.startswith("ares_")
    (mine,) = json.loads((await ares("token", "list", "--me", "-o", "json"))[1])["tokens"]
    assert (mine["user"], mine["permissions"]) == ("alice", ["jobs:read"])
    assert (await ares("token", "revoke", "--me", mine["id"]))[1] == f"revoked {mine['id']}\n"
    assert (await ares("token", "list"))[0] == 1
    assert (await ares("logout"))[1] == "logged out\n"
    assert not file.exists()
    assert "error: Ares does not know which server" in (await ares("whoami"))[2]


async def test_a_login_that_ended_is_renewed_unseen(world: World, idp: Idp, ares: Ares, tmp_path: Path) -> None:
    await alice(world, idp)
    await ares("--url", world.server.url, "login")
    file = tmp_path / "home" / "login.json"

    def age(**changes: str) -> dict[str, str]:
        saved = {**json.loads(file.read_text()), "token": idp.token(exp=time.time() - 100), **changes}
        file.write_text(json.dumps(saved))
        return saved

    # Found out by the server's answer, and by its own clock.
    for known in ({}, {"expiresAt": "1000"}):
        old = age(**known)
        assert (await ares("whoami", "-o", "name"))[1] == "alice\n"
        new = json.loads(file.read_text())
        assert new["token"] != old["token"]
        assert new["refreshToken"] != old["refreshToken"]
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    age()
    async with AsyncClient() as client:
        assert (await client.whoami()).user == "alice"
        # Another program renews it: what it got is used, and nothing asked for twice.
        age()
        await ares("whoami")
        asked = idp.asked["/token"]
        client._http.auth._token = idp.token(exp=time.time() - 100)  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportOptionalMemberAccess]
        assert (await client.whoami()).user == "alice"
        assert idp.asked["/token"] == asked
    idp.refresh_tokens.clear()
    age()
    code, _, err = await ares("whoami")
    assert code == 1
    assert err.splitlines()[1] == "fix: log in again: `ares login`"


async def test_a_login_by_token(
    world: World, ares: Ares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    token = await world.token("admin")
    monkeypatch.setattr("sys.stdin", io.StringIO(token + "\n"))
    assert (await ares("--url", world.server.url, "login", "--token"))[1].endswith("of acme (admin)\n")
    # One that is not accepted is not kept.
    before = (tmp_path / "home" / "login.json").read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO(token[:-3] + "xyz\n"))
    assert (await ares("login", "--token"))[0] == 1
    assert (tmp_path / "home" / "login.json").read_text() == before


async def test_tenants_users_and_roles_from_the_command_line(
    world: World, ares: Ares, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("ARES_URL", world.server.url)
    monkeypatch.setenv("ARES_TOKEN", await world.token("admin"))
    assert (await ares("tenant", "create", "beta", "--note", "the lab"))[1] == "beta made\n"
    code, _, err = await ares("tenant", "create", "beta")
    assert code == 1
    assert "there is a tenant 'beta' already" in err
    assert (await ares("tenant", "set", "beta", "--isolation", "sandbox"))[1] == "beta changed\n"
    assert "sandbox" in (await ares("tenant", "show", "beta"))[1]
    made = await ares("--tenant", "beta", "user", "create", "bea@lab", "--role", "tenant-admin", "--team", "vision")
    assert made[1] == "bea@lab of beta made (tenant-admin)\n"
    monkeypatch.setenv("ARES_TENANT", "beta")
    assert [line.split()[:5] for line in (await ares("user", "list"))[1].splitlines()[1:]] == [
        ["bea@lab", "tenant-admin", "vision", "person", "active"]
    ]
    assert (await ares("user", "set", "bea@lab", "--team", "", "--role", "submitter"))[0] == 0
    shown = json.loads((await ares("user", "show", "bea@lab", "-o", "json"))[1])
    assert (shown["team"], shown["role"]) == (None, "submitter")
    assert (await ares("user", "disable", "bea@lab"))[1] == "bea@lab of beta disabled (submitter)\n"
    assert (await ares("user", "enable", "bea@lab"))[1] == "bea@lab of beta enabled (submitter)\n"
    token = (await ares("token", "create", "--user", "bea@lab"))[1].strip()
    code, _, err = await ares("token", "create", "--user", "nobody")
    assert "fix: make it first: `ares user create nobody`" in err
    assert (await ares("user", "delete", "bea@lab"))[1] == "bea@lab of beta deleted (submitter)\n"
    monkeypatch.setenv("ARES_TOKEN", token)
    assert (await ares("whoami"))[0] == 1
    monkeypatch.setenv("ARES_TOKEN", await world.token("viewer", "beta"))
    table = (await ares("role", "list"))[1].splitlines()
    assert table[0].split()[:3] == ["PERMISSION", "VIEWER", "SUBMITTER"]
    assert next(line for line in table if line.startswith("jobs:cancel")).split()[1:4] == ["-", "mine", "tenant"]
    assert (await ares("role", "show", "tenant-admin"))[1].startswith("may give: viewer, submitter, tenant-admin\n")
    assert (await ares("role", "show", "king"))[0] == 2
    # Whom it is shut out of, it is told.
    assert "another tenant" in (await ares("--tenant", "acme", "jobs"))[2]


def test_a_device_is_patient_when_asked_to_be(idp: Idp) -> None:
    provider = ProviderView(**{key: getattr(idp.provider, key) for key in ProviderView.__struct_fields__})
    pauses: list[float] = []
    idp.pending = ["authorization_pending", "slow_down", "authorization_pending", "slow_down"]
    kept = login.finish(provider, login.begin(provider), pauses.append)
    assert pauses == [0.0, 0.0, 5.0, 5.0, 10.0]
    assert kept["token"].count(".") == 2
    for said, told in (("access_denied", "declined"), ("expired_token", "nobody agreed"), ("weird", "400 weird")):
        idp.pending = [said]
        with pytest.raises(LoginFailed, match=told):
            login.finish(provider, login.begin(provider), pauses.append)
    # Nobody waits for ever, whatever the provider says.
    idp.pending = ["authorization_pending"] * 1000
    with pytest.raises(LoginFailed, match="nobody agreed"):
        login.finish(provider, replace(login.begin(provider), expires_in=5.0), pauses.append)
    idp.pending = []
    with pytest.raises(LoginFailed, match="overheard"):
        login.begin(replace(provider, device_url="http://login.example.com/device"))


async def test_a_server_without_providers_says_what_to_do(tmp_path: Path, ares: Ares) -> None:
    async with open_world(tmp_path) as plain:
        code, _, err = await ares("--url", plain.server.url, "login")
        assert code == 1
        assert "fix: log in with an API token: `ares login --token`" in err
        assert await plain.services.users.list(ROOT) == ()
