"""Logins in a browser by an identity provider: from a page's wish to a session."""

from typing import Final

import structlog
from msgspec import structs

from ares.control.access.browser_sessions import BrowserSessions
from ares.control.access.logins import Logins
from ares.control.state.ids import base64url
from ares.control.state.view import View
from ares.core.access import code_login, jwt
from ares.core.access.code_login import CodeLogin
from ares.core.refusal import Refusal
from ares.model.access import Principal, Provider, TokenRecord
from ares.ports.clock import Clock, Rng
from ares.ports.provider import CodeRefused, ProviderAway, ProviderCodes
from ares.ports.store import Store

log = structlog.get_logger()

_AGAIN: Final = "Log in again."
_AWAY_AGAIN_S: Final = 10.0


class BrowserLogins:
    """The clock is one that never goes back, as for tokens."""

    def __init__(
        self, store: Store, view: View, logins: Logins, codes: ProviderCodes | None, clock: Clock, rng: Rng
    ) -> None:
        self.sessions = BrowserSessions(store, view, clock, rng)
        self._logins = logins
        self._codes = codes
        self._clock = clock
        self._rng = rng

    @property
    def providers(self) -> tuple[str, ...]:
        """By which a browser may log in."""
        return tuple(provider.name for provider in self._logins.providers if provider.authorize_url)

    def begin(self, name: str, origin: str) -> tuple[CodeLogin, str] | Refusal:
        """A login to be kept by the browser alone, and where the browser goes. `origin` is how it calls this server."""
        provider = self._provider(name)
        if provider is None:
            there = ", ".join(self.providers) or "none"
            return Refusal(code="not-found", message=f"no provider {name!r} lets browsers log in; there is: {there}")
        login = CodeLogin(provider=name, secret=base64url(self._rng.token(code_login.SECRET_BYTES)))
        return login, code_login.address(login, provider, _redirect(provider, origin))

    async def finish(
        self, kept: str, code: str, state: str, origin: str
    ) -> tuple[Principal, tuple[str, TokenRecord]] | Refusal:
        """The person who logged in, and the session. `kept` is what the browser kept of the beginning."""
        login = code_login.read(kept)
        provider = None if login is None else self._provider(login.provider)
        if login is None or provider is None or not login.answers(state):
            return _failed("state", "This login was not begun in this browser, or more than ten minutes ago.")
        who = await self._person(login, provider, code, origin)
        if isinstance(who, Refusal):
            return who
        # The provider's token says who it is now, and not how long: the user's record ends the session, or time.
        made = await self.sessions.open(structs.replace(who, expires_at=None), "")
        return made if isinstance(made, Refusal) else (who, made)

    async def _person(self, login: CodeLogin, provider: Provider, code: str, origin: str) -> Principal | Refusal:
        if self._codes is None:
            return _away()
        try:
            token = await self._codes.redeem(provider, code, login.verifier, _redirect(provider, origin))
        except CodeRefused as error:
            log.warning("login.code_refused", provider=provider.name, error=str(error))
            return _failed("code", f"{provider.name} gives nothing for this login: it was used before, or is too old.")
        except ProviderAway as error:
            log.warning("login.provider_away", provider=provider.name, error=str(error))
            return _away()
        who = await self._vouched(login, provider, token)
        if not isinstance(who, Refusal):
            return who
        if who.reason == jwt.bad("no_user").reason:
            asked = "Ask an administrator for a user with your identity."
            return _failed("no_user", f"{provider.name} knows you, and Ares has no user for you.", asked)
        return _failed(who.reason, f"What {provider.name} says of this login is not accepted; the audit log says why.")

    async def _vouched(self, login: CodeLogin, provider: Provider, token: str) -> Principal | Refusal:
        read = jwt.read(token)
        if isinstance(read, Refusal):
            return read
        if provider.send == "id_token" and not code_login.is_for(login, read.claims):
            return jwt.bad("nonce")
        if read.claims.get("iss") != provider.issuer:
            return jwt.bad("iss")
        return await self._logins.authenticate(token, self._clock.wall())

    def _provider(self, name: str) -> Provider | None:
        known = (provider for provider in self._logins.providers if provider.authorize_url)
        return next((provider for provider in known if provider.name == name), None)


def _redirect(provider: Provider, origin: str) -> str:
    """Where the provider sends the browser back to."""
    return provider.redirect_url or f"{origin}/ui/login"


def _failed(why: str, message: str, fix: str = _AGAIN) -> Refusal:
    return Refusal(code="login-failed", message=message, fix=fix, reason=f"login:{why}")


def _away() -> Refusal:
    return Refusal(code="provider-away", reason="login:away", retry_after_s=_AWAY_AGAIN_S)
