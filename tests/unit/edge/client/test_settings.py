import json
from pathlib import Path

import pytest

from ares.edge.client.errors import NotConfigured
from ares.edge.client.settings import Endpoint, discover

FILE_URL = "http://127.0.0.1:8642"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"url": FILE_URL, "token": "file-token", "agents": "127.0.0.1:8643", "n": 3}))
    file.chmod(0o600)
    (tmp_path / "token").write_text("tokenfile-token\n")
    return {"ARES_HOME": str(tmp_path)}


def test_arguments_then_environment_then_file(env: dict[str, str], tmp_path: Path) -> None:
    file = str(tmp_path / "client.json")
    assert discover(env=env) == Endpoint((FILE_URL,), file, "file-token", file)
    env["ARES_TOKEN_FILE"] = str(tmp_path / "token")
    assert discover(env=env).token == "tokenfile-token"
    env["ARES_TOKEN"] = " env-token\n"
    env["ARES_URL"] = "https://ares.example:443/"
    assert discover(env=env) == Endpoint(("https://ares.example:443",), "ARES_URL", "env-token", "ARES_TOKEN")
    assert discover("http://h:1", "t", env=env) == Endpoint(("http://h:1",), "argument", "t", "argument")


def test_the_saved_token_is_not_shown_to_another_server(env: dict[str, str]) -> None:
    with pytest.raises(NotConfigured, match=r"no token for https://other.example \(from ARES_URL\)"):
        discover(env={**env, "ARES_URL": "https://other.example"})


def test_the_saved_token_serves_the_saved_server_named_otherwise(env: dict[str, str]) -> None:
    assert discover(FILE_URL + "/", env=env).token == "file-token"


def test_tokens_do_not_show_in_representations(env: dict[str, str]) -> None:
    assert "file-token" not in repr(discover(env=env))


@pytest.mark.parametrize(
    ("mode", "text", "says"),
    [
        (0o640, "{}", "others may read it"),
        (0o600, "not json", "is not JSON"),
        (0o600, "[1]", "no URL is given"),
        (0o600, '{"url": 3}', "no URL is given"),
        (0o600, '{"url": "ftp://x", "token": "t"}', "is not an http"),
        (0o600, '{"url": "http://x:notaport", "token": "t"}', "is not an http"),
        (0o600, '{"url": "http://x", "token": "a b"}', "characters no token has"),
        (0o600, '{"url": "http://x", "token": "a\\u0000b"}', "characters no token has"),
        (0o600, '{"url": "http://x", "token": "ä"}', "characters no token has"),
    ],
)
def test_a_bad_file_is_explained(tmp_path: Path, mode: int, text: str, says: str) -> None:
    file = tmp_path / "client.json"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(NotConfigured, match=says) as caught:
        discover(env={"ARES_HOME": str(tmp_path)})
    assert caught.value.fix


def test_a_missing_token_file_is_explained(env: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="cannot be read"):
        discover(env={**env, "ARES_TOKEN_FILE": str(tmp_path / "absent")})


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://127.0.0.1.evil.example", False),
        ("https://a", False),
    ],
)
def test_loopback(url: str, loopback: bool) -> None:
    assert discover(url, "t", env={"ARES_HOME": "/nonexistent"}).loopback is loopback


def test_several_addresses(env: dict[str, str]) -> None:
    found = discover(" http://a:1/, https://b:2 ,http://a:1,", "t", env=env)
    assert (found.urls, found.shown) == (("http://a:1", "https://b:2"), "http://a:1, https://b:2")
    with pytest.raises(NotConfigured, match=r"'b:2' from ARES_URL is not an http"):
        discover(env={**env, "ARES_URL": "http://a:1,b:2"})


def test_the_saved_token_is_shown_to_saved_addresses_only(tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"url": "http://a:1,http://b:2", "token": "file-token"}))
    assert discover(env=env).urls == ("http://a:1", "http://b:2")
    assert discover("http://b:2", env=env).token == "file-token"
    with pytest.raises(NotConfigured, match="no token for http://b:2, http://c:3"):
        discover("http://b:2,http://c:3", env=env)
    file.write_text(json.dumps({"token": "file-token"}))
    with pytest.raises(NotConfigured, match="no token for http://c:3"):
        discover("http://c:3", env=env)


def test_loopback_among_several_addresses() -> None:
    mixed = discover("http://[::1]:1,http://localhost:2,https://far:3", "t", env={"ARES_HOME": "/nonexistent"})
    assert (mixed.loopback, mixed.loopback_hosts) == (False, {"[::1]", "localhost"})
