"""What both transports share: options, request ids, the credential, and names for what can break."""

import asyncio
import fcntl
import time
from collections.abc import AsyncGenerator, Generator
from typing import Any

import httpx2

from ares.edge.client.ask import JobFields, job_spec
from ares.edge.client.calls.calls import Request
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.settings import Endpoint, Login, read_file, saved_login
from ares.edge.client.steps import Broken
from ares.model.job import JobSpec

_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
# So much before its end a token is renewed rather than tried.
_EARLY_S = 5.0


def connection_options(endpoint: Endpoint, timeout_s: float) -> dict[str, Any]:
    """Arguments of either httpx2 client. Redirects stay off: they would carry the token elsewhere."""
    return {
        "auth": Bearer(endpoint),
        "headers": {name: value.encode() for name, value in endpoint.headers.items()},
        "timeout": httpx2.Timeout(timeout_s, connect=min(timeout_s, 5.0)),
        # Certificates take longer to load than most requests; plain HTTP has none, and redirects are off.
        "verify": any(url.startswith("https:") for url in endpoint.urls),
        # A proxy from the environment never stands between a machine and itself.
        "trust_env": not endpoint.loopback,
        "mounts": {f"all://{host}": None for host in endpoint.loopback_hosts},
    }


def request_options(request: Request, to: str) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": to + request.path,
        "params": request.params or None,
        "content": request.body,
        "headers": dict(request.headers),
    }


def stream_options(request: Request, to: str, silence_s: float) -> dict[str, Any]:
    """A stream arrives as it is written: no compression to wait for, and only silence ends it."""
    options = request_options(request, to)
    options["headers"] |= {"accept-encoding": "identity"}
    options["timeout"] = httpx2.Timeout(silence_s, connect=min(silence_s, 5.0))
    return options


def broken(error: Exception) -> Broken:
    """What a failed request means for repeating it."""
    detail = str(error) or type(error).__name__
    return Broken("connect" if isinstance(error, _NEVER_SENT) else "sent", detail)


def spec_of(spec: object, ask: JobFields) -> JobSpec:
    """The job a caller means: a spec, or keyword arguments that describe one."""
    if spec is None:
        return job_spec(**ask)
    if not isinstance(spec, JobSpec):
        raise InvalidSpec(
            f"the first argument is of type {type(spec).__name__}, and has to be a JobSpec",
            fix="write what it runs as command=[...]",
        )
    if ask:
        raise InvalidSpec(f"a spec is given, and also {', '.join(sorted(ask))}", fix="give one or the other")
    return spec


class Bearer(httpx2.Auth):
    """The credential of a client's requests; a login that has ended is renewed, and the request sent again."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._token = endpoint.token
        self._login = endpoint.login

    def __repr__(self) -> str:
        return "Bearer(***)"

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if self._login is not None and self._ends():
            self._renew(self._login)
        response = yield self._signed(request)
        if response.status_code == 401 and self._login is not None:
            self._renew(self._login)
            yield self._signed(request)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._login is not None and self._ends():
            await asyncio.to_thread(self._renew, self._login)
        response = yield self._signed(request)
        if response.status_code == 401 and self._login is not None:
            await asyncio.to_thread(self._renew, self._login)
            yield self._signed(request)

    def fresh(self) -> str:
        """The token, renewed if it is about to end. It may wait for another program that renews it."""
        if self._login is not None and self._ends():
            self._renew(self._login)
        return self._token

    def _signed(self, request: httpx2.Request) -> httpx2.Request:
        request.headers["authorization"] = f"Bearer {self._token}"
        return request

    def _ends(self) -> bool:
        return self._login is not None and 0 < self._login.expires_at <= time.time() + _EARLY_S

    def _renew(self, login: Login) -> None:
        """With the token that another program got meanwhile, or a new one; of several at once, one asks."""
        from ares.edge.client import login as logins

        with login.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            saved = read_file(login.path)
            if saved.get("token", self._token) == self._token:
                saved = logins.renewed(login, saved)
            self._token, self._login = saved["token"], saved_login(login.path, saved)
