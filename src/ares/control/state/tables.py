"""Records that services only look up: a table for each kind, by the rest of the key, fed by the view."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ares.core import keys
from ares.model.access import IdentityRecord, TenantRecord, TokenRecord, UserRecord
from ares.model.alert import AlertRecord, ChannelRecord
from ares.model.audit import AuditHead, AuditKey
from ares.model.books.book import CapacityRecord, ClosingRecord
from ares.model.books.told import Telling
from ares.model.cluster import Allowance, ClusterRecord, LentQuota
from ares.model.cron import CronRecord
from ares.model.dataset import DatasetRecord
from ares.model.isolation import Isolation
from ares.model.node import MachineRecord
from ares.model.policy import PolicyRecord
from ares.model.profile import ShadowRecord
from ares.model.quota import AdmissionRecord, MeterRecord, QuotaRecord, SpentRecord, TransferRecord
from ares.model.scaling import InstanceRecord, ScalingSwitch
from ares.model.secret import SecretRecord
from ares.model.state import ArrayRecord, FlowRecord, ProgressRecord, ReplicaRecord
from ares.model.telemetry.insight import InsightRecord
from ares.model.uplink import ClusterReport, TakenJob, UplinkRecord
from ares.ports.store import Compare, StoreChange

R = TypeVar("R")


class Table(dict[str, R]):
    """The records of one kind by name: what follows the prefix of the key, or what `name_of` makes of it.

    Invariant: `revisions` has the same names, each with the revision at which the record was written last.
    """

    __slots__ = ("_decode", "_name_of", "prefix", "revisions")

    def __init__(self, prefix: str, kind: type[R], name_of: Callable[[str], str] | None = None) -> None:
        super().__init__()
        self.prefix = prefix
        self.revisions: dict[str, int] = {}
        self._decode = msgspec.json.Decoder(kind).decode
        self._name_of = name_of

    def unchanged(self, name: str) -> Compare:
        """Unless it was made, changed or deleted since this table heard of it. For records named by their key."""
        return Compare(self.prefix + name, "mod_revision", self.revisions.get(name, 0))

    def apply(self, change: StoreChange) -> None:
        key = change.kv.key
        name = key.removeprefix(self.prefix) if self._name_of is None else self._name_of(key)
        if change.deleted:
            self.pop(name, None)
            self.revisions.pop(name, None)
        else:
            self[name] = self._decode(change.kv.value)
            self.revisions[name] = change.kv.mod_revision

    def clear(self) -> None:
        super().clear()
        self.revisions.clear()


class Tables:
    """Read by services; changed by the view alone."""

    def __init__(self) -> None:
        self.tokens = Table(keys.TOKENS, TokenRecord)
        # By job.
        self.progress = Table(keys.PROGRESS, ProgressRecord, keys.job_of)
        self.arrays = Table(keys.ARRAYS, ArrayRecord, keys.job_of)
        self.flows = Table(keys.FLOWS, FlowRecord, keys.job_of)
        self.tenants = Table(keys.TENANTS, TenantRecord)
        # By "tenant/name".
        self.users = Table(keys.USERS, UserRecord)
        # By the digest of the identity that a provider gives.
        self.identities = Table(keys.IDENTITIES, IdentityRecord)
        # By "node/name" or "cluster/name".
        self.machines = Table(keys.MACHINES, MachineRecord)
        # By "tenant/name", and "-/name" for the platform's own.
        self.policies = Table(keys.POLICIES, PolicyRecord)
        self.alerts = Table(keys.ALERTS, AlertRecord)
        self.channels = Table(keys.CHANNELS, ChannelRecord)
        self.notices = Table(keys.NOTICES, AlertRecord)
        # By "tenant/name".
        self.secrets = Table(keys.SECRETS, SecretRecord)
        self.crons = Table(keys.CRONS, CronRecord)
        self.datasets = Table(keys.DATASETS, DatasetRecord)
        self.instances = Table(keys.INSTANCES, InstanceRecord)
        # By pool.
        self.scaling = Table(keys.SCALING, ScalingSwitch)
        # By tenant.
        self.quotas = Table(keys.QUOTAS, QuotaRecord)
        self.admissions = Table(keys.ADMISSIONS, AdmissionRecord)
        # By "tenant/month", and with the replica.
        self.spent = Table(keys.SPENT, SpentRecord)
        self.meters = Table(keys.METERS, MeterRecord)
        # How far the books are closed; what pools have on days that are not, by day.
        self.closings = Table(keys.CLOSINGS, ClosingRecord)
        self.insights = Table(keys.INSIGHTS, InsightRecord)
        self.capacity = Table(keys.CAPACITY, CapacityRecord)
        # By replica.
        self.transfers = Table(keys.TRANSFERS, TransferRecord)
        self.replicas = Table(keys.REPLICAS, ReplicaRecord)
        self.clusters = Table(keys.CLUSTERS, ClusterRecord)
        self.reports = Table(keys.REPORTS, ClusterReport)
        self.tellings = Table(keys.TELLINGS, Telling)
        # By job.
        self.taken = Table(keys.TAKEN, TakenJob, keys.job_of)
        # By "cluster/tenant", and by tenant.
        self.escrow = Table(keys.ESCROW, LentQuota)
        self.allowances = Table(keys.ALLOWANCES, Allowance)
        # One at most, under the empty name.
        self.uplink = Table(keys.UPLINK, UplinkRecord)
        self.shadow = Table(keys.SHADOW, ShadowRecord)
        # By "chain/number", and by the key's id.
        self.audit_heads = Table(keys.AUDIT_HEADS, AuditHead)
        self.audit_keys = Table(keys.AUDIT_KEYS, AuditKey)
        self.by_prefix: dict[str, Table[Any]] = {
            table.prefix: table for table in vars(self).values() if isinstance(table, Table)
        }

    def isolation(self, tenant: str) -> Isolation:
        """What a tenant asks for all of its jobs."""
        record = self.tenants.get(tenant)
        return "any" if record is None else record.isolation

    @property
    def closed_until(self) -> float:
        """Jobs that end with an earlier time belong to the day that begins then."""
        closing = self.closings.get(keys.BOOKS_CLOSING)
        return 0.0 if closing is None else closing.until

    def clear(self) -> None:
        for table in self.by_prefix.values():
            table.clear()
