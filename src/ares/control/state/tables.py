"""Records that services only look up: one dict for each kind, by the rest of the key, fed by the view."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ares.core import keys
from ares.model.access import TokenRecord
from ares.model.alert import AlertRecord, ChannelRecord
from ares.model.audit import AuditHead, AuditKey
from ares.model.isolation import Isolation
from ares.model.machine import MachineRecord
from ares.model.policy import PolicyRecord
from ares.model.quota import AdmissionRecord, MeterRecord, QuotaRecord, SpentRecord
from ares.model.secret import SecretRecord
from ares.model.state import ArrayRecord, ProgressRecord
from ares.model.tenant import IdentityRecord, TenantRecord, UserRecord
from ares.ports.store import StoreChange


class _Kind(NamedTuple):
    prefix: str
    records: dict[str, Any]
    type: type[Any]
    # What a record is called here; as a rule, what follows the prefix.
    name_of: Callable[[str], str] | None = None


class Tables:
    """Read by services; changed by the view alone."""

    def __init__(self) -> None:
        self.tokens: dict[str, TokenRecord] = {}
        # By job.
        self.progress: dict[str, ProgressRecord] = {}
        self.arrays: dict[str, ArrayRecord] = {}
        self.tenants: dict[str, TenantRecord] = {}
        # By "tenant/name".
        self.users: dict[str, UserRecord] = {}
        # By the digest of who a provider says they are.
        self.identities: dict[str, IdentityRecord] = {}
        # By "node/name" or "cluster/name".
        self.machines: dict[str, MachineRecord] = {}
        # By "tenant/name", and "-/name" for the platform's own.
        self.policies: dict[str, PolicyRecord] = {}
        self.alerts: dict[str, AlertRecord] = {}
        self.channels: dict[str, ChannelRecord] = {}
        # By "tenant/name".
        self.secrets: dict[str, SecretRecord] = {}
        # By tenant.
        self.quotas: dict[str, QuotaRecord] = {}
        self.admissions: dict[str, AdmissionRecord] = {}
        # By "tenant/month", and with the replica.
        self.spent: dict[str, SpentRecord] = {}
        self.meters: dict[str, MeterRecord] = {}
        # By "chain/number", and by the key's id.
        self.audit_heads: dict[str, AuditHead] = {}
        self.audit_keys: dict[str, AuditKey] = {}
        # Of each record by its whole key, for compare-and-swap.
        self.revisions: dict[str, int] = {}
        kinds = (
            _Kind(keys.TOKENS, self.tokens, TokenRecord),
            _Kind(keys.PROGRESS, self.progress, ProgressRecord, keys.job_of),
            _Kind(keys.ARRAYS, self.arrays, ArrayRecord, keys.job_of),
            _Kind(keys.TENANTS, self.tenants, TenantRecord),
            _Kind(keys.USERS, self.users, UserRecord),
            _Kind(keys.SECRETS, self.secrets, SecretRecord),
            _Kind(keys.IDENTITIES, self.identities, IdentityRecord),
            _Kind(keys.MACHINES, self.machines, MachineRecord),
            _Kind(keys.POLICIES, self.policies, PolicyRecord),
            _Kind(keys.ALERTS, self.alerts, AlertRecord),
            _Kind(keys.CHANNELS, self.channels, ChannelRecord),
            _Kind(keys.QUOTAS, self.quotas, QuotaRecord),
            _Kind(keys.ADMISSIONS, self.admissions, AdmissionRecord),
            _Kind(keys.SPENT, self.spent, SpentRecord),
            _Kind(keys.METERS, self.meters, MeterRecord),
            _Kind(keys.AUDIT_HEADS, self.audit_heads, AuditHead),
            _Kind(keys.AUDIT_KEYS, self.audit_keys, AuditKey),
        )
        self.kinds = {kind.prefix: kind for kind in kinds}

    def isolation(self, tenant: str) -> Isolation:
        """What a tenant asks for all of its jobs."""
        record = self.tenants.get(tenant)
        return "any" if record is None else record.isolation

    def clear(self) -> None:
        self.revisions.clear()
        for kind in self.kinds.values():
            kind.records.clear()

    def apply(self, kind: str, change: StoreChange) -> None:
        _, records, record_type, name_of = self.kinds[kind]
        key = change.kv.key
        name = key.removeprefix(kind) if name_of is None else name_of(key)
        if change.deleted:
            records.pop(name, None)
            self.revisions.pop(key, None)
        else:
            records[name] = msgspec.json.decode(change.kv.value, type=record_type)
            self.revisions[key] = change.kv.mod_revision
