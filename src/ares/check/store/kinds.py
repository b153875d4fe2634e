"""The kinds of records in a store: where each is, what it decodes to, and which record a key names.

Written down a second time on purpose: a mistake in the keys of the code under test must not hide itself here.
"""

import hashlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from ares.model.access import BootstrapRecord, IdentityRecord, TenantRecord, TokenRecord, UserRecord
from ares.model.alert import AlertRecord, ChannelRecord
from ares.model.audit import AuditHead, AuditKey
from ares.model.books.book import CapacityRecord, ClosingRecord, PlatformBook, TenantBook
from ares.model.books.told import Telling
from ares.model.checkpoint import CheckpointRecord, SealingRecord
from ares.model.cluster import Allowance, ClusterRecord, LentQuota
from ares.model.cron import CronRecord
from ares.model.dataset import DatasetRecord
from ares.model.job import JobSpec
from ares.model.node import AuthorityRecord, MachineRecord, NodeLease, NodeRecord, RemovedNode
from ares.model.policy import PolicyRecord
from ares.model.profile import ProfileRecord, ShadowRecord
from ares.model.quota import AdmissionRecord, MeterRecord, QuotaRecord, SpentRecord, TransferRecord
from ares.model.reservation import Reservation
from ares.model.scaling import InstanceRecord, ScalingSwitch
from ares.model.secret import SecretRecord
from ares.model.state import (
    ArrayRecord,
    FlowRecord,
    JobState,
    LeaderRecord,
    LedgerEvent,
    ProgressRecord,
    ReplicaRecord,
    RequestRecord,
    Result,
    RetryBudget,
    StoreProof,
)
from ares.model.telemetry.insight import InsightRecord
from ares.model.timing import ClockRecord
from ares.model.uplink import ClusterReport, TakenJob, UplinkRecord

# A job's id is random characters and then its time; its keys have the time in front.
_RANDOM_CHARS = 9
_TIME_CHARS = 7


class EpochReading(msgspec.Struct, frozen=True):
    epoch: int
    id: str


class Format(msgspec.Struct, frozen=True):
    format: int


# The newest that these checks know.
KNOWN_FORMAT = 8


class Whose(NamedTuple):
    """What a key of a tenant's record says about it."""

    tenant: str
    job: str
    seq: int = 0


def of_job(tail: str) -> Whose | None:
    """TENANT/JOB, as all of a job's records have it, or TENANT/JOB/SEQ as its ledger entries do."""
    tenant, _, rest = tail.partition("/")
    job, _, seq = rest.partition("/")
    if not tenant or not job or (seq and not (len(seq) == 10 and seq.isdecimal())):
        return None
    return Whose(tenant, straight(job), int(seq or 0))


def straight(turned: str) -> str:
    """The id of a job from how its keys have it."""
    base, task, number = turned.partition("_")
    if len(base) == _RANDOM_CHARS + _TIME_CHARS:
        base = base[_TIME_CHARS:] + base[:_TIME_CHARS]
    return f"{base}{task}{number}"


def turned(job: str) -> str:
    """How a job's keys have its id."""
    base, task, number = job.partition("_")
    if len(base) == _RANDOM_CHARS + _TIME_CHARS:
        base = base[_RANDOM_CHARS:] + base[:_RANDOM_CHARS]
    return f"{base}{task}{number}"


class RecordKind(NamedTuple):
    """`names` says whether the rest of a key is the right one for a record."""

    prefix: str
    record: type[Any]
    names: Callable[[str, Any], bool]


def _job(tail: str, record: Any) -> bool:
    whose = of_job(tail)
    return whose is not None and whose.job == record.job


def _own(tail: str, record: Any) -> bool:
    return of_job(tail) == (record.tenant, record.id, 0)


def _event(tail: str, event: LedgerEvent) -> bool:
    return of_job(tail) == (event.tenant, event.job, event.seq)


def _root(tail: str, budget: RetryBudget) -> bool:
    whose = of_job(tail)
    return whose is not None and whose.job == budget.root


def _version(tail: str, profile: ProfileRecord) -> bool:
    return tail == f"{profile.version:010d}"


def _of_job(tail: str, record: object) -> bool:
    return of_job(tail) is not None


def _of_tenant(tail: str, record: object) -> bool:
    return all(tail.partition("/"))


def _user(tail: str, user: UserRecord | SecretRecord | DatasetRecord) -> bool:
    return tail == f"{user.tenant}/{user.name}"


def _machine(tail: str, machine: MachineRecord) -> bool:
    return tail == f"{machine.role}/{machine.name}"


def _escrow(tail: str, lent: LentQuota) -> bool:
    return tail == f"{lent.cluster}/{lent.tenant}"


def _digest(tail: str, identity: IdentityRecord) -> bool:
    return tail == hashlib.sha256(identity.identity.encode()).hexdigest()


def _scoped(path: str) -> Callable[[str, Any], bool]:
    """TENANT/NAME, or -/NAME for what is the platform's own."""
    read = attrgetter(path)

    def names(tail: str, record: Any) -> bool:
        return tail == f"{record.tenant or '-'}/{read(record)}"

    return names


def _policy_version(tail: str, policy: PolicyRecord) -> bool:
    return tail == f"{policy.tenant or '-'}/{policy.name}/{policy.version:010d}"


def _spent(tail: str, spent: SpentRecord) -> bool:
    return tail == f"{spent.tenant}/{spent.month}"


def _book(tail: str, book: TenantBook) -> bool:
    return tail == f"{book.tenant}/{book.day}"


def _told_book(tail: str, book: TenantBook) -> bool:
    return tail == f"{book.cluster}/{book.tenant}/{book.day}/{book.incarnation:010d}"


def _told_day(tail: str, book: PlatformBook) -> bool:
    return tail == f"{book.cluster}/{book.day}/{book.incarnation:010d}"


def _meter(tail: str, meter: MeterRecord) -> bool:
    return tail == f"{meter.tenant}/{meter.month}/{meter.replica}"


def _head(tail: str, head: AuditHead) -> bool:
    return tail == f"{head.chain}/{head.seq:016d}"


def _any(tail: str, record: object) -> bool:
    return True


def _field(path: str) -> Callable[[str, Any], bool]:
    read = attrgetter(path)

    def names(tail: str, record: Any) -> bool:
        return tail == read(record)

    return names


def _checkpoint(tail: str, checkpoint: CheckpointRecord) -> bool:
    """TENANT/JOB/FENCE/NUMBER, the last two with so many digits that keys are in their order."""
    pointer, parts = checkpoint.pointer, tail.split("/")
    place = [f"{pointer.fence.epoch:010d}.{pointer.fence.counter:010d}", f"{pointer.seq:019d}"]
    return len(parts) == 4 and straight(parts[1]) == checkpoint.job and parts[2:] == place


SPECS = RecordKind("/jobs/", JobSpec, _of_job)
STATES = RecordKind("/state/", JobState, _own)
EVENTS = RecordKind("/events/", LedgerEvent, _event)
RESULTS = RecordKind("/results/", Result, _job)
PROGRESS = RecordKind("/progress/", ProgressRecord, _job)
CHECKPOINTS = RecordKind("/checkpoints/", CheckpointRecord, _checkpoint)
SEALING = RecordKind("/sealing/", SealingRecord, _job)
ARRAYS = RecordKind("/arrays/", ArrayRecord, _own)
FLOWS = RecordKind("/flows/", FlowRecord, _own)
RETRIES = RecordKind("/retry/", RetryBudget, _root)
REQUESTS = RecordKind("/requests/", RequestRecord, _of_tenant)
NODES = RecordKind("/nodes/", NodeRecord, _field("info.name"))
LEASES = RecordKind("/leases/", NodeLease, _field("node"))
REMOVED = RecordKind("/removed-nodes/", RemovedNode, _any)
TOKENS = RecordKind("/tokens/", TokenRecord, _field("id"))
QUOTAS = RecordKind("/quotas/", QuotaRecord, _field("tenant"))
ADMISSIONS = RecordKind("/admissions/", AdmissionRecord, _any)
SPENT = RecordKind("/spent/", SpentRecord, _spent)
METERS = RecordKind("/meters/", MeterRecord, _meter)
BOOKS = RecordKind("/books/", TenantBook, _book)
PLATFORM_BOOKS = RecordKind("/platform-books/", PlatformBook, _field("day"))
TOLD_BOOKS = RecordKind("/told-books/", TenantBook, _told_book)
TOLD_DAYS = RecordKind("/told-days/", PlatformBook, _told_day)
TELLINGS = RecordKind("/tellings/", Telling, _field("cluster"))
CLOSINGS = RecordKind("/closings/", ClosingRecord, _any)
INSIGHTS = RecordKind("/insights/", InsightRecord, _field("id"))
CAPACITY = RecordKind("/capacity/", CapacityRecord, _field("day"))
TRANSFERS = RecordKind("/transfers/", TransferRecord, _field("replica"))
REPLICAS = RecordKind("/replicas/", ReplicaRecord, _field("replica"))
TENANTS = RecordKind("/tenants/", TenantRecord, _field("name"))
USERS = RecordKind("/users/", UserRecord, _user)
SECRETS = RecordKind("/secrets/", SecretRecord, _user)
CRONS = RecordKind("/crons/", CronRecord, _user)
DATASETS = RecordKind("/datasets/", DatasetRecord, _user)
IDENTITIES = RecordKind("/identities/", IdentityRecord, _digest)
MACHINES = RecordKind("/machines/", MachineRecord, _machine)
AUTHORITY = RecordKind("/authority", AuthorityRecord, _any)
POLICIES = RecordKind("/policies/", PolicyRecord, _scoped("name"))
POLICY_HISTORY = RecordKind("/policy-history/", PolicyRecord, _policy_version)
ALERTS = RecordKind("/alerts/", AlertRecord, _scoped("id"))
NOTICES = RecordKind("/notices/", AlertRecord, _scoped("id"))
CHANNELS = RecordKind("/channels/", ChannelRecord, _scoped("name"))
AUDIT_HEADS = RecordKind("/audit-heads/", AuditHead, _head)
AUDIT_KEYS = RecordKind("/audit-keys/", AuditKey, _field("id"))
CLUSTERS = RecordKind("/clusters/", ClusterRecord, _field("name"))
REPORTS = RecordKind("/reports/", ClusterReport, _field("cluster"))
TAKEN = RecordKind("/taken/", TakenJob, _job)
ESCROW = RecordKind("/escrow/", LentQuota, _escrow)
ALLOWANCES = RecordKind("/allowances/", Allowance, _field("tenant"))
UPLINK = RecordKind("/uplink", UplinkRecord, _any)
LEADERS = RecordKind("/leader/", LeaderRecord, _any)
PROFILES = RecordKind("/profiles/", ProfileRecord, _version)
SHADOW = RecordKind("/shadow", ShadowRecord, _any)
RESERVATIONS = RecordKind("/reservations/", Reservation, _field("name"))
INSTANCES = RecordKind("/instances/", InstanceRecord, _field("id"))
SCALING = RecordKind("/scaling/", ScalingSwitch, _field("pool"))
# Not JSON: the name of the reservation that was booked last.
BOOKINGS = RecordKind("/bookings", bytes, _any)
PREDICTIONS = RecordKind("/predictions", dict, _any)
MODEL = RecordKind("/prediction-model", dict, _any)
EPOCH = RecordKind("/epoch", EpochReading, _any)
FORMAT = RecordKind("/format", Format, _any)
SETTLED = RecordKind("/settled", int, _any)
PROOF = RecordKind("/proof", StoreProof, _any)
BOOTSTRAP = RecordKind("/bootstrap", BootstrapRecord, _any)
CLOCK = RecordKind("/clock", ClockRecord, _any)

# Those that lie side by side for one job.
PER_JOB = (SPECS, STATES, EVENTS, RESULTS, PROGRESS, ARRAYS, RETRIES)
# Of the platform as a whole, and few.
OF_ALL = (
    NODES, LEASES, REMOVED, TOKENS, TENANTS, USERS, SECRETS, IDENTITIES, LEADERS, PROFILES, RESERVATIONS, BOOKINGS,
    CRONS, DATASETS, PREDICTIONS, MODEL, EPOCH, FORMAT, SETTLED, BOOTSTRAP, CLOCK, PROOF, MACHINES, AUTHORITY, POLICIES,
    POLICY_HISTORY, ALERTS, NOTICES, CHANNELS, FLOWS, QUOTAS, ADMISSIONS, SPENT, METERS, TRANSFERS, REPLICAS,
    AUDIT_HEADS, AUDIT_KEYS, SHADOW,
    INSTANCES, SCALING, CHECKPOINTS, SEALING, BOOKS, PLATFORM_BOOKS, CLOSINGS, CAPACITY, INSIGHTS,
    CLUSTERS, REPORTS, TAKEN, ESCROW, ALLOWANCES, UPLINK, TOLD_BOOKS, TOLD_DAYS, TELLINGS,
)  # fmt: skip
