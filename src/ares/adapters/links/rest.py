"""Joining by the API: a join token and a request for a certificate go one way, the certificate comes back."""

import asyncio
import http.client
import json
import ssl
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import urlsplit

from ares.adapters.links.diagnosis import of_certificate
from ares.core.net import is_loopback
from ares.ports.link import LinkBroken, LinkRefused

_TIMEOUT_S: Final = 10.0
_ANSWER_BYTES_MAX: Final = 256 * 1024


async def join(api: str, authorities: str, *, token: str, name: str, request: str) -> tuple[str, str]:
    """The certificate and the authorities it goes with, both PEM. `authorities` is a file with those that the API's
    own certificate must chain to; empty: those that the system trusts."""
    parts = urlsplit(api)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise LinkRefused(f"{api} is not https: a join token never travels in the clear")
    return await asyncio.to_thread(_join, api.rstrip("/") + "/v1/join", authorities, token, name, request)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token elsewhere."""

    def redirect_request(self, *args: Any, **named: Any) -> None:
        return None


def _join(url: str, authorities: str, token: str, name: str, request: str) -> tuple[str, str]:
    body = json.dumps({"name": name, "request": request}).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    asked = urllib.request.Request(url, body, headers, method="POST")
    secure = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authorities or None))
    opener = urllib.request.build_opener(secure, _NoRedirect(), urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=_TIMEOUT_S) as answer:
            said = json.loads(answer.read(_ANSWER_BYTES_MAX))
        return said["certificate"], said["authority"]
    except urllib.error.HTTPError as error:
        kind = LinkRefused if 400 <= error.code < 500 and error.code not in (408, 429) else LinkBroken
        raise kind(f"{url}: {_problem(error)}") from None
    except urllib.error.URLError as error:
        why = error.reason
        bad = isinstance(why, ssl.SSLCertVerificationError)
        raise LinkBroken(f"{url}: {of_certificate(why.verify_message) if bad else why}") from None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise LinkBroken(f"{url}: {error!r}") from None


def _problem(error: urllib.error.HTTPError) -> str:
    try:
        said = json.loads(error.read(_ANSWER_BYTES_MAX))
        return f"{said['title']}: {said.get('detail', '')} {said['fix']}"
    except (OSError, ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
