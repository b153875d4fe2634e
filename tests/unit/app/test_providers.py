"""Identity providers in the configuration, and tenants of an installation that had none."""

from pathlib import Path

import msgspec
import pytest

from ares.app import server
from ares.app.config import AgentsConfig, Config, ConfigError, HttpConfig, StoreConfig, load
from ares.app.wiring import ControlPlane
from ares.control.access.users import UserWish
from ares.core import keys
from ares.core.access import tokens
from ares.model.access import Principal, TokenRecord
from ares.ports.store import Put
from tests.oidc import running

GOOD = """
[auth.oidc.corp]
issuer = "https://login.example.com"
audience = "ares"
jwks_url = "https://login.example.com/keys"
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "ares.toml"
    file.write_text(text)
    return file


def test_a_provider_is_read_and_overridden(tmp_path: Path) -> None:
    more = 'create = true\ntenant = "lab"\nrole_claim = "groups"\nroles = { "ml.admins" = "tenant-admin" }\n'
    env = {
        "HOME": str(tmp_path),
        "ARES_AUTH__OIDC__CORP__AUDIENCE": "other",
        "ARES_AUTH__OIDC__CORP__ALGORITHMS": "ES256, EdDSA",
    }
    (corp,) = load(write(tmp_path, GOOD + more), {}, env).providers
    assert (corp.name, corp.audience, corp.algorithms) == ("corp", "other", ("ES256", "EdDSA"))
    assert corp.roles == {"ml.admins": "tenant-admin"}


@pytest.mark.parametrize(
    ("more", "says"),
    [('algorithms = ["HS256"]', "HS256"), ('algorithms = ["none"]', "none"), ("algorithms = []", "length"),
     ("create = true", "where new users go"), ('role_claim = "groups"', "go together"), ('role = "node"', "node"),
     ('device_url = "https://login.example.com/d"', "client_id, device_url and token_url"),
     ('device_url = "http://login.example.com/d"', "not an https"), ('secret = "x"', "secret"),
     (GOOD.replace("corp", "again"), "configured twice")],
)  # fmt: skip
def test_a_mistake_in_a_provider_is_named(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(write(tmp_path, GOOD + more), {}, {"HOME": str(tmp_path)})


def test_keys_are_fetched_over_https_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"jwks_url .http:.* is not an https:"):
        load(write(tmp_path, GOOD.replace('url = "https', 'url = "http')), {}, {"HOME": str(tmp_path)})


async def test_a_server_takes_its_providers_word_and_gives_old_tenants_a_record(tmp_path: Path) -> None:
    with running() as idp:
        auth = {"oidc": {"corp": {"issuer": idp.url, "audience": "ares", "jwks_url": f"{idp.url}/keys"}}}
        config = msgspec.convert({"home": str(tmp_path), "auth": auth}, Config)
        config = msgspec.structs.replace(
            config, http=HttpConfig(port=0), agents=AgentsConfig(port=0), store=StoreConfig(url="memory:")
        )
        plane = ControlPlane(config)
        try:
            await plane.start()
            replica = plane.assembled.replica
            old = TokenRecord(id="0123456789", sha256=tokens.digest("x"), tenant="veterans", role="viewer")
            await replica.view._store.txn([], [Put(keys.token(old.id), msgspec.json.encode(old))])  # pyright: ignore[reportPrivateUsage]
            await replica.view.catch_up()
            for _ in range(2):
                await server._leave_token(plane, config)  # pyright: ignore[reportPrivateUsage]
            assert set(replica.view.kept.tenants) == {"default", "veterans"}
            admin = Principal(token_id="root", tenant="default", role="admin")
            await replica.users.create(admin, "veterans", UserWish(name="ada", role="viewer", identity=idp.identity()))
            who = await replica.tokens.authenticate(idp.token())
            assert isinstance(who, Principal)
            assert (who.tenant, who.user) == ("veterans", "ada")
        finally:
            await plane.stop()
