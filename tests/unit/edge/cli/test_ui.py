"""`ares ui`: the link, for people and for programs."""

import json
from collections.abc import Callable
from typing import Any

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
