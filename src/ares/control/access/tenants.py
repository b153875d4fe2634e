"""Tenants: made by the platform's administrators, disabled rather than deleted."""

from collections.abc import Iterable

import msgspec
import structlog
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ares.control.state.records import Records, absent, same
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import reaches
from ares.core.refusal import Refusal
from ares.model.access import Isolation, Principal, TenantRecord
from ares.model.base import Note, Record, Slug
from ares.ports.clock import Clock
from ares.ports.store import Put, Store

log = structlog.get_logger()

# The tenant of the nodes' credentials. It has no users.
PLATFORM = "system"
_NONE = Refusal(code="not-found")


class TenantChange(Record, frozen=True):
    """What is left out stays as it is."""

    note: Note | UnsetType = UNSET
    isolation: Isolation | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


def no_tenant(name: str) -> Refusal:
    fix = f"make it first: `ares tenant create {name}`; `ares tenant list` shows those there are"
    return Refusal(code="no-such-tenant", message=f"there is no tenant {name!r}", fix=fix)


class Tenants:
    def __init__(self, store: Store, view: View, clock: Clock) -> None:
        self._records = Records(store, view)
        self._view = view
        self._clock = clock

    async def create(
        self, who: Principal, name: Slug, *, note: str = "", isolation: Isolation = "any"
    ) -> TenantRecord | Refusal:
        record = TenantRecord(
            name=name, created_at=self._clock.wall(), created_by=who.subject, note=note, isolation=isolation
        )
        return await self._create(record)

    async def list(self, who: Principal) -> tuple[TenantRecord, ...]:
        await self._view.catch_up()
        tenants = self._view.kept.tenants
        return tuple(tenants[name] for name in sorted(tenants) if reaches(who, "tenants:read", name))

    async def get(self, who: Principal, name: str) -> TenantRecord | None:
        if not reaches(who, "tenants:read", name):
            return None
        found = await self._records.read(keys.tenant(name), TenantRecord)
        return None if found is None else found[1]

    async def update(self, who: Principal, name: str, change: TenantChange) -> TenantRecord | Refusal:
        if change.disabled is True and name == (who.home or who.tenant):
            message = f"{name!r} is your own tenant: disabled, it would let nobody in who could enable it again"
            fix = "disable it with a credential of another tenant"
            return Refusal(code="self-lockout", message=message, fix=fix)
        given = {key: value for key, value in msgspec.structs.asdict(change).items() if value is not UNSET}

        async def attempt() -> TenantRecord | Refusal | None:
            found = await self._records.read(keys.tenant(name), TenantRecord)
            if found is None:
                return _NONE
            kv, record = found
            changed = replace(record, **given)
            if changed == record or await self._records.write([same(kv)], [Put(kv.key, msgspec.json.encode(changed))]):
                return changed
            return None

        return await self._records.settle(f"the change of tenant {name!r}", attempt)

    async def ensure(self, names: Iterable[str]) -> None:
        """Tenants that credentials name get a record, exactly once: they come from before there were any."""
        for name in sorted(set(names) - {PLATFORM} - set(self._view.kept.tenants)):
            record = TenantRecord(name=name, created_at=self._clock.wall())
            try:
                msgspec.convert(msgspec.to_builtins(record), TenantRecord)
            except msgspec.ValidationError:
                # Written, it could not be read again.
                log.warning("tenant.unusable_name", tenant=name)
                continue
            await self._create(record)

    async def _create(self, record: TenantRecord) -> TenantRecord | Refusal:
        key, value = keys.tenant(record.name), msgspec.json.encode(record)
        if record.name == PLATFORM:
            message = f"{PLATFORM!r} is the platform's own name"
            return Refusal(code="tenant-exists", message=message, fix="choose another name")

        async def attempt() -> TenantRecord | Refusal | None:
            if await self._records.write([absent(key)], [Put(key, value)]):
                return record
            found = await self._records.read(key, TenantRecord)
            if found is None:
                return None
            # An earlier try of this very call may have landed.
            if found[1] == record:
                return record
            fix = f"`ares tenant show {record.name}` shows it; choose another name for another tenant"
            return Refusal(code="tenant-exists", message=f"there is a tenant {record.name!r} already", fix=fix)

        return await self._records.settle(f"the tenant {record.name!r}", attempt)
