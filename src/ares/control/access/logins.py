"""Logins by an identity provider: from its token to the principal of a user."""

import msgspec
import structlog

from ares.control.access.account_check import AccountCheck
from ares.control.access.users import Users, UserWish
from ares.core.access import jwt
from ares.core.refusal import Refusal
from ares.model.access import Principal, Provider, UserRecord
from ares.ports.provider import ProviderKeys

log = structlog.get_logger()


class Logins:
    """Only users with a record may log in. The first login makes the record where the configuration allows it."""

    def __init__(
        self, users: Users, standing: AccountCheck, providers: tuple[Provider, ...], keys: ProviderKeys | None
    ) -> None:
        self._users = users
        self._standing = standing
        self._keys = keys
        self.providers = providers

    async def authenticate(self, presented: str, now: float) -> Principal | Refusal:
        token = jwt.read(presented)
        if isinstance(token, Refusal):
            return token
        provider = jwt.provider_of(token, self.providers)
        if isinstance(provider, Refusal):
            return provider
        if self._keys is None:
            return jwt.bad("keys")
        checked = await self._keys.verify(provider, presented, token.algorithm, token.key_id)
        if checked != "good":
            return jwt.bad(checked)
        person = jwt.check(token.claims, provider, now)
        if isinstance(person, Refusal):
            return person
        return await self._enter(person, provider)

    async def _enter(self, person: jwt.VouchedPerson, provider: Provider) -> Principal | Refusal:
        user = await self._standing.user_of(person.identity) or await self._welcome(person, provider)
        if user is None:
            return jwt.bad("no_user")
        if person.tenant not in ("", user.tenant) and provider.tenant_claim:
            return jwt.bad("tenant")
        who = Principal(
            token_id=f"{provider.name}:{user.tenant}/{user.name}",
            tenant=user.tenant,
            role=user.role,
            name=user.name,
            user=user.name,
            proof="jwt",
            expires_at=person.expires_at,
        )
        return await self._standing.of(who, user.id)

    async def _welcome(self, person: jwt.VouchedPerson, provider: Provider) -> UserRecord | None:
        """The new record of a user at the first login, if the provider may create users."""
        if not person.name:
            return None
        try:
            said = {"name": person.name, "role": person.role, "identity": person.identity}
            wish = msgspec.convert(said, UserWish)
        except msgspec.ValidationError as error:
            log.warning("login.refused", provider=provider.name, name=person.name[:128], error=str(error))
            return None
        made = await self._users.enter(person.tenant, wish, f"provider:{provider.name}")
        if isinstance(made, UserRecord):
            log.info("login.user_made", provider=provider.name, tenant=made.tenant, user=made.name, role=made.role)
            return made
        # The user's first two requests may have come at once. A name that another user has is never given away.
        user = await self._standing.user_of(person.identity)
        if user is None:
            log.warning("login.refused", provider=provider.name, name=wish.name, error=made.message)
        return user
