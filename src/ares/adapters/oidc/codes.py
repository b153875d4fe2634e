"""Codes of logins in a browser, traded for tokens at the provider's configured address."""

import asyncio
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec
import structlog

from ares.model.access import Provider
from ares.ports.provider import CodeRefused, ProviderAway

log = structlog.get_logger()

_TIMEOUT_S: Final = 10.0
_BYTES_MAX: Final = 256 * 1024
# Any client may bring a code that is none: so many at once are asked about, others are told to wait.
AT_ONCE: Final = 16
# No proxy from the environment for an address of this machine.
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class _Granted(msgspec.Struct):
    id_token: str = ""
    access_token: str = ""


class CodeDesk:
    """Implements `ports.provider.ProviderCodes`."""

    def __init__(self) -> None:
        self._asking = 0

    async def redeem(self, provider: Provider, code: str, verifier: str, redirect_url: str) -> str:
        form = {
            "grant_type": "authorization_code", "code": code, "code_verifier": verifier,
            "redirect_uri": redirect_url, "client_id": provider.client_id,
        }  # fmt: skip
        if provider.client_secret_file:
            # Read anew each time: it is changed without a restart.
            form["client_secret"] = await asyncio.to_thread(_secret, provider.client_secret_file)
        if self._asking >= AT_ONCE:
            raise ProviderAway(f"{AT_ONCE} logins are being asked about already")
        self._asking += 1
        try:
            found = msgspec.json.decode(await _post(provider.token_url, form), type=_Granted)
        except msgspec.DecodeError as error:
            raise ProviderAway(f"{provider.token_url}: {error}") from error
        finally:
            self._asking -= 1
        token = found.id_token if provider.send == "id_token" else found.access_token
        if not token:
            raise ProviderAway(f"{provider.token_url} gave no {provider.send}")
        return token


def _secret(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        log.error("provider.secret_unreadable", file=file, error=str(error))
        raise ProviderAway("this server cannot read its client secret") from error


async def _post(url: str, form: dict[str, str]) -> bytes:
    """The body of a good answer."""
    # Redirects stay off: a code and a secret go where the configuration says.
    local = urlsplit(url).hostname in _LOOPBACK
    options: dict[str, Any] = {"timeout": _TIMEOUT_S, "follow_redirects": False, "trust_env": not local}
    raw = bytearray()
    accept = {"accept": "application/json"}
    try:
        async with (
            asyncio.timeout(2 * _TIMEOUT_S),
            httpx2.AsyncClient(**options) as client,
            client.stream("POST", url, data=form, headers=accept) as response,
        ):
            async for piece in response.aiter_bytes():
                raw += piece
                if len(raw) > _BYTES_MAX:
                    raise ProviderAway(f"{url} sent more than {_BYTES_MAX:,} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise ProviderAway(f"{url}: {error or type(error).__name__}") from error
    if 400 <= response.status_code < 500 and response.status_code != 429:
        raise CodeRefused(f"{url} answered {response.status_code}")
    if response.status_code != 200:
        raise ProviderAway(f"{url} answered {response.status_code}")
    return bytes(raw)
