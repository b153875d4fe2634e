"""Logging in with an identity provider, by the device authorization grant (RFC 8628), and staying so."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec

from ares.api.identity import AuthView, ProviderView
from ares.edge.client.errors import BadAnswer, LoginFailed, NotConfigured, Unreachable
from ares.edge.client.reader import read
from ares.edge.client.settings import LOOPBACK, Login

_TIMEOUT_S = 15.0
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
# What a provider that asks for more patience gets, as the standard has it.
_SLOWER_S = 5.0
_FORM = {"accept": "application/json"}


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What a person has to do elsewhere, as the provider says it."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = 600.0
    interval: float = 5.0

    @property
    def address(self) -> str:
        return self.verification_uri_complete or self.verification_uri


class _Tokens(msgspec.Struct, frozen=True, kw_only=True):
    access_token: str = ""
    id_token: str = ""
    refresh_token: str = ""
    expires_in: float = 0.0


def providers(url: str) -> tuple[ProviderView, ...]:
    """How one may log in at a server; asked without a credential."""
    reply = _ask("GET", f"{url}/v1/auth")
    try:
        return read(_read(reply, Any), AuthView).providers
    except msgspec.ValidationError as error:
        raise BadAnswer(f"{reply.url}: {error}") from error


def begin(provider: ProviderView) -> Device:
    form = {"client_id": provider.client_id, "scope": provider.scopes}
    return _read(_ask("POST", provider.device_url, form), Device)


def finish(provider: ProviderView, device: Device, pause: Callable[[float], None] = time.sleep) -> dict[str, str]:
    """Waits until the person has agreed; what is to be saved."""
    form = {"grant_type": _DEVICE_GRANT, "device_code": device.device_code, "client_id": provider.client_id}
    interval_s, left_s = device.interval, device.expires_in
    while left_s > 0:
        pause(interval_s)
        left_s -= max(interval_s, 1.0)
        reply = _ask("POST", provider.token_url, form)
        if reply.status_code == 200:
            return _kept(_read(reply, _Tokens), provider.token_url, provider.client_id, provider.send, "")
        match _error(reply):
            case "authorization_pending":
                continue
            case "slow_down":
                interval_s += _SLOWER_S
            case "access_denied":
                raise LoginFailed(f"{provider.name} says that it was declined")
            case "expired_token":
                break
            case other:
                raise LoginFailed(f"{provider.name} answered {reply.status_code} {other}")
    raise LoginFailed(f"nobody agreed at {device.verification_uri} within {device.expires_in:g} s")


def renewed(login: Login, saved: Mapping[str, str]) -> dict[str, str]:
    """The saved login with fresh tokens, saved again."""
    refresh = saved.get("refreshToken", login.refresh_token)
    form = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": login.client_id}
    reply = _ask("POST", login.token_url, form)
    if reply.status_code != 200:
        raise NotConfigured(f"the login has ended ({_error(reply)})", fix="log in again: `ares login`")
    fresh = {**saved, **_kept(_read(reply, _Tokens), login.token_url, login.client_id, login.send, refresh)}
    save(login.path, fresh)
    return fresh


def save(path: Path, values: Mapping[str, str]) -> None:
    """Atomically; only the owner may read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({key: value for key, value in values.items() if value}, file)
    fresh.replace(path)


def _kept(tokens: _Tokens, token_url: str, client_id: str, send: str, refresh: str) -> dict[str, str]:
    token = tokens.id_token if send == "id_token" else tokens.access_token
    if not token:
        raise LoginFailed(
            f"{token_url} gave no {send}", fix="check the provider's scopes in the server's configuration"
        )
    return {
        "token": token,
        "refreshToken": tokens.refresh_token or refresh,
        "tokenUrl": token_url,
        "clientId": client_id,
        "send": send,
        "expiresAt": f"{time.time() + tokens.expires_in:.0f}" if tokens.expires_in else "",
    }


def _ask(method: str, url: str, form: Mapping[str, str] | None = None) -> httpx2.Response:
    parts = urlsplit(url)
    local = parts.hostname in LOOPBACK
    if parts.scheme != "https" and not local and form is not None:
        raise LoginFailed(f"{url} is not https: what is said there could be overheard")
    try:
        # Certificates take long to load; plain HTTP has none, and redirects are off.
        options: dict[str, Any] = {"verify": parts.scheme == "https", "trust_env": not local}
        return httpx2.request(method, url, data=form, headers=_FORM, timeout=_TIMEOUT_S, **options)
    except httpx2.HTTPError as error:
        raise Unreachable(
            f"{url}: {error or type(error).__name__}", fix="check the address, and that it runs"
        ) from error


def _read(reply: httpx2.Response, kind: Any) -> Any:
    try:
        if reply.status_code == 200:
            return msgspec.json.decode(reply.content, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise BadAnswer(f"{reply.url}: {error}") from error
    raise BadAnswer(f"{reply.url} answered {reply.status_code} {_error(reply)}".rstrip())


def _error(reply: httpx2.Response) -> str:
    """The error's name, as OAuth has it."""
    try:
        found = msgspec.json.decode(reply.content, type=dict[str, Any]).get("error", "")
    except msgspec.DecodeError:
        return ""
    return str(found)[:100]
