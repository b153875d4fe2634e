"""The credential of a client's requests; a login that has ended is renewed, and the request sent again."""

import asyncio
import fcntl
import time
from collections.abc import AsyncGenerator, Generator

import httpx2

from ares.edge.client.settings import Endpoint, Login, read_file, saved_login

# So much before its end a token is renewed rather than tried.
_EARLY_S = 5.0


class Bearer(httpx2.Auth):
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
