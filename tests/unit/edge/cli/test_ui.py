"""`ares ui`: the link, for people and for programs."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.edge.client.stub import Say, Stub

Ares = Callable[..., Any]
LINK = {"path": "/ui/#login=secret", "expiresAt": 1.0}


def test_the_link_is_all_that_is_printed(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/me/login-links", Say(LINK, 201))
    assert ares("ui").out == f"{stub.url}/ui/#login=secret\n"
    assert ares("ui", "-o", "name").out == f"{stub.url}/ui/#login=secret\n"


def test_as_json(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/me/login-links", Say(LINK, 201))
    assert json.loads(ares("ui", "-o", "json").out) == LINK


def test_a_browser_is_handed_the_link_in_a_file_of_the_user(
    stub: Stub, ares: Ares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.on("POST", "/v1/me/login-links", Say(LINK, 201))
    monkeypatch.setenv("ARES_HOME", str(tmp_path / "home"))
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {seen}\n')
    browser.chmod(0o755)
    monkeypatch.setattr("webbrowser._tryorder", None)
    monkeypatch.setattr("webbrowser._browsers", {})
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    for _ in range(2):
        assert ares("ui", "--open").out == "opened in your browser\n"
    address = seen.read_text()
    assert address.startswith("file:///")
    assert "secret" not in address
    (page,) = (tmp_path / "home").glob("open-*")
    assert address == page.as_uri()
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
    assert f"url={stub.url}/ui/#login=secret" in page.read_text()


def test_without_a_browser_it_says_so_and_leaves_nothing(
    stub: Stub, ares: Ares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.on("POST", "/v1/me/login-links", Say(LINK, 201))
    monkeypatch.setenv("ARES_HOME", str(tmp_path))

    def none_there(_: str) -> bool:
        return False

    monkeypatch.setattr("webbrowser.open", none_there)
    found = ares("ui", "--open")
    assert found.code == 1
    assert "no browser was found here" in found.err
    assert list(tmp_path.glob("open-*")) == []
