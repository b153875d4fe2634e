"""Whether the account behind a credential is still the one it was made for. Checked at every authentication."""

from msgspec.structs import replace

from ares.control.state.records import Records
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import lesser, narrowed
from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.model.access import IdentityRecord, Principal, UserRecord
from ares.ports.store import Store


class AccountCheck:
    """Reads the view. A record that it lacks is read from the store: another replica may have just made it."""

    def __init__(self, store: Store, view: View) -> None:
        self._records = Records(store, view)
        self._view = view

    async def of(self, who: Principal, user_id: str) -> Principal | Refusal:
        """The principal with the rights that its tenant and user still have. `user_id`: the record it was made for."""
        if (no := self.shut(who.tenant)) is not None or not who.user:
            return no or who
        user = await self.user(who.tenant, who.user)
        if user is None or user.id != user_id:
            return denied("revoked", "user_gone")
        if user.disabled:
            return denied("revoked", "user_disabled")
        role, common = lesser(who.role, user.role)
        permissions = who.permissions if common is None else narrowed(common, who.permissions)
        return replace(who, user_id=user.id, role=role, team=user.team, permissions=permissions)

    def shut(self, tenant: str) -> Refusal | None:
        record = self._view.kept.tenants.get(tenant)
        return denied("revoked", "tenant_disabled") if record is not None and record.disabled else None

    async def user(self, tenant: str, name: str) -> UserRecord | None:
        known = self._view.kept.users.get(f"{tenant}/{name}")
        if known is not None:
            return known
        found = await self._records.read(keys.user(tenant, name), UserRecord)
        return None if found is None else found[1]

    async def user_of(self, identity: str) -> UserRecord | None:
        """Whose login it is."""
        key = keys.identity(identity)
        known = self._view.kept.identities.get(key.removeprefix(keys.IDENTITIES))
        if known is None:
            found = await self._records.read(key, IdentityRecord)
            if found is None:
                return None
            known = found[1]
        user = await self.user(known.tenant, known.user)
        return user if user is not None and user.identity == identity else None
