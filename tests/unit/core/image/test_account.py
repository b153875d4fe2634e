"""Accounts at registries: the forms a secret may have, and words that never show its value."""

import base64
import json

import pytest

from ares.core.image.account import account_of
from ares.core.image.reference import ImageFlaw
from ares.model.secret import RegistryAccount

HOST = "registry.lab:5000"
PASSWORD = "pass:word-7301"
AUTH = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()


@pytest.mark.parametrize(
    ("value", "host"),
    [
        (f"ann:{PASSWORD}", HOST),
        (f"ann:{PASSWORD}\n", HOST),
        (json.dumps({"auths": {"other": {"auth": "x"}, HOST: {"auth": AUTH}}}), HOST),
        (
            json.dumps({"auths": {f"https://{HOST}/": {"username": "ann", "password": PASSWORD}}, "credsStore": ""}),
            HOST,
        ),
        # As `docker login` writes its own registry.
        (json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": AUTH}}, "HttpHeaders": {}}), "docker.io"),
    ],
)
def test_an_account_is_found(value: str, host: str) -> None:
    found = account_of(value.encode(), "login", host)
    assert found == RegistryAccount("ann", PASSWORD)
    assert found.basic == f"Basic {AUTH}"
    assert (str(found), f"{found!r}") == ("***", "***")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (PASSWORD.replace(":", ""), "user:password on one line"),
        (f":{PASSWORD}", "user:password on one line"),
        (f"ann:{PASSWORD}\nX-Header: 1", "user:password on one line"),
        ('{"auths": {"' + PASSWORD, "cannot be read as one"),
        ('{"auths": "' + PASSWORD + '"}', "cannot be read as one"),
        (json.dumps({"auths": {"other:1": {"auth": AUTH}}}), "has no account at registry.lab:5000, only at other:1"),
        (json.dumps({"auths": {HOST: {}}, "credsStore": "desktop"}), "in a helper program"),
        (json.dumps({"auths": {HOST: {"identitytoken": PASSWORD}}}), "identity token"),
        (json.dumps({"auths": {HOST: {"auth": "!" + AUTH}}}), "is no account"),
        (json.dumps({"auths": {HOST: {"auth": base64.b64encode(b"ann").decode()}}}), "is no account"),
    ],
)
def test_what_is_none_is_told_without_its_value(value: str, why: str) -> None:
    with pytest.raises(ImageFlaw, match="secret login") as flaw:
        account_of(value.encode(), "login", HOST)
    assert why in str(flaw.value)
    assert "7301" not in str(flaw.value)
    assert AUTH not in str(flaw.value)
    with pytest.raises(ImageFlaw, match="no text"):
        account_of(b"\xff" + value.encode(), "login", HOST)
