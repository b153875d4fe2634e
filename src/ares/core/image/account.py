"""An account at a registry, from the value of a tenant's secret: `user:password`, or what `docker login` wrote."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ares.core.image.reference import ImageFlaw
from ares.model.secret import RegistryAccount

# As Docker writes its own registry's name.
_WRITTEN: Final = {"docker.io": ("docker.io", "index.docker.io", "index.docker.io/v1", "registry-1.docker.io")}


class _DockerLogin(msgspec.Struct, frozen=True):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class _DockerConfig(msgspec.Struct, frozen=True):
    auths: dict[str, _DockerLogin] = {}
    creds_store: str = msgspec.field(name="credsStore", default="")
    cred_helpers: dict[str, Any] = msgspec.field(name="credHelpers", default={})


def account_of(value: bytes, secret: str, host: str) -> RegistryAccount:
    """The account at that registry. Raises ImageFlaw, which names the secret and never shows its value."""
    try:
        text = value.decode().strip()
    except UnicodeDecodeError:
        raise ImageFlaw(f"secret {secret} is no text: write user:password, or Docker's config.json") from None
    if text.startswith("{"):
        return _of_docker(text, secret, host)
    return _pair(text, f"secret {secret} is no account: write user:password on one line, or Docker's config.json")


def _of_docker(text: str, secret: str, host: str) -> RegistryAccount:
    try:
        config = msgspec.json.decode(text, type=_DockerConfig)
    except (msgspec.MsgspecError, RecursionError):
        # The decoder's own words might show some of the value.
        raise ImageFlaw(f"secret {secret} begins as Docker's config.json and cannot be read as one") from None
    login = _login(config.auths, host)
    if login is None or not (login.auth or login.username):
        if config.creds_store or host in config.cred_helpers:
            why = "has its passwords in a helper program of the machine it was written on: write user:password instead"
        elif login is not None and login.identitytoken:
            why = f"has an identity token for {host}, which is not taken: write user:password, or user:TOKEN"
        else:
            why = f"has no account at {host}, only at {', '.join(sorted(config.auths))[:200] or 'no registry'}"
        raise ImageFlaw(f"secret {secret} {why}")
    if login.username:
        return RegistryAccount(login.username, login.password)
    what = f"secret {secret} has something at {host} that is no account"
    try:
        return _pair(base64.b64decode(login.auth, validate=True).decode(), what)
    except (binascii.Error, UnicodeDecodeError):
        raise ImageFlaw(what) from None


def _login(auths: Mapping[str, _DockerLogin], host: str) -> _DockerLogin | None:
    names = _WRITTEN.get(host, (host,))
    for written, login in auths.items():
        if written.removeprefix("https://").removeprefix("http://").rstrip("/") in names:
            return login
    return None


def _pair(text: str, otherwise: str) -> RegistryAccount:
    user, colon, password = text.partition(":")
    if not (user and colon and password) or any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise ImageFlaw(otherwise)
    return RegistryAccount(user, password)
